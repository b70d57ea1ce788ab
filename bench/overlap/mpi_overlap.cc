// MPI_Iallreduce behind a computation (overlap.h); one process per rank, started by the MPI's launcher.
#include <mpi.h>

#include <cstdio>
#include <exception>

#include "bench/overlap/overlap.h"

namespace {

struct Library {
  const float* input;
  float* output;
  int count;
  MPI_Request request = MPI_REQUEST_NULL;

  void reduce() { MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
  void start() { MPI_Iallreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request); }
  void done() {
    int complete = 0;
    MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
  }
  void wait() { MPI_Wait(&request, MPI_STATUS_IGNORE); }
};

}  // namespace

int main(int argc, char** argv) try {
  MPI_Init(&argc, &argv);  // its default error handler ends the job
  const auto settings = tutti::peers::Settings::from_arguments(argc, argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    tutti::peers::ControlPage page(settings.page, rank, ranks);
    for (const std::size_t bytes : settings.sizes) {
      const std::size_t count = bytes / sizeof(float);
      const tutti::peers::Buffer input(count), output(count);
      Library library{input.data(), output.data(), static_cast<int>(count)};
      tutti::peers::write_input(input.data(), count, rank, 1);
      tutti::overlap::measure(settings, page, bytes, library);
      if (tutti::peers::wrong_elements(output.data(), count, ranks, 1) != 0)
        throw std::runtime_error("the result is wrong");
    }
  }
  MPI_Finalize();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "mpi_overlap: %s\n", error.what());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}
