#include "transport/tcp/handshake.h"

#include <cerrno>
#include <cstring>

#include <sodium.h>

#include "src/base/error.h"
#include "src/base/socket.h"

namespace tutti::transport::tcp {

using base::Transfer;

Handshake::Handshake(const Identity& self, base::Fd socket, int peer)
    : self_(&self), socket_(std::move(socket)), peer_(peer), dialer_(peer != kAnyone), connected_(peer == kAnyone) {
  base::tune_for_messages(socket_.get());  // the handshake too is of small messages
  mine_.magic = kMagic;
  mine_.version = kWireVersion;
  mine_.byte_order = kByteOrder;
  mine_.size = static_cast<std::uint32_t>(self.size);
  mine_.communicator = self.communicator;
  mine_.from = static_cast<std::uint32_t>(self.rank);
  mine_.to = static_cast<std::uint32_t>(peer);  // the acceptor fills it in when it knows
  mine_.sockets = 1;
  randombytes_buf(mine_.challenge.data(), mine_.challenge.size());
  if (!dialer()) await(Stage::hello, sizeof(Hello));
}

Handshake::State Handshake::advance() {
  if (stage_ == Stage::connecting) {
    const int error = base::connect_error(socket_.get());
    if (error == EINPROGRESS) return State::pending;
    if (error != 0) {
      fail(base::errno_text(error));
      return State::failed;
    }
    connected_ = true;
    send(&mine_, sizeof(mine_));
    await(Stage::hello, sizeof(Hello));
  }
  while (write_pending() && stage_ < Stage::done && stage_ != Stage::decide) {
    if (!read_awaited()) break;
    in_bytes_ = 0;
    const bool good = stage_ == Stage::hello ? handle_hello() : stage_ == Stage::proof ? handle_proof() : handle_mark();
    if (!good) break;
  }
  if (stage_ == Stage::failed) return State::failed;
  if (stage_ == Stage::decide) return State::proven;
  return stage_ == Stage::done && out_begin_ == out_end_ ? State::chosen : State::pending;
}

void Handshake::choose() {
  send(kChosen.data(), kChosen.size());
  if (lower()) {
    offered_ = true;
    await(Stage::mark, kChosen.size());
  } else {
    stage_ = Stage::done;
  }
}

bool Handshake::fail(const std::string& why) {
  failure_ = why;
  stage_ = Stage::failed;
  socket_.reset();
  return false;
}

void Handshake::send(const void* bytes, std::size_t count) {
  std::memcpy(out_.data() + out_end_, bytes, count);  // all that a handshake sends fits
  out_end_ += count;
}

void Handshake::await(Stage stage, std::size_t bytes) {
  stage_ = stage;
  awaited_ = bytes;
}

// False when the rest must wait or the connection failed.
bool Handshake::write_pending() {
  while (out_begin_ < out_end_) {
    const Transfer sent = base::send(socket_.get(), out_.data() + out_begin_, out_end_ - out_begin_);
    if (sent.state == Transfer::State::failed) return fail(base::errno_text(sent.error));
    if (sent.state != Transfer::State::moved) return false;
    out_begin_ += sent.bytes;
  }
  return true;
}

// True when all awaited bytes are there. A stranger is turned away at its first wrong byte.
bool Handshake::read_awaited() {
  while (in_bytes_ < awaited_) {
    const Transfer got = base::receive(socket_.get(), in_.data() + in_bytes_, awaited_ - in_bytes_);
    if (got.state == Transfer::State::failed) return fail(base::errno_text(got.error));
    if (got.state == Transfer::State::closed)
      return fail(peer_proven_ ? "it closed the connection before both ranks had agreed on it"
                               : "it closed the connection during the handshake (another job, another rank or another "
                                 "secret)");
    if (got.state != Transfer::State::moved) return false;
    in_bytes_ += got.bytes;
    if (stage_ == Stage::hello && std::memcmp(in_.data(), kMagic.data(), std::min(in_bytes_, kMagic.size())) != 0)
      return fail("what answers there is not a rank of this library");
  }
  return true;
}

bool Handshake::handle_hello() {
  std::memcpy(&theirs_, in_.data(), sizeof(theirs_));
  if (theirs_.version != kWireVersion || theirs_.byte_order != kByteOrder) {
    // The dialer learns why: it gets our Hello, without proof.
    if (!dialer()) base::send(socket_.get(), &mine_, sizeof(mine_));
    if (theirs_.byte_order != kByteOrder) return fail("its host has another byte order");
    return fail("it speaks version " + std::to_string(theirs_.version) + " of the wire format, this rank version " +
                std::to_string(kWireVersion) + "; all ranks need the same version of the library");
  }
  if (theirs_.communicator != mine_.communicator || theirs_.size != mine_.size)
    return fail("a rank of another communicator answers there");
  if (theirs_.to != mine_.from || theirs_.from >= mine_.size || theirs_.from == mine_.from ||
      (dialer() && theirs_.from != mine_.to))
    return fail("rank " + std::to_string(theirs_.from) + " answers there");
  if (theirs_.sockets != 1 || theirs_.socket != 0 || theirs_.zero != 0)
    return fail("it wants " + std::to_string(theirs_.sockets) + " sockets per pair of ranks, this rank has 1");
  if (!dialer()) {
    peer_ = static_cast<int>(theirs_.from);
    mine_.to = theirs_.from;
    const Proof proof = proof_of(false);
    send(&mine_, sizeof(mine_));
    send(proof.data(), proof.size());
  }
  await(Stage::proof, sizeof(Proof));
  return true;
}

bool Handshake::handle_proof() {
  const Proof expected = proof_of(!dialer());
  if (sodium_memcmp(in_.data(), expected.data(), expected.size()) != 0)
    return fail("its answer does not prove that it knows the job's secret");
  if (dialer()) {
    const Proof proof = proof_of(true);
    send(proof.data(), proof.size());
  }
  peer_proven_ = true;
  if (lower())
    stage_ = Stage::decide;
  else
    await(Stage::mark, kChosen.size());
  return true;
}

bool Handshake::handle_mark() {
  if (std::memcmp(in_.data(), kChosen.data(), kChosen.size()) != 0) return fail("its handshake ends in garbage");
  stage_ = lower() ? Stage::done : Stage::decide;
  return true;
}

// The role is part of what is proven, so that no answer can be played back to its author.
Proof Handshake::proof_of(bool by_dialer) const {
  std::array<unsigned char, 1 + 2 * sizeof(Hello)> text{};
  text[0] = by_dialer ? 'd' : 'a';
  std::memcpy(text.data() + 1, dialer() ? &mine_ : &theirs_, sizeof(Hello));
  std::memcpy(text.data() + 1 + sizeof(Hello), dialer() ? &theirs_ : &mine_, sizeof(Hello));
  Proof proof{};
  crypto_auth(proof.data(), text.data(), text.size(), reinterpret_cast<const unsigned char*>(self_->secret.data()));
  return proof;
}

}  // namespace tutti::transport::tcp
