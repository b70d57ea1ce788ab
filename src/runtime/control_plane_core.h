// The part of a control plane that outlives its owner: the sockets and what comes over them.
//
// Two roles meet here. As a member every rank asks the centre (request) and hears from it (news). As the centre rank 0
// serves the requests of all, its own included, without a socket for itself. The centre goes on as a relay after its
// own rank has left, until the last member has gone, so leaving needs no agreement. Its process would take the relay
// with it, so rank 0's leave() waits for the members of other processes, at most half of kLeaveTimeout. Members whose
// centre has ended in good order nevertheless (orphans) hear of nothing more: a stall of theirs ends after a second.
//
// Messages               member -> centre               centre -> member
//   gather                round, blob                    round, all blobs; missing: round, who has given none yet
//   fault                 code, text                     code, text           (the first one, to all)
//   stall                 record                         compare: record      (whoever called otherwise sends a stall)
//   inspect               id                             query: serial -> state: serial, state -> report: id, states
//   leave                 last operation                 left: rank, last operation
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/control_plane.h"
#include "src/runtime/control_plane_report.h"
#include "src/runtime/engine.h"
#include "src/runtime/rendezvous.h"
#include "src/runtime/wire_line.h"

namespace tutti::runtime {

class ControlCore : public std::enable_shared_from_this<ControlCore> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxBlob = std::size_t{1} << 20;  // bytes one rank may give to all_gather

  ControlCore(std::shared_ptr<Engine> engine, int rank, int size, std::function<RankState()> state,
              std::function<void()> on_fault);

  // While connecting. `session` tells this communicator's members from others that know the secret.
  void set_members(std::vector<Member> members);
  void admit(Door::Guest guest, const Nonce& session);  // engine's thread; the centre only
  void attach(Channel channel);                         // a member's way to the centre
  static Bytes control_hello(const Nonce& session, int rank);

  // The ControlPlane's members, any thread.
  std::vector<Bytes> all_gather(const Bytes& mine, Clock::time_point deadline);
  Error fault();
  void raise(ErrorCode code, const std::string& text);
  void report_stall(const OperationRecord& record);
  std::string inspect(const OperationRecord& record);
  bool has_left(int rank);
  void leave(std::uint64_t last);
  void release();  // the owner goes: no callback after this; raises a fault if it has not left

 private:
  enum Type : std::uint8_t {
    kGather = 16,
    kGathered,
    kFault,
    kStall,
    kCompare,
    kInspect,
    kQuery,
    kState,
    kReport,
    kLeave,
    kLeft,
    kMissing
  };
  struct Fault {
    ErrorCode code;
    std::string text;
  };
  struct Query {
    std::uint64_t serial = 0;
    std::uint64_t id = 0;
    std::vector<std::optional<RankState>> states;
  };
  struct Report {
    StatedCall call;
    Clock::time_point first{}, last{}, compared{};
  };

  // Engine's thread: messages.
  void to_centre(std::uint8_t type, const Bytes& payload);
  void to_member(int rank, std::uint8_t type, const Bytes& payload);
  void to_all(std::uint8_t type, const Bytes& payload);
  void on_request(int from, const Frame& frame);
  void on_news(const Frame& frame);
  void on_member_gone(int rank, const std::string& why);
  void on_centre_gone(const std::string& why);
  // Engine's thread: the centre's decisions.
  void gather(int from, Reader& reader);
  void tell_missing(std::uint64_t round);
  void decide(ErrorCode code, const std::string& text);
  void stall(int from, const StatedCall& call);
  void start_query(int from, std::uint64_t id);
  void finish_query(int from);
  void answer_query(int from, Reader& reader);
  void depart(int rank, std::uint64_t last);
  // Engine's thread: what a member does with news.
  void take_gathered(Reader& reader);
  void take_report(Reader& reader);
  void compare(const OperationRecord& record);
  RankState own_state();

  void settle(ErrorCode code, const std::string& text);  // the fault that all ranks see
  std::string who(int rank);
  std::string missing_of(std::uint64_t round);
  bool wait_until(Clock::time_point limit, const std::function<bool()>& done);
  std::optional<std::string> early_leaver(const OperationRecord& record);
  void relay_for_others();
  void orphan_stalled(const OperationRecord& record);

  const std::shared_ptr<Engine> engine_;
  const int rank_, size_;

  // Engine's thread only.
  std::vector<std::shared_ptr<Line>> lines_;  // the centre: by rank; a member: [0] is the centre
  bool decided_ = false;                      // centre: a fault is out
  std::vector<Report> reports_;               // centre: each rank's last stall
  std::map<int, Query> queries_;              // centre: by inquirer
  std::uint64_t telling_ = 0;                 // centre: the exchange of which tell_missing() will speak
  std::uint64_t serials_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Member> members_;
  std::optional<Fault> fault_;
  bool settled_ = false;  // fault_ is the one that all ranks see
  bool gone_ = false;     // the owner has left or released
  std::function<void()> on_fault_;
  std::uint64_t round_ = 0;
  std::map<std::uint64_t, std::vector<std::optional<Bytes>>> rounds_;  // centre: gathers in progress
  std::map<std::uint64_t, std::vector<Bytes>> gathered_;
  std::pair<std::uint64_t, std::string> missing_;  // a member: what the centre last said of an exchange
  std::uint64_t inspections_ = 0;
  std::map<std::uint64_t, std::vector<std::optional<RankState>>> inspected_;
  std::vector<std::optional<std::uint64_t>> left_;
  OperationRecord stalled_;
  Clock::time_point stall_sent_{};
  bool orphaned_ = false;             // the centre left and has ended, others are still there
  std::string orphan_waits_;          // what `stalled_` has waited for
  Clock::time_point orphan_since_{};  // since then

  std::mutex state_mutex_;  // held while the owner's callback runs
  std::function<RankState()> state_;
};

}  // namespace tutti::runtime
