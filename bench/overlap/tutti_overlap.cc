// Tutti's asynchronous all-reduce behind a computation (overlap.h); one process per rank, started by `tutti run`.
#include <cstdio>
#include <exception>

#include "bench/overlap/overlap.h"
#include "tutti/communicator.h"

namespace {

struct Library {
  tutti::Communicator& world;
  const float* input;
  float* output;
  std::size_t count;
  tutti::Work work{};

  void reduce() { world.all_reduce(input, output, count, tutti::DataType::float32); }
  void start() { work = world.all_reduce_async(input, output, count, tutti::DataType::float32); }
  void done() const { static_cast<void>(work.test()); }
  void wait() { work.wait(); }
};

}  // namespace

int main(int argc, char** argv) try {
  const auto settings = tutti::peers::Settings::from_arguments(argc, argv);
  tutti::Communicator world = tutti::Communicator::connect();
  tutti::peers::ControlPage page(settings.page, world.rank(), world.size());
  for (const std::size_t bytes : settings.sizes) {
    const std::size_t count = bytes / sizeof(float);
    const tutti::peers::Buffer input(count), output(count);
    Library library{world, input.data(), output.data(), count};
    tutti::peers::write_input(input.data(), count, world.rank(), 1);
    tutti::overlap::measure(settings, page, bytes, library);
    if (tutti::peers::wrong_elements(output.data(), count, world.size(), 1) != 0)
      throw std::runtime_error("the result is wrong");
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "tutti_overlap: %s\n", error.what());
  return 1;
}
