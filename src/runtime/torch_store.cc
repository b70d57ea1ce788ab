// The store's protocol, as far as it is needed (PyTorch 2.1 and newer; older ones differ): little-endian numbers,
// string = u64 length + bytes.
//   00 u32 0x3C85F7CE        greeting, no answer           01 key value    set, no answer
//   04 key i64               add; answers the new i64       06 u64 1 key    wait; answers one byte when the key is set
//   03 key                   get; answers a string
#include "src/runtime/torch_store.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "src/base/error.h"
#include "src/base/socket.h"
#include "src/runtime/rendezvous.h"
#include "src/runtime/wire.h"

namespace tutti::runtime {
namespace {

using base::Transfer;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::uint32_t kGreetingWord = 0x3C85F7CE;
constexpr std::uint64_t kLongestValue = 4096;
constexpr milliseconds kRetry{100};

class TorchStore {
 public:
  TorchStore(const std::string& host, std::uint16_t port, std::string rank, Clock::time_point deadline)
      : place_((host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port)),
        rank_(std::move(rank)),
        deadline_(deadline) {
    std::string why = "no attempt yet";
    while (!connect_once(host, port, why)) {
      if (Clock::now() + kRetry >= deadline_) fail(ErrorCode::timeout, "cannot be reached: " + why);
      std::this_thread::sleep_for(kRetry);
    }
    send(Writer().u8(0x00).u32(kGreetingWord));
  }

  void set(const std::string& key, const std::string& value) {
    Writer message;
    put(put(message.u8(0x01), key), value);
    send(message);
  }

  std::int64_t add(const std::string& key, std::int64_t amount) {
    Writer message;
    put(message.u8(0x04), key).u64(static_cast<std::uint64_t>(amount));
    send(message);
    return static_cast<std::int64_t>(Reader(receive(8)).u64());
  }

  // Blocks until somebody has set the key.
  std::string get(const std::string& key) {
    Writer wait, get;
    put(wait.u8(0x06).u64(1), key);
    send(wait);
    if (Reader(receive(1)).u8() != 0) fail(ErrorCode::remote_error, "gave up waiting for the key " + key);
    put(get.u8(0x03), key);
    send(get);
    const std::uint64_t bytes = Reader(receive(8)).u64();
    if (bytes > kLongestValue) fail(ErrorCode::remote_error, "sent a value of " + std::to_string(bytes) + " bytes");
    const Bytes value = receive(bytes);
    return {reinterpret_cast<const char*>(value.data()), value.size()};
  }

 private:
  static Writer& put(Writer& writer, const std::string& text) {
    return writer.u64(text.size()).raw(std::as_bytes(std::span(text.data(), text.size())));
  }

  [[noreturn]] void fail(ErrorCode code, const std::string& what) const {
    throw Error(code, rank_ + ": torchrun's store at " + place_ + " (MASTER_ADDR, MASTER_PORT) " + what);
  }

  [[noreturn]] void fail_broken(int error) const {
    fail(ErrorCode::remote_error, "broke the connection: " + base::errno_text(error));
  }

  bool connect_once(const std::string& host, std::uint16_t port, std::string& why) {
    std::vector<base::Address> addresses;
    try {
      addresses = base::resolve(host, port);
    } catch (const Error& error) {
      why = error.what();
    }
    for (const base::Address& address : addresses) {
      base::Connecting connecting = base::start_connect(address);
      if (base::out_of_descriptors(connecting.error))
        fail(ErrorCode::system_error, "cannot be called: " + base::errno_text(connecting.error));
      fd_ = std::move(connecting.socket);
      if (fd_) {
        const bool ended =
            base::wait_ready(fd_.get(), POLLOUT, std::min(deadline_, Clock::now() + std::chrono::seconds(3)));
        connecting.error = ended ? base::connect_error(fd_.get()) : ETIMEDOUT;
        if (connecting.error == 0) return true;
      }
      why = base::errno_text(connecting.error);
    }
    return false;
  }

  void send(const Writer& message) {
    std::size_t sent = 0;
    while (sent < message.bytes().size()) {
      const Transfer put = base::send(fd_.get(), message.bytes().data() + sent, message.bytes().size() - sent);
      sent += put.bytes;
      if (put.state == Transfer::State::would_block && !base::wait_ready(fd_.get(), POLLOUT, deadline_))
        fail(ErrorCode::timeout, "takes no more requests");
      if (put.state == Transfer::State::failed) fail_broken(put.error);
    }
  }

  Bytes receive(std::size_t bytes) {
    Bytes buffer(bytes);
    std::size_t got = 0;
    while (got < bytes) {
      if (!base::wait_ready(fd_.get(), POLLIN, deadline_))
        fail(ErrorCode::timeout, "did not answer in time: rank 0 has not left its address there; did it start?");
      const Transfer read = base::receive(fd_.get(), buffer.data() + got, bytes - got);
      got += read.bytes;
      if (read.state == Transfer::State::closed)
        fail(ErrorCode::remote_error,
             "closed the connection: it must be the store of PyTorch 2.1 or newer; set "
             "TUTTI_RENDEZVOUS=host:port to meet without it");
      if (read.state == Transfer::State::failed) fail_broken(read.error);
    }
    return buffer;
  }

  const std::string place_, rank_;
  const Clock::time_point deadline_;
  base::Fd fd_;
};

// Everybody who reaches the store can read it: the id's secret part is there only combined with the job's secret.
UniqueId masked(UniqueId id, const Secret& secret, const std::string& key) {
  constexpr std::size_t kSecretAt = 8;  // as src/runtime/unique_id.cc lays it out
  const Secret mask = secret_from_text(secret_name(secret, "store mask " + key) + secret_name(secret, key));
  for (std::size_t i = 0; i < mask.size(); ++i) id.bytes[kSecretAt + i] ^= mask[i];
  return id;
}

}  // namespace

Job meet_through_store(const Job& job, Clock::time_point deadline) {
  TorchStore store(job.meeting.hosts.at(0), *job.meeting.torch_store_port, "rank " + std::to_string(job.rank),
                   deadline);
  const std::string prefix = "/tutti/" + job.meeting.name + "/";
  const auto call = store.add(prefix + "calls of rank " + std::to_string(job.rank), 1);
  const std::string key = prefix + "meeting " + std::to_string(call);
  UniqueId id;
  if (job.rank == 0) {
    id = UniqueId::create();
    store.set(key, masked(id, job.meeting.secret, key).to_hex());
  } else {
    id = masked(UniqueId::from_hex(store.get(key)), job.meeting.secret, key);
  }
  Job met = job_from_unique_id(id, job.rank, job.size);
  met.local_rank = job.local_rank;
  met.local_size = job.local_size;
  met.source = job.source;
  return met;
}

}  // namespace tutti::runtime
