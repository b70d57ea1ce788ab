// What a communicator takes of its process, as docs/design.md states it: descriptors, threads, mappings and memory; and
// that nothing of it is left afterwards.
#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/runtime/ranks.h"
#include "tutti/communicator.h"

using namespace tutti;
using namespace std::chrono_literals;
using tutti::test::in_processes;
using tutti::test::on_threads;

namespace {

// Calls use(number) for every open descriptor of this process.
void for_each_descriptor(const std::function<void(int)>& use) {
  DIR* dir = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(dir))
    if (entry->d_name[0] != '.' && std::stoi(entry->d_name) != ::dirfd(dir)) use(std::stoi(entry->d_name));
  ::closedir(dir);
}

std::size_t descriptors() {
  std::size_t count = 0;
  for_each_descriptor([&](int) { ++count; });
  return count;
}

// What a descriptor refers to: "/memfd:tutti (deleted)", "socket:[4711]", "anon_inode:[eventpoll]".
std::string target_of(int fd) {
  std::array<char, 128> target{};
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target.data(), target.size());
  return {target.data(), static_cast<std::size_t>(std::max<ssize_t>(0, length))};
}

// Open descriptors above standard error that refer to such a thing.
std::size_t descriptors_of(const std::string& kind) {
  std::size_t count = 0;
  for_each_descriptor([&](int fd) { count += fd > 2 && target_of(fd).rfind(kind, 0) == 0; });
  return count;
}

// A number of /proc/self/status: threads, or KiB of memory.
std::size_t status_field(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;)
    if (word == name) {
      std::size_t value = 0;
      file >> value;
      return value;
    }
  return 0;
}

std::size_t heap() { return ::mallinfo2().uordblks; }  // bytes in use

std::size_t threads() { return status_field("Threads:"); }

// Mappings whose line holds `text`.
std::size_t mappings(const std::string& text = "") {
  std::ifstream file("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) count += line.find(text) != std::string::npos;
  return count;
}

// Bytes of pages in the arenas that are open in this process.
std::size_t arena_pages() {
  std::size_t bytes = 0;
  for_each_descriptor([&](int fd) {
    struct stat status {};
    if (target_of(fd).rfind("/memfd:tutti", 0) == 0 && ::fstat(fd, &status) == 0)
      bytes += static_cast<std::size_t>(status.st_blocks) * 512;
  });
  return bytes;
}

// The engine's thread ends a moment after its last user, and doors close on it.
bool settles(const std::function<std::size_t()>& count, std::size_t limit, int seconds = 2) {
  for (int i = 0; i < seconds * 100 && count() > limit; ++i) std::this_thread::sleep_for(10ms);
  return count() <= limit;
}

void use_once(Communicator& comm, std::size_t count = 100) {
  std::vector<float> data(count, 1.0f);
  comm.all_reduce(std::span(data));
  if (data.back() != static_cast<float>(comm.size())) throw std::runtime_error("wrong sum");
}

// What this process holds now.
struct Footprint {
  std::size_t descriptors = ::descriptors(), threads = ::threads(), arenas = mappings("memfd:tutti");
  std::size_t all_mappings = mappings(), heap = ::heap(), resident = status_field("VmRSS:") * 1024;
};

constexpr std::size_t kKib = 1024;
constexpr std::size_t kHeapPerRound = 64;

// What is left after `rounds` rounds of create, use and destroy; empty when it is nothing that grows with them. The C
// library keeps stacks and heaps of threads for later ones.
std::string leak(const Footprint& before, std::size_t rounds) {
  settles(::descriptors, before.descriptors);
  settles(::threads, before.threads);
  settles(heap, before.heap + rounds * kHeapPerRound, 8);  // what waits for a late comer does so for five seconds
  ::malloc_trim(0);
  const Footprint after;
  const auto grown = [](const char* what, std::size_t from, std::size_t to, std::size_t allowed) {
    return to <= from + allowed ? std::string()
                                : std::string(what) + " " + std::to_string(from) + " to " + std::to_string(to) + "; ";
  };
  return grown("descriptors", before.descriptors, after.descriptors, 0) +
         grown("threads", before.threads, after.threads, 0) + grown("arenas", before.arenas, after.arenas, 0) +
         grown("mappings", before.all_mappings, after.all_mappings, rounds / 20) +
         grown("heap", before.heap, after.heap, rounds * kHeapPerRound) +
         grown("resident", before.resident, after.resident, 1024 * kKib + rounds * kKib);
}

}  // namespace

TEST_CASE("a communicator of one rank has no buffers, no threads and no descriptors") {
  Communicator::connect_threads(1).front().barrier();  // what the process needs once
  const Footprint before;
  std::vector<Communicator> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(std::move(Communicator::connect_threads(1).front()));
    use_once(many.back());
    std::vector<float> data(100, 2.0f), copy(100);
    many.back().all_gather(data.data(), copy.data(), data.size(), DataType::float32);
    many.back().broadcast(std::span(data), 0);
    many.back().barrier();
    many.back().all_reduce_async(std::span(data)).wait();
    REQUIRE(copy == data);
  }
  const Footprint now;
  CHECK(now.descriptors == before.descriptors);
  CHECK(now.threads == before.threads);
  CHECK(now.arenas == 0);
  CHECK(now.all_mappings <= before.all_mappings + 10);       // of the heap
  CHECK(now.heap <= before.heap + many.size() * 18 * kKib);  // plans
  many.clear();
  CHECK(leak(before, 1000) == "");
}

TEST_CASE("ranks as processes: descriptors, threads and memory are what the documentation states") {
  const int ranks = GENERATE(2, 64);
  const std::string transport = GENERATE("shm", "tcp");
  if (ranks == 64 && transport == "tcp") return;
  Config config;
  config.timeout = config.init_timeout = 120s;
  config.transport = transport;
  const auto endings = in_processes(
      ranks,
      [&](Communicator& comm) -> std::string {
        use_once(comm);
        comm.barrier();
        const auto others = static_cast<std::size_t>(ranks - 1);
        const std::size_t control = comm.rank() == 0 ? others : 1;
        const bool tcp = transport == "tcp";
        const std::size_t movers = tcp ? 1 + others : 2;  // a door, and a connection to each peer or a bell
        if (!settles([] { return descriptors_of("socket:"); }, control + movers))
          return std::to_string(descriptors_of("socket:")) + " sockets";
        if (descriptors_of("/memfd:tutti") != 1 || descriptors_of("anon_inode:[eventfd]") != 2 ||
            descriptors_of("anon_inode:[eventpoll]") != (tcp ? 2 : 1) ||
            descriptors_of("anon_inode:[timerfd]") != (tcp ? 2 : 1))
          return "not the stated arena and descriptors of engine and transport";
        if (threads() > 2) return std::to_string(threads()) + " threads";
        if (mappings("memfd:tutti") > (tcp ? 1 : 1 + others))
          return std::to_string(mappings("memfd:tutti")) + " arenas";
        if (arena_pages() > (64 << 20) + 1024 * kKib) return std::to_string(arena_pages()) + " bytes of slots";
        comm.barrier();  // nobody leaves while others count
        return "ok";
      },
      config, 120);
  std::string wrong;
  for (std::size_t rank = 0; rank < endings.size(); ++rank)
    if (endings[rank].message != "ok") wrong += std::to_string(rank) + ": " + endings[rank].message + "\n";
  INFO(ranks << " ranks by " << transport);
  CHECK(wrong == "");
}

TEST_CASE("a new communicator has a directory and the barrier's ring, and no memory for messages") {
  on_threads(2, [](Communicator& comm) {
    comm.barrier();
    // Both ranks' arenas are this process's.
    if (arena_pages() > 2 * 160 * kKib) throw std::runtime_error(std::to_string(arena_pages()) + " bytes");
    comm.barrier();
  });
}

TEST_CASE("64 ranks as threads: descriptors and threads are bounded") {
  const std::size_t threads_before = threads(), descriptors_before = descriptors();
  Config config;
  config.timeout = 120s;
  on_threads(
      64,
      [&](Communicator& comm) {
        use_once(comm, 10007);
        comm.barrier();
        if (comm.rank() == 0) {
          // The engine's thread is the only one the library adds; 64 are the test's own.
          if (threads() > threads_before + 64 + 1) throw std::runtime_error(std::to_string(threads()) + " threads");
          // The engine's three; for each rank memfd, door, bell and fault; both ends of the control plane's star.
          if (!settles(descriptors, descriptors_before + 3 + 4 * 64 + 2 * 63))
            throw std::runtime_error(std::to_string(descriptors()) + " descriptors");
        }
        comm.barrier();
      },
      config);
  CHECK(settles(descriptors, descriptors_before));
  CHECK(settles(threads, threads_before));
}

TEST_CASE("communicators come and go without a trace: 1000 rounds of ranks as threads") {
  const auto round = [] { on_threads(2, [](Communicator& comm) { use_once(comm); }); };
  for (int warm = 0; warm < 50; ++warm) round();
  settles(threads, 1);
  const Footprint before;
  for (int i = 0; i < 1000; ++i) round();
  CHECK(leak(before, 1000) == "");
}

TEST_CASE("communicators come and go without a trace: 200 rounds of ranks as processes") {
  const auto endings = in_processes(3, [](Communicator& world) -> std::string {
    const auto round = [&] {
      UniqueId id;
      if (world.rank() == 0) id = UniqueId::create();
      world.broadcast(id.bytes.data(), id.bytes.size(), DataType::uint8, 0);
      Communicator comm = Communicator::connect(id, world.rank(), world.size());
      use_once(comm);
    };
    for (int warm = 0; warm < 20; ++warm) round();
    world.barrier();
    std::this_thread::sleep_for(200ms);  // meetings of the warm-up end
    const Footprint before;
    for (int i = 0; i < 200; ++i) round();
    world.barrier();
    return leak(before, 200);
  });
  for (const auto& ending : endings) CHECK(ending.message == "");
}
