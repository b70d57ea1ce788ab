// Connecting, and the object that a communicator owns.
#include "src/runtime/control_plane.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "src/base/error.h"
#include "src/base/fd.h"
#include "src/base/log.h"
#include "src/base/socket.h"
#include "src/runtime/control_plane_core.h"
#include "src/runtime/control_plane_report.h"
#include "src/runtime/torch_store.h"

namespace tutti::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPortPatience{2000};  // for the previous owner of a port to end
constexpr std::chrono::milliseconds kTellOthers{2000};    // before this process may end
constexpr std::chrono::milliseconds kLateComers{10'000};  // a failed meeting is open for so long at most

// One rank alone: nobody to hear from.
class Alone : public ControlPlane {
 public:
  explicit Alone(std::function<RankState()> state) : state_(std::move(state)) {}
  std::vector<Bytes> all_gather(const Bytes& mine, Clock::time_point) override { return {mine}; }
  Error fault() const override {
    std::lock_guard lock(mutex_);
    return fault_;
  }
  void raise(ErrorCode code, const std::string& message) override {
    std::lock_guard lock(mutex_);
    if (fault_raised()) return;
    fault_ = Error(code, message);
    fault_raised_.store(true, std::memory_order_release);
  }
  void report_stall(const OperationRecord&) override {}
  std::string inspect(const OperationRecord& record) override {
    Inspection inspection;
    inspection.members.resize(1);
    inspection.left.resize(1);
    inspection.states = {state_ ? state_() : RankState{}};
    return describe(inspection, record);
  }
  void leave(std::uint64_t) override {}

 private:
  const std::function<RankState()> state_;
  mutable std::mutex mutex_;
  Error fault_{ErrorCode::internal_error, "fault() was called although no fault was raised"};
};

class Star : public ControlPlane {
 public:
  Star(std::shared_ptr<Engine> engine, const Job& job, std::function<RankState()> state)
      : core_(std::make_shared<ControlCore>(std::move(engine), job.rank, job.size, std::move(state),
                                            [this] { on_fault(); })) {}
  ~Star() override { core_->release(); }

  // Once the ranks have met. A fault may come at any time: whoever of the two comes second writes.
  void make_fault_fd() {
    fault_fd_ = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fault_fd_) base::throw_errno("cannot create an eventfd");
    told_.store(fault_fd_.get());
    if (fault_raised_.load()) tell(fault_fd_.get());
  }

  std::vector<Bytes> all_gather(const Bytes& mine, Clock::time_point deadline) override {
    return core_->all_gather(mine, deadline);
  }
  int fault_fd() const override { return fault_fd_.get(); }
  Error fault() const override { return core_->fault(); }
  void raise(ErrorCode code, const std::string& message) override { core_->raise(code, message); }
  void report_stall(const OperationRecord& record) override { core_->report_stall(record); }
  std::string inspect(const OperationRecord& record) override { return core_->inspect(record); }
  bool has_left(int rank) const override { return core_->has_left(rank); }
  void leave(std::uint64_t last) override { core_->leave(last); }

  const std::shared_ptr<ControlCore>& core() const { return core_; }

 private:
  void on_fault() {
    fault_raised_.store(true);
    if (const int fd = told_.load(); fd >= 0) tell(fd);
  }
  static void tell(int fd) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
  }

  base::Fd fault_fd_;
  std::atomic<int> told_{-1};  // fault_fd_, for whoever raises a fault
  const std::shared_ptr<ControlCore> core_;
};

struct DoorCloser {
  std::shared_ptr<Door> door;
  ~DoorCloser() {
    if (door) door->close();
  }
};

// What `listen` gives. A port or a name may still belong to a rank 0 that is just ending, or to this process's previous
// meeting.
template <class Listen>
base::Fd patiently(Clock::time_point deadline, const Listen& listen) {
  const auto until = std::min(deadline, Clock::now() + kPortPatience);
  for (;;) {
    try {
      return listen();
    } catch (const Error&) {
      if (Clock::now() >= until) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::shared_ptr<Door> open_meeting(const std::shared_ptr<Engine>& engine, const MeetingPoint& meeting,
                                   Clock::time_point deadline) {
  base::Fd tcp;
  if (meeting.listener >= 0) {
    tcp = base::Fd(::fcntl(meeting.listener, F_DUPFD_CLOEXEC, 0));
    if (!tcp) base::throw_errno("cannot use the listener at " + place_of(meeting) + " once more (dup)");
  } else if (meeting.port != 0) {
    tcp = patiently(deadline, [&] { return base::listen_everywhere(meeting.port); });
  }
  const std::string name = local_name(meeting.secret, meeting.name, meeting.port);
  base::Fd local = patiently(deadline, [&] { return base::listen_unix(name); });
  return Meeting::open(engine, std::move(tcp), std::move(local), meeting.secret, meeting.name, place_of(meeting));
}

// Rank 0's door for the members, and where it is.
std::shared_ptr<Door> open_centre(const std::shared_ptr<Engine>& engine, const Job& job,
                                  const std::shared_ptr<ControlCore>& core, Hello& hello) {
  hello.session = random_nonce();
  const std::string_view token(reinterpret_cast<const char*>(hello.session.data()), hello.session.size());
  hello.centre.local_name = "tutti-" + secret_name(job.meeting.secret, token);
  base::Fd local = base::listen_unix(hello.centre.local_name);
  base::Fd tcp;
  if (job.meeting.port != 0) {
    tcp = base::listen_everywhere();
    hello.centre.port = base::local_address(tcp.get()).port;
    hello.centre.hosts = base::reachable_addresses();
  }
  return Door::open(
      engine, std::move(tcp), std::move(local), job.meeting.secret, Purpose::control,
      [core, session = hello.session](Door&, Door::Guest guest) { core->admit(std::move(guest), session); },
      [core, who = hello.member.text()](Door&, const std::string& why) {
        core->raise(ErrorCode::system_error, who + " " + why);
      });
}

// "10.0.0.4:29500" -> "10.0.0.4", "[::1]:29500" -> "::1"; empty for a Unix socket.
std::string host_of(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  const std::string host = address.substr(0, colon);
  return host.front() == '[' ? host.substr(1, host.size() - 2) : host;
}

Channel call_centre(const Job& job, const Roster& roster, const std::string& near, Clock::time_point deadline) {
  const HostFacts here = HostFacts::of_this_process();
  const HostFacts& there = roster.members[0].host;
  const DoorAddress& centre = roster.centre;
  const bool same_host =
      !here.boot.empty() && here.boot == there.boot && here.network_namespace == there.network_namespace;
  const bool near_by = same_host || centre.port == 0;  // no port: all ranks are on one host
  std::vector<std::string> hosts = centre.hosts;
  if (const std::string host = host_of(near); !host.empty()) hosts.insert(hosts.begin(), host);
  const auto find = [&](std::string& why) {
    if (near_by) return std::vector{base::unix_address(centre.local_name)};
    return resolve_all(hosts, centre.port, why);
  };
  std::string where = "the control port of " + roster.members[0].text();
  if (!same_host)
    where += " (port " + std::to_string(centre.port) + " of " + (hosts.empty() ? there.name : hosts[0]) + ")";
  const Call call{job.meeting.secret,
                  Purpose::control,
                  ControlCore::control_hello(roster.session, job.rank),
                  "rank " + std::to_string(job.rank),
                  where,
                  find,
                  "it has ended or given up while the ranks connected",
                  deadline};
  return knock(call);
}

}  // namespace

std::unique_ptr<ControlPlane> ControlPlane::connect(const Job& given, Clock::time_point deadline,
                                                    std::function<RankState()> state) {
  if (given.size == 1) {
    // A meeting that somebody holds open must hear that its one rank has come.
    std::string near;
    if (given.source == "unique id") meet(given, Hello::of_this_process(0, 1, given.meeting.name), deadline, near);
    return std::make_unique<Alone>(std::move(state));
  }
  const auto engine = Engine::acquire();
  const Job job = given.meeting.torch_store_port ? meet_through_store(given, deadline) : given;
  auto star = std::make_unique<Star>(engine, job, std::move(state));
  Hello hello = Hello::of_this_process(job.rank, job.size, job.meeting.name);

  DoorCloser centre, meeting;
  if (job.rank == 0) centre.door = open_centre(engine, job, star->core(), hello);
  if (job.meeting.serve) meeting.door = open_meeting(engine, job.meeting, deadline);
  Roster roster;
  std::string near;
  try {
    roster = meet(job, hello, deadline, near);
  } catch (const Error& error) {
    // A meeting that has failed tells late comers why; one without descriptors tells all others only now.
    if (error.code() == ErrorCode::system_error && meeting.door)
      std::this_thread::sleep_until(std::min(deadline, Clock::now() + kTellOthers));
    if (error.code() == ErrorCode::invalid_usage || error.code() == ErrorCode::system_error)
      engine->after(kLateComers, [door = std::move(meeting.door)] {
        if (door) door->close();
      });
    throw;
  }
  star->core()->set_members(roster.members);
  if (job.rank != 0) star->core()->attach(call_centre(job, roster, near, deadline));
  star->all_gather({}, deadline);  // now all have their connection
  star->make_fault_fd();
  return star;
}

}  // namespace tutti::runtime
