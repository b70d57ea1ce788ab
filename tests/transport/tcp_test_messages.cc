#include <catch2/catch.hpp>

#include <atomic>
#include <optional>

#include "tests/transport/tcp_test_support.h"

using namespace tcp_test;

TEST_CASE("messages of every size arrive intact and in order", "[tcp]") {
  const std::uint32_t slot_bytes = GENERATE(0u, 64u, 4096u, 65536u);
  const std::uint32_t slots = GENERATE(1u, 2u, 5u);
  CAPTURE(slot_bytes, slots);
  Group group = make_group(2);
  const int from = GENERATE(0, 1);
  Stream stream(group, 7, from, {1 - from}, {1, slots, slot_bytes});
  const std::uint64_t count = slot_bytes > 4096 ? 300 : 2000;
  until([&] {
    while (stream.writer.written() < count && stream.writer.write()) continue;
    progress(group);
    while (stream.readers[0].read()) continue;
    return stream.readers[0].taken() == count;
  });
  CHECK(stream.writer.written() == count);
}

TEST_CASE("four ranks exchange on many ports at once, each in its own thread", "[tcp]") {
  static constexpr int kRanks = 4;
  constexpr std::uint64_t kMessages = 600;
  Group group = make_group(kRanks);
  run_ranks(kRanks, [&](int rank) {
    Transport& transport = *group[static_cast<std::size_t>(rank)];
    std::vector<std::unique_ptr<Writer>> writers;
    std::vector<Reader> readers;
    const RingGeometry to_all{kRanks - 1, 3, 8192};
    const auto small = [](int channel) { return RingGeometry{1, channel == 0 ? 2u : 4u, channel == 0 ? 0u : 16384u}; };
    const auto all_port = [](int from) { return static_cast<std::uint64_t>(1000 + from); };
    const auto pair_port = [](int from, int to, int channel) {
      return static_cast<std::uint64_t>(2000 + (from * kRanks + to) * 2 + channel);
    };
    const auto number = [](int from, int to) { return static_cast<std::uint32_t>(to < from ? to : to - 1); };
    writers.push_back(std::make_unique<Writer>(all_port(rank), to_all, true));
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      transport.add_reader(all_port(rank), writers[0]->ring(), number(rank, peer), peer, true);
      readers.emplace_back(all_port(peer), *transport.find_ring(all_port(peer), peer, number(peer, rank), to_all, true),
                           true);
      for (int channel = 0; channel < 2; ++channel) {
        const std::uint64_t out = pair_port(rank, peer, channel), in = pair_port(peer, rank, channel);
        writers.push_back(std::make_unique<Writer>(out, small(channel), true));
        transport.add_reader(out, writers.back()->ring(), 0, peer, true);
        readers.emplace_back(in, *transport.find_ring(in, peer, 0, small(channel), true), true);
      }
    }
    until([&] {
      bool done = true;
      for (const auto& writer : writers) {
        if (writer->written() < kMessages) writer->write();
        done = done && writer->written() == kMessages;
      }
      if (!transport.progress()) std::this_thread::yield();
      for (Reader& reader : readers) {
        if (reader.taken() < kMessages) reader.read();
        done = done && reader.taken() == kMessages;
      }
      return done;
    });
    transport.flush(Clock::now() + std::chrono::seconds(20));
  });
}

TEST_CASE("a slow reader holds its writer, not its neighbours", "[tcp]") {
  Group group = make_group(2);
  constexpr std::uint32_t kSlots = 4;
  Stream slow(group, 1, 0, {1}, {1, kSlots, 4096});
  Stream fast(group, 2, 0, {1}, {1, 2, 4096});
  until([&] {
    slow.writer.write();
    fast.writer.write();
    progress(group);
    fast.readers[0].read();
    slow.readers[0].read(false);
    return fast.readers[0].taken() >= 500;
  });
  // The reader's ring is full and so is the writer's; not one message more.
  CHECK(slow.readers[0].taken() == kSlots);
  CHECK(slow.writer.written() == 2 * kSlots);
  CHECK_FALSE(slow.writer.write());
  until([&] {
    slow.readers[0].release_all();
    if (slow.writer.written() < 100) slow.writer.write();
    progress(group);
    slow.readers[0].read(false);
    return slow.readers[0].taken() == 100;
  });
}

TEST_CASE("a port that is asked for late holds up no other", "[tcp]") {
  Group group = make_group(2);
  const RingGeometry geometry{1, 2, 1024};
  Writer late(1, geometry, true);
  group[0]->add_reader(1, late.ring(), 0, 1, true);
  while (late.write()) continue;
  CHECK(late.written() == 2);
  Stream other(group, 2, 0, {1}, geometry);
  until([&] {
    other.writer.write();
    progress(group);
    other.readers[0].read();
    return other.readers[0].taken() >= 200;
  });
  Reader reader(1, *group[1]->find_ring(1, 0, 0, geometry, true), true);
  CHECK(reader.taken() == 0);
  until([&] {
    late.write();
    progress(group);
    reader.read();
    return reader.taken() >= 50;
  });
}

TEST_CASE("asking for a ring twice gives the same one", "[tcp]") {
  Group group = make_group(2);
  const RingGeometry geometry{1, 2, 64};
  const auto first = group[0]->find_ring(9, 1, 0, geometry, true);
  const auto second = group[0]->find_ring(9, 1, 0, geometry, true);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->ring.memory == second->ring.memory);
  CHECK(reinterpret_cast<std::uintptr_t>(first->ring.memory) % 128 == 0);
  CHECK(first->ring.geometry == geometry);
}

TEST_CASE("unacknowledged ports need no releases", "[tcp]") {
  Group group = make_group(2);
  const RingGeometry geometry{1, 2, 512};
  Stream there(group, 1, 0, {1}, geometry, false);
  Stream back(group, 2, 1, {0}, geometry, false);
  constexpr std::uint64_t kRounds = 3000;
  // Message n + 1 is written when the answer to n has been read: the schedule's proof that two slots suffice.
  until([&] {
    if (there.writer.written() == back.readers[0].taken() && there.writer.written() < kRounds) there.writer.write();
    progress(group);
    if (there.readers[0].read()) back.writer.write();
    progress(group);
    back.readers[0].read();
    return back.readers[0].taken() == kRounds;
  });
}

TEST_CASE("reachability is found out from either side alone and from both at once", "[tcp]") {
  const int who = GENERATE(0, 1, 2);  // 2: both
  CAPTURE(who);
  Group group = make_group(2);
  std::atomic<bool> done = false;
  run_ranks(2, [&](int rank) {
    Transport& transport = *group[static_cast<std::size_t>(rank)];
    if (who == rank || who == 2) {
      const auto reason = transport.unreachable(1 - rank);
      if (reason) throw std::runtime_error(*reason);
      if (who == rank) done = true;
    } else {
      until([&] {
        transport.progress();
        return done.load();
      });
    }
  });
  Stream stream(group, 1, 1, {0}, {1, 2, 64});
  until([&] {
    stream.writer.write();
    progress(group);
    stream.readers[0].read();
    return stream.readers[0].taken() >= 20;
  });
}

TEST_CASE("eight ranks find each other at once", "[tcp]") {
  constexpr int kRanks = 8;
  Group group = make_group(kRanks);
  std::atomic<int> done = 0;
  run_ranks(kRanks, [&](int rank) {
    Transport& transport = *group[static_cast<std::size_t>(rank)];
    for (int i = 1; i < kRanks; ++i)
      if (const auto reason = transport.unreachable((rank + i) % kRanks)) throw std::runtime_error(*reason);
    ++done;
    until([&] {
      transport.progress();
      return done == kRanks;
    });
  });
}

TEST_CASE("what was published before flush arrives though the writer is gone and was being written to", "[tcp]") {
  Group group = make_group(2);
  constexpr std::uint32_t kSlots = 64;
  Stream last(group, 1, 1, {0}, {1, kSlots, 16384});
  Stream noise(group, 2, 0, {1}, {1, kSlots, 16384});
  until([&] {
    progress(group);
    noise.writer.write();
    return noise.readers[0].arrived(5);
  });
  while (last.writer.write()) continue;
  CHECK(last.writer.written() == kSlots);
  // Rank 0 takes bytes from the socket, but its readers take no message yet.
  std::atomic<bool> flushed = false;
  run_ranks(2, [&](int rank) {
    if (rank == 1) {
      group[1]->flush(Clock::now() + std::chrono::seconds(20));
      flushed = true;
    } else {
      until([&] {
        group[0]->progress();
        return flushed.load();
      });
    }
  });
  group[1].reset();
  until([&] {
    group[0]->progress();
    last.readers[0].read();
    return last.readers[0].taken() == kSlots;
  });
}

TEST_CASE("rings are forgotten, and made anew while the other rank lags behind", "[tcp]") {
  TcpOptions small = options(0, 2);
  small.memory_limit = 3 * RingGeometry{1, 2, 4096}.bytes();
  Group group;
  for (small.rank = 0; small.rank < 2; ++small.rank) group.push_back(make_tcp_transport(small));
  introduce(group);
  const RingGeometry geometry{1, 2, 4096};
  const auto run = [&](Stream& stream, std::uint64_t count) {
    const std::uint64_t end = stream.readers[0].taken() + count;
    until([&] {
      if (stream.writer.written() < end) stream.writer.write();
      progress(group);
      stream.readers[0].read();
      return stream.readers[0].taken() == end && group[0]->drained() && group[1]->drained();
    });
  };
  const std::vector<std::uint64_t> kept{50};
  Stream barrier(group, 50, 0, {1}, geometry);
  for (int generation = 0; generation < 20; ++generation) {
    CAPTURE(generation);
    // The same ids again, in changing order, so that numbers and ids are paired in all ways.
    Stream first(group, generation % 2 == 0 ? 1 : 2, 0, {1}, geometry);
    Stream second(group, generation % 2 == 0 ? 2 : 1, 0, {1}, geometry);
    run(first, 3 + static_cast<std::uint64_t>(generation) % 4);
    run(second, 5);
    run(barrier, 1);
    // Of each generation another rank comes to it first; it already asks for the next rings before the other has
    // forgotten its own.
    const std::size_t hasty = static_cast<std::size_t>(generation / 2 % 2);
    group[hasty]->forget_all_but(kept);
    if (hasty == 1) {
      const std::uint64_t next = (generation + 1) % 2 == 0 ? 1 : 2;
      group[1]->find_ring(next, 0, 0, geometry, true);
    }
    for (int i = 0; i < 50; ++i) progress(group);
    group[1 - hasty]->forget_all_but(kept);
  }
}

// The writer of a lasting port waits for nobody: as many messages as the ring has slots leave, whether or not the
// reader has looked for the ring, or has let go of others meanwhile.
TEST_CASE("messages of a lasting port leave before anybody asks for them, and outlast other rings", "[tcp]") {
  constexpr std::uint64_t kPort = tutti::runtime::kLastingPort | 9;
  const bool asked_first = GENERATE(false, true);
  const RingGeometry geometry{1, 4, 1024};
  Group group = make_group(2);
  const auto incoming = [&] { return *group[1]->find_ring(kPort, 0, 0, geometry, true); };
  std::optional<Reader> reader;
  if (asked_first) reader.emplace(kPort, incoming(), true);
  Stream before(group, 3, 0, {1}, geometry);  // others have numbers too
  Writer writer(kPort, geometry, true);
  group[0]->add_reader(kPort, writer.ring(), 0, 1, true);
  Stream behind(group, 4, 0, {1}, geometry), back(group, 5, 1, {0}, geometry);
  for (int i = 0; i < 4; ++i) REQUIRE(writer.write());
  before.writer.write();
  behind.writer.write();
  back.writer.write();
  until([&] {
    progress(group);
    return group[0]->drained() && group[1]->drained();
  });
  CHECK(writer.ring().released(0).load() == 4);
  until([&] {
    progress(group);
    for (Stream* const stream : {&before, &behind, &back}) stream->readers[0].read();
    return before.readers[0].taken() == 1 && behind.readers[0].taken() == 1 && back.readers[0].taken() == 1;
  });
  for (const auto& transport : group) transport->forget_all_but({});
  Stream anew(group, 3, 0, {1}, geometry);
  if (!reader) reader.emplace(kPort, incoming(), true);
  until([&] {
    progress(group);
    if (writer.written() < 100) writer.write();
    if (anew.writer.written() < 20) anew.writer.write();
    reader->read();
    anew.readers[0].read();
    return reader->taken() == 100 && anew.readers[0].taken() == 20;
  });
  CHECK_FALSE(reader->read());
}

// The reader has room for no more than its share of the limit, whatever the writer says.
TEST_CASE("a lasting port that is too large is refused", "[tcp]") {
  TcpOptions small = options(0, 2);
  small.memory_limit = 16384;
  Group group;
  for (small.rank = 0; small.rank < 2; ++small.rank) group.push_back(make_tcp_transport(small));
  introduce(group);
  Writer writer(9, {1, 4, 2048}, true);  // 8576 of 8192 bytes
  group[0]->add_reader(tutti::runtime::kLastingPort | 9, writer.ring(), 0, 1, true);
  std::string message;
  until([&] {
    group[0]->progress();
    message = error_of([&] { group[1]->progress(); });
    return !message.empty();
  });
  CHECK(contains(message, "rank 1 got garbage from rank 0"));
  CHECK(contains(message, "opened port 9223372036854775817 as number 0 with 4 slots of 2048 bytes"));
}
