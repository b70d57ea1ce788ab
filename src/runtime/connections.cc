#include "src/runtime/connections.h"

#include <algorithm>
#include <utility>

namespace tutti::runtime {

Connections::Connections(int rank, Arena* arena, std::vector<Transport*> transport_of)
    : rank_(rank), arena_(arena), transport_of_(std::move(transport_of)) {}

PeerMemory Connections::memory_of(int peer) const {
  Transport* const transport = transport_of_[static_cast<std::size_t>(peer)];
  if (transport == nullptr) return {};
  return {transport, peer, transport->reach(peer), transport->direct_flags(peer), transport->parked(peer)};
}

void Connections::make_rings(BoundProgram& program) {
  program.sends.resize(program.code.sends.size());
  for (std::size_t i = 0; i < program.sends.size(); ++i) program.sends[i] = &make_ring(program.code.sends[i]);
}

SendEnd& Connections::make_ring(const PortEnd& port) {
  std::unique_ptr<SendEnd>& end = sends_[port.id];
  if (end == nullptr) {
    auto made = std::make_unique<SendEnd>();
    made->ring = arena_->make_ring(port.id, port.geometry);
    made->slot = &made->ring.slot(0);
    made->acknowledged = port.acknowledged;
    made->reach = Reach::process;
    for (const int reader : port.readers) {
      made->readers.push_back(memory_of(reader));
      made->reach = std::min(made->reach, made->readers.back().reach);
    }
    end = std::move(made);
  }
  return *end;
}

void Connections::carry(const BoundProgram& program) {
  for (std::size_t i = 0; i < program.sends.size(); ++i) carry(program.code.sends[i], *program.sends[i]);
}

void Connections::carry(const PortEnd& port, SendEnd& end) {
  if (std::exchange(end.carried, true)) return;
  for (std::uint32_t reader = 0; reader < port.readers.size(); ++reader) {
    const int peer = port.readers[reader];
    transport_of_[static_cast<std::size_t>(peer)]->add_reader(port.id, end.ring, reader, peer, port.acknowledged);
    end.readers[reader].wake();  // it may wait for this ring
  }
}

SendEnd& Connections::writing(const PortEnd& port) {
  SendEnd& end = make_ring(port);
  carry(port, end);
  return end;
}

bool Connections::bind_receives(BoundProgram& program) {
  program.receives.resize(program.code.receives.size());
  program.unbound = 0;
  for (std::size_t i = 0; i < program.receives.size(); ++i) {
    if (program.receives[i] != nullptr) continue;
    program.receives[i] = reading(program.code.receives[i]);
    if (program.receives[i] == nullptr)
      ++program.unbound;
    else
      program.windows = program.windows || program.receives[i]->window != nullptr;
  }
  return program.unbound == 0;
}

ReceiveEnd* Connections::reading(const PortEnd& port) {
  const auto known = receives_.find(port.id);
  if (known != receives_.end()) return known->second.get();
  Transport& transport = *transport_of_[static_cast<std::size_t>(port.writer)];
  const auto found = transport.find_ring(port.id, port.writer, port.reader, port.geometry, port.acknowledged);
  if (!found) return nullptr;
  auto end = std::make_unique<ReceiveEnd>();
  end->ring = found->ring;
  end->slot = &end->ring.slot(0);
  end->reader = found->reader;
  end->acknowledged = port.acknowledged;
  end->writer = port.writer;
  end->window = found->window;
  end->memory = memory_of(port.writer);
  return receives_.emplace(port.id, std::move(end)).first->second.get();
}

int Connections::missing_writer(const BoundProgram& program) const {
  for (std::size_t i = 0; i < program.receives.size(); ++i)
    if (program.receives[i] == nullptr) return program.code.receives[i].writer;
  return -1;
}

void Connections::forget_all_but(const BoundProgram& kept) {
  const auto is_kept = [](const std::vector<PortEnd>& ends, PortId id) {
    return std::any_of(ends.begin(), ends.end(), [id](const PortEnd& end) { return end.id == id; });
  };
  std::erase_if(sends_,
                [&](const auto& entry) { return !lasts(entry.first) && !is_kept(kept.code.sends, entry.first); });
  std::erase_if(receives_,
                [&](const auto& entry) { return !lasts(entry.first) && !is_kept(kept.code.receives, entry.first); });
}

}  // namespace tutti::runtime
