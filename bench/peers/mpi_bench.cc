// MPI_Allreduce under the harness, built once for each MPI; one process per rank, started by its mpirun.
#include <mpi.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "bench/peers/harness.h"

int main(int argc, char** argv) try {
  using namespace tutti::peers;
  MPI_Init(&argc, &argv);  // its default error handler ends the job
  const Settings settings = Settings::from_arguments(argc, argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    ControlPage page(settings.page, rank, ranks);
    const auto prepare = [](const float* input, float* output, std::size_t count) {
      return [input, output, count] {
        MPI_Allreduce(input, output, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      };
    };
    measure_sizes(settings, page, "default", Placement::out_of_place, prepare,
                  [](std::size_t) { return std::string(); });
  }
  MPI_Finalize();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "mpi_bench: %s\n", error.what());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 1;
}
