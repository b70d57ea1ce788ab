// The side of the rendezvous that comes: knocking at a door, and meeting.
#include "src/runtime/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "src/base/error.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/runtime/rendezvous_frames.h"

namespace tutti::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRound{3000};    // for one round of attempts
constexpr milliseconds kFirstPause{5};  // between rounds, doubled up to
constexpr milliseconds kLongestPause{250};
constexpr milliseconds kLogEvery{5000};
constexpr milliseconds kCertain{1000};  // refused, or out of descriptors, for so long: that is not going to change
constexpr const char* kUsedUp =
    "the process that made the unique id has ended, or all of its ranks have met or given up; make a new id for every "
    "communicator";
constexpr std::size_t kRosterLimit = std::size_t{64} << 20;

std::string seconds_text(Clock::duration time) {
  const auto tenths = std::chrono::duration_cast<milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

// One address being tried, as far as the door's challenge.
struct Attempt {
  base::SocketAddress endpoint;
  Channel channel;
  Nonce nonce{};
  bool greeted = false;
};

// Several rounds of attempts; one object per knock().
class Knocking {
 public:
  explicit Knocking(const Call& call) : call_(call), started_(Clock::now()) {}

  Channel run() {
    milliseconds pause = kFirstPause;
    for (;;) {
      if (auto channel = round()) return std::move(*channel);
      const auto now = Clock::now();
      if (wrong_secret_) throw_wrong_secret();
      if (!call_.nobody.empty() && refused_ && now - started_ > kCertain) throw_nobody();
      if (starved_ && now - *starved_ > kCertain) throw_starved();
      if (now >= call_.deadline) throw_late();
      reason_ = failure_;  // of a whole round; the last one is cut short by the deadline
      if (now - logged_ >= kLogEvery) log_progress(now);
      std::this_thread::sleep_for(std::min<Clock::duration>(pause, call_.deadline - now));
      pause = std::min(pause * 2, kLongestPause);
    }
  }

 private:
  std::optional<Channel> round() {
    refused_ = true;
    wrong_secret_.reset();
    std::string why;
    std::vector<Attempt> attempts;
    bool starved = false;
    for (const base::SocketAddress& endpoint : call_.find(why)) {
      base::Connecting connecting = base::start_connect(endpoint);
      if (!connecting.socket) {
        note(endpoint, connecting.error);
        starved = starved || base::out_of_descriptors(connecting.error);
        continue;
      }
      Attempt attempt;
      attempt.endpoint = endpoint;
      attempt.channel = Channel(std::move(connecting.socket), kStrangerLimit);
      attempts.push_back(std::move(attempt));
    }
    if (!starved)
      starved_.reset();
    else if (!starved_)
      starved_ = Clock::now();
    if (!why.empty()) failure_ = why, refused_ = false;
    const auto until = std::min(call_.deadline, Clock::now() + kRound);
    while (!attempts.empty()) {
      std::vector<pollfd> items;
      for (const Attempt& attempt : attempts)
        items.push_back({attempt.channel.fd(), static_cast<short>(attempt.greeted ? POLLIN : POLLOUT), 0});
      const int ready = ::poll(items.data(), items.size(), base::poll_milliseconds(until));
      if (ready < 0 && errno != EINTR) base::throw_errno("poll failed");
      if (ready == 0 && Clock::now() >= until) {
        refused_ = false;
        failure_ = attempts.front().endpoint.text() + " does not answer";
        return std::nullopt;
      }
      if (ready <= 0) continue;
      for (std::size_t i = 0; i < attempts.size(); ++i) {
        if (items[i].revents == 0) continue;
        const Step step = advance(attempts[i]);
        if (step == Step::proven) return ask(attempts[i]);
        if (step == Step::failed) attempts[i].channel.close();
      }
      std::erase_if(attempts, [](const Attempt& attempt) { return !attempt.channel; });
    }
    return std::nullopt;
  }

  enum class Step { waiting, proven, failed };

  Step advance(Attempt& attempt) {
    if (!attempt.greeted) {
      if (const int error = base::connect_error(attempt.channel.fd())) {
        note(attempt.endpoint, error);
        return Step::failed;
      }
      return greet(attempt);
    }
    const bool more = attempt.channel.receive();
    const auto frame = attempt.channel.next();
    if (!frame) {
      if (more && !attempt.channel.broken()) return Step::waiting;
      refused_ = false;
      failure_ =
          attempt.endpoint.text() +
          (attempt.channel.broken() ? " does not speak this protocol (another program?)" : " closed the connection");
      return Step::failed;
    }
    refused_ = false;
    switch (read_challenge(*frame, call_.secret, call_.purpose, attempt.nonce, door_)) {
      case Verdict::good: return Step::proven;
      case Verdict::wrong_secret: wrong_secret_ = attempt.endpoint.text(); break;
      case Verdict::garbage: failure_ = attempt.endpoint.text() + " does not speak this protocol (another program?)";
    }
    return Step::failed;
  }

  Step greet(Attempt& attempt) {
    attempt.nonce = random_nonce();
    attempt.greeted = true;
    if (attempt.channel.send(kGreeting, greeting(call_.purpose, attempt.nonce))) return Step::waiting;
    failure_ = attempt.endpoint.text() + ": " + attempt.channel.end();
    return Step::failed;
  }

  // The door has proven itself: say hello and hear whether it lets us in.
  std::optional<Channel> ask(Attempt& attempt) {
    Channel channel = std::move(attempt.channel);
    base::tune_for_control(channel.fd());
    channel.set_limit(kHelloLimit);
    const auto until = std::min(call_.deadline, Clock::now() + kRound);
    const Bytes message = proof(call_.secret, call_.purpose, attempt.nonce, door_, call_.hello);
    const auto frame = channel.send(kProof, message) ? channel.await(until) : std::nullopt;
    if (frame && frame->type == kWelcome) return channel;
    failure_ = attempt.endpoint.text() + " closed the connection";
    if (!frame) return std::nullopt;
    const auto refused = read_refusal(*frame);
    failure_ = refused ? refused->text : attempt.endpoint.text() + " sent what this version does not understand";
    if (refused && !refused->again) throw Error(refused->code, call_.caller + ": " + refused->text);
    return std::nullopt;
  }

  void note(const base::SocketAddress& endpoint, int error) {
    // That the short cut within a host is not there says little.
    if (!endpoint.local() || failure_.empty()) failure_ = endpoint.text() + ": " + base::errno_text(error);
    if (error != ECONNREFUSED) refused_ = false;
  }

  void log_progress(Clock::time_point now) {
    logged_ = now;
    base::log(base::LogLevel::info, call_.caller + " is waiting for " + call_.where + ", for " +
                                        seconds_text(now - started_) + " in vain: " + reason_);
  }

  [[noreturn]] void throw_wrong_secret() {
    throw Error(ErrorCode::invalid_argument,
                call_.caller + ": its secret is not that of the job at " + *wrong_secret_ +
                    "; give all ranks the same unique id or TUTTI_SECRET, or another job uses this address");
  }
  [[noreturn]] void throw_nobody() {
    throw Error(ErrorCode::remote_error,
                call_.caller + ": nobody answers for " + call_.where + " (" + failure_ + "): " + call_.nobody);
  }
  [[noreturn]] void throw_starved() {
    throw Error(ErrorCode::system_error, call_.caller + " cannot call " + call_.where + ": " + failure_);
  }
  [[noreturn]] void throw_late() {
    throw Error(ErrorCode::timeout, call_.caller + " could not reach " + call_.where + " within " +
                                        seconds_text(Clock::now() - started_) + " (" +
                                        (reason_.empty() ? failure_ : reason_) +
                                        "): is rank 0 running, and does a firewall let its port through?");
  }

  const Call& call_;
  const Clock::time_point started_;
  Clock::time_point logged_ = Clock::now();
  std::optional<Clock::time_point> starved_;  // since then each round has lacked descriptors
  std::string failure_ = "no attempt yet";
  std::string reason_;
  bool refused_ = true;                      // in this round every address was refused
  std::optional<std::string> wrong_secret_;  // in this round, by this address
  Nonce door_{};
};

std::vector<base::SocketAddress> find_meeting(const MeetingPoint& meeting, std::string& why) {
  std::vector<base::SocketAddress> endpoints;
  if (meeting.port != 0) endpoints = resolve_all(meeting.hosts, meeting.port, why);
  endpoints.insert(endpoints.begin(), base::unix_address(local_name(meeting.secret, meeting.name, meeting.port)));
  return endpoints;
}

}  // namespace

std::string local_name(const Secret& secret, const std::string& job, std::uint16_t port) {
  return "tutti-" + secret_name(secret, "meeting " + std::to_string(port) + " " + job);
}

std::string place_of(const MeetingPoint& meeting) {
  if (meeting.port == 0) return "this host's socket @" + local_name(meeting.secret, meeting.name, meeting.port);
  std::string hosts;
  for (const std::string& host : meeting.hosts)
    hosts += (hosts.empty() ? "" : ", ") + (host.find(':') == std::string::npos ? host : "[" + host + "]");
  return hosts + ":" + std::to_string(meeting.port);
}

std::vector<base::SocketAddress> resolve_all(const std::vector<std::string>& hosts, std::uint16_t port,
                                             std::string& why) {
  std::vector<base::SocketAddress> found;
  for (const std::string& host : hosts) {
    try {
      for (const base::Address& address : base::resolve(host, port)) found.emplace_back(address);
    } catch (const Error& error) {
      why = error.what();
    }
  }
  if (!found.empty()) why.clear();
  return found;
}

Channel knock(const Call& call) { return Knocking(call).run(); }

namespace {

// Whom a rank waits for as long as nobody has told it more.
std::string opener_of(const Job& job) {
  const std::string place = "the meeting at " + place_of(job.meeting);
  return (job.source == "unique id" ? "the process that made the unique id, which opens " : "rank 0, which opens ") +
         place;
}

// A meeting that ends before it has answered is called anew; should that fail, what it had said last is what the
// caller needs to know.
Channel knock_again(const Call& call, const std::string& progress, Clock::time_point started) {
  try {
    return knock(call);
  } catch (const Error& error) {
    if (progress.empty() || (error.code() != ErrorCode::timeout && error.code() != ErrorCode::remote_error)) throw;
    throw Error(error.code(), call.caller + " waited " + seconds_text(Clock::now() - started) + " for " + progress +
                                  "; that meeting has ended since, its holder has given up or died: " + error.what());
  }
}

}  // namespace

Roster meet(const Job& job, const Hello& hello, Clock::time_point deadline, std::string& near) {
  const std::string self = "rank " + std::to_string(job.rank);
  const Call call{job.meeting.secret,
                  Purpose::meeting,
                  encode(hello),
                  self,
                  opener_of(job),
                  [&](std::string& why) { return find_meeting(job.meeting, why); },
                  job.source == "unique id" ? kUsedUp : "",
                  deadline};
  const auto started = Clock::now();
  std::string progress;
  for (;;) {
    Channel channel = knock_again(call, progress, started);
    channel.set_limit(kRosterLimit);
    near = base::remote_address(channel.fd()).text();
    auto logged = Clock::now();
    for (;;) {
      const auto frame = channel.await(std::min(deadline, logged + kLogEvery));
      const auto now = Clock::now();
      if (!progress.empty() && now - logged >= kLogEvery) {
        base::log(base::LogLevel::info, self + " is waiting for " + progress);
        logged = now;
      }
      if (!frame && now >= deadline)
        throw Error(ErrorCode::timeout, self + " waited " + seconds_text(now - started) + " for " +
                                            (progress.empty() ? call.where : progress));
      if (!frame && channel.end().empty()) continue;
      if (!frame) break;  // the meeting is lost: knock again
      if (frame->type == kProgress) progress = Reader(frame->payload).text();
      if (const auto refused = read_refusal(*frame)) throw Error(refused->code, self + ": " + refused->text);
      if (frame->type != kRoster) continue;
      auto roster = decode_roster(frame->payload);
      if (!roster || roster->members.size() != static_cast<std::size_t>(job.size))
        throw Error(ErrorCode::internal_error, self + ": the meeting's roster cannot be read");
      return std::move(*roster);
    }
    std::this_thread::sleep_for(kFirstPause);
  }
}

}  // namespace tutti::runtime
