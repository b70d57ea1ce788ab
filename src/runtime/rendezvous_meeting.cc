// The side of the rendezvous that waits: it collects one Hello per rank and answers all of them.
#include <bit>
#include <map>
#include <utility>

#include "src/base/log.h"
#include "src/runtime/rendezvous.h"
#include "src/runtime/rendezvous_frames.h"
#include "src/runtime/wire_line.h"

namespace tutti::runtime {
namespace {

constexpr std::chrono::milliseconds kTellEvery{100};         // progress to those who wait, when it changed
constexpr std::chrono::milliseconds kLinger{5000};           // for the answered to take their answer
constexpr std::chrono::milliseconds kFailedLinger{2000};     // a failed meeting tells late comers why
constexpr std::chrono::milliseconds kStarvedLinger{10'000};  // longer: they are told one after the other
constexpr std::chrono::hours kLife{1};                       // of a meeting to which nobody comes
constexpr std::chrono::milliseconds kLookEvery{5000};        // whether its time is over
constexpr std::chrono::milliseconds kDeserted{5000};         // and of one that all have given up
constexpr std::size_t kGuestFrames = 64;                     // guests say nothing after their hello

// Lives on the engine's thread, kept by its door and its lines. It ends a moment after it has answered or failed, or
// has been deserted by its last guest, or after kLife.
class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(std::shared_ptr<Engine> engine, std::string job, std::string where)
      : engine_(std::move(engine)), job_(std::move(job)), where_(std::move(where)) {}

  // The meeting keeps itself and the engine alive by its door, so it must end although nobody ever completes it. It is
  // looked at now and then, for a timer of kLife would keep the memory of meetings that are long over.
  static void expire(const std::weak_ptr<Gathering>& gathering, const std::weak_ptr<Door>& door,
                     std::chrono::steady_clock::time_point end) {
    const auto self = gathering.lock();
    const auto open = door.lock();
    if (!self || !open) return;
    if (std::chrono::steady_clock::now() >= end && self->guests_.empty()) return open->close();
    self->engine_->after(kLookEvery, [gathering, door, end] { expire(gathering, door, end); });
  }

  void admit(Door& door, Door::Guest guest) {
    door_ = door.weak_from_this();
    const auto hello = decode_hello(guest.hello);
    if (failure_) return refuse(guest, *failure_);
    if (!hello) return refuse(guest, {ErrorCode::invalid_argument, false, "its first message cannot be read"});
    const std::string who = "rank " + std::to_string(hello->member.rank) + " at " + guest.from;
    if (hello->wire != kWireVersion)
      return fail_with(guest, who + " runs library version " + hello->library + ", which speaks wire version " +
                                  std::to_string(hello->wire) + "; the others speak version " +
                                  std::to_string(kWireVersion) + ": use one version of the library everywhere");
    if (hello->byte_order != own_.byte_order)
      return fail_with(guest, who + " has another byte order than the meeting at " + where_);
    if (hello->job != job_)
      return refuse(guest, {ErrorCode::invalid_argument, true,
                            "the meeting at " + where_ + " is that of job '" + job_ + "', this rank is of job '" +
                                hello->job + "'"});
    if (!guests_.empty() && guests_.begin()->second.hello.size != hello->size) {
      const Hello& first = guests_.begin()->second.hello;
      return fail_with(guest, "the ranks disagree about their number: " + first.member.text() + " was told size " +
                                  std::to_string(first.size) + ", " + hello->member.text() + " size " +
                                  std::to_string(hello->size));
    }
    const auto same = guests_.find(hello->member.rank);
    if (same != guests_.end() && same->second.hello.instance != hello->instance)
      return fail_with(guest, "two processes are rank " + std::to_string(hello->member.rank) + ": pid " +
                                  std::to_string(same->second.hello.member.pid) + " on host " +
                                  same->second.hello.member.host.name + " and pid " +
                                  std::to_string(hello->member.pid) + " on host " + hello->member.host.name);
    if (same != guests_.end()) same->second.line->close();  // it lost its connection and has come back
    seat(std::move(guest), *hello);
  }

  void starve(Door& door, const std::string& why) {
    door_ = door.weak_from_this();
    if (!answered_ && !failure_)
      fail({ErrorCode::system_error, false,
            "the process that holds the meeting at " + where_ + " (pid " + std::to_string(own_.member.pid) +
                " on host " + own_.member.host.name + ") " + why},
           kStarvedLinger);
  }

 private:
  struct Seat {
    std::shared_ptr<Line> line;
    Hello hello;
  };

  void seat(Door::Guest guest, const Hello& hello) {
    const int rank = hello.member.rank;
    ++visits_;
    guest.channel.set_limit(kGuestFrames);
    auto line = Line::start(
        engine_, std::move(guest.channel), [](const Frame&) {},
        [self = shared_from_this(), rank, instance = hello.instance](const std::string&) {
          self->gone(rank, instance);
        });
    line->send(kWelcome, {});
    guests_[rank] = {line, hello};
    if (guests_.size() < hello.size) {
      line->send(kProgress, Writer().text(progress()).bytes());
      tell_soon();
      return;
    }
    answer();
  }

  void gone(int rank, const Nonce& instance) {
    const auto guest = guests_.find(rank);
    if (guest == guests_.end() || guest->second.hello.instance != instance) return;
    guests_.erase(guest);
    if (answered_ || failure_) return;
    if (!guests_.empty()) return tell_soon();
    engine_->after(kDeserted, [weak = weak_from_this(), visits = visits_] {
      const auto self = weak.lock();
      if (self && self->visits_ == visits) self->close_door();
    });
  }

  std::string progress() const {
    std::vector<int> missing;
    const int size = static_cast<int>(guests_.begin()->second.hello.size);
    for (int rank = 0; rank < size; ++rank)
      if (!guests_.count(rank)) missing.push_back(rank);
    return (missing.size() == 1 ? "rank " : "ranks ") + ranges(missing) + " of " + std::to_string(size) + "; " +
           std::to_string(guests_.size()) + " connected; meeting at " + where_;
  }

  void tell_soon() {
    if (std::exchange(telling_, true)) return;
    engine_->after(kTellEvery, [self = shared_from_this()] {
      self->telling_ = false;
      if (self->answered_ || self->failure_ || self->guests_.empty()) return;
      const Writer text = Writer().text(self->progress());
      for (auto& [rank, guest] : self->guests_) guest.line->send(kProgress, text.bytes());
    });
  }

  void answer() {
    answered_ = true;
    Roster roster;
    for (const auto& [rank, guest] : guests_) roster.members.push_back(guest.hello.member);
    roster.centre = guests_.begin()->second.hello.centre;
    roster.session = guests_.begin()->second.hello.session;
    const Bytes bytes = encode(roster);
    for (auto& [rank, guest] : guests_) guest.line->send(kRoster, bytes);
    close_door();
    end_after(kLinger);
  }

  void refuse(Door::Guest& guest, const Refusal& why) { guest.channel.send(kRefusal, refusal(why)); }

  void fail_with(Door::Guest& guest, const std::string& text) {
    fail({ErrorCode::invalid_usage, false, text}, kFailedLinger);
    refuse(guest, *failure_);
  }

  void fail(const Refusal& why, std::chrono::milliseconds linger) {
    failure_ = why;
    base::log(base::LogLevel::error, why.text);
    for (auto& [rank, guest] : guests_) guest.line->send(kRefusal, refusal(why));
    engine_->after(linger, [self = shared_from_this()] { self->close_door(); });
    end_after(linger);
  }

  void close_door() {
    if (const auto door = door_.lock()) door->close();
  }

  // The guests close their ends when they have read the answer; whoever does not is left.
  void end_after(std::chrono::milliseconds limit) {
    for (auto& [rank, guest] : guests_) guest.line->finish();
    engine_->after(limit, [weak = weak_from_this()] {
      if (const auto self = weak.lock())
        for (auto& [rank, guest] : std::exchange(self->guests_, {})) guest.line->close();
    });
  }

  const std::shared_ptr<Engine> engine_;
  std::string job_, where_;
  std::weak_ptr<Door> door_;
  std::map<int, Seat> guests_;
  std::optional<Refusal> failure_;
  std::uint64_t visits_ = 0;
  bool answered_ = false;
  bool telling_ = false;
  const Hello own_ = Hello::of_this_process(0, 1, "");  // of the process that holds the meeting
};

}  // namespace

std::shared_ptr<Door> Meeting::open(std::shared_ptr<Engine> engine, base::Fd tcp, base::Fd local, const Secret& secret,
                                    const std::string& job, const std::string& where) {
  auto gathering = std::make_shared<Gathering>(engine, job, where);
  auto door = Door::open(
      std::move(engine), std::move(tcp), std::move(local), secret, Purpose::meeting,
      [gathering](Door& at, Door::Guest guest) { gathering->admit(at, std::move(guest)); },
      [gathering](Door& at, const std::string& why) { gathering->starve(at, why); });
  Gathering::expire(gathering, door, std::chrono::steady_clock::now() + kLife);
  return door;
}

}  // namespace tutti::runtime
