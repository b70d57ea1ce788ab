// The engine's side of the control plane: requests to the centre and news from it.
#include <algorithm>
#include <utility>

#include "src/base/log.h"
#include "src/runtime/control_plane_core.h"
#include "src/runtime/control_plane_report.h"

namespace tutti::runtime {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kOverhead = 256;      // bytes of a frame beside its blobs
constexpr milliseconds kAnswerTime{300};    // for ranks to answer a query
constexpr milliseconds kCompareAfter{100};  // a record stalled so long is compared with ranks that have not reported
constexpr std::size_t kOpenGathers = 4;
constexpr milliseconds kMissingAfter{100};  // an exchange that takes so long is spoken of

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

Bytes ControlCore::control_hello(const Nonce& session, int rank) {
  return Writer().raw(session).u32(static_cast<std::uint32_t>(rank)).bytes();
}

void ControlCore::admit(Door::Guest guest, const Nonce& session) {
  Reader reader(guest.hello);
  const auto token = reader.raw(session.size());
  const std::uint32_t rank = reader.u32();
  const bool fits = reader.complete() && std::equal(token.begin(), token.end(), session.begin(), session.end()) &&
                    rank >= 1 && rank < static_cast<std::uint32_t>(size_) && !lines_[rank];
  if (!fits) {
    guest.channel.send(kRefusal,
                       refusal({ErrorCode::invalid_usage, false, "this is not a rank that rank 0 waits for"}));
    return;
  }
  if (decided_) {
    const Error why = fault();
    guest.channel.send(kRefusal, refusal({why.code(), false, why.what()}));
    return;
  }
  guest.channel.set_limit(kMaxBlob + kOverhead);
  // The blobs of one exchange, and small news: a member that does not read gets no further exchange.
  guest.channel.set_output_limit((kMaxBlob + kOverhead) * index(size_ + 1));
  const int from = static_cast<int>(rank);
  lines_[rank] = Line::start(
      engine_, std::move(guest.channel),
      [self = shared_from_this(), from](const Frame& frame) { self->on_request(from, frame); },
      [self = shared_from_this(), from](const std::string& why) { self->on_member_gone(from, why); });
  lines_[rank]->send(kWelcome, {});
}

void ControlCore::attach(Channel channel) {
  channel.set_limit((kMaxBlob + kOverhead) * index(size_));
  // A std::function must be copyable, a channel is not.
  engine_->post([self = shared_from_this(), shared = std::make_shared<Channel>(std::move(channel))] {
    self->lines_[0] = Line::start(
        self->engine_, std::move(*shared), [self](const Frame& frame) { self->on_news(frame); },
        [self](const std::string& why) { self->on_centre_gone(why); });
  });
}

void ControlCore::to_centre(std::uint8_t type, const Bytes& payload) {
  if (rank_ == 0) return on_request(0, {type, payload});
  if (lines_[0] && lines_[0]->open()) return lines_[0]->send(type, payload);
  // Without a centre this rank's own fault is the one that counts.
  Reader reader(payload);
  if (type != kFault) return;
  const auto code = static_cast<ErrorCode>(reader.u8());
  settle(code, reader.text());
}

void ControlCore::to_member(int rank, std::uint8_t type, const Bytes& payload) {
  if (rank == 0) return on_news({type, payload});
  if (lines_[index(rank)]) lines_[index(rank)]->send(type, payload);
}

void ControlCore::to_all(std::uint8_t type, const Bytes& payload) {
  // This rank last: what its callers do on hearing it (stop, end the process) must not keep it from the others.
  for (int rank = size_ - 1; rank >= 0; --rank) to_member(rank, type, payload);
}

void ControlCore::on_request(int from, const Frame& frame) {
  Reader reader(frame.payload);
  switch (frame.type) {
    case kGather: return gather(from, reader);
    case kFault: {
      const auto code =
          static_cast<ErrorCode>(std::min<std::uint8_t>(reader.u8(), std::uint8_t(ErrorCode::internal_error)));
      return decide(code, reader.text());
    }
    case kStall: return stall(from, take_call(reader));
    case kInspect: return start_query(from, reader.u64());
    case kState: return answer_query(from, reader);
    case kLeave: return depart(from, reader.u64());
    default:
      decide(ErrorCode::internal_error,
             who(from) + " sent a control message of unknown type " + std::to_string(frame.type));
  }
}

void ControlCore::gather(int from, Reader& reader) {
  const std::uint64_t round = reader.u64();
  const auto blob = reader.blob();
  Writer all;
  {
    std::lock_guard lock(mutex_);
    if (!rounds_.count(round) && rounds_.size() >= kOpenGathers) return;  // nobody waits for so many
    auto& blobs = rounds_[round];
    blobs.resize(index(size_));
    blobs[index(from)] = Bytes(blob.begin(), blob.end());
    const bool complete = std::all_of(blobs.begin(), blobs.end(), [](const auto& each) { return each.has_value(); });
    if (!complete && std::exchange(telling_, round) != round)
      engine_->after(kMissingAfter, [weak = weak_from_this(), round] {
        if (const auto self = weak.lock()) self->tell_missing(round);
      });
    if (!complete) return;
    all.u64(round);
    for (const auto& each : blobs) all.blob(*each);
    rounds_.erase(round);
  }
  to_all(kGathered, all.bytes());
}

// Members that wait hear for whom, so that each can say it when its deadline comes before the centre's.
void ControlCore::tell_missing(std::uint64_t round) {
  {
    std::lock_guard lock(mutex_);
    if (!rounds_.count(round)) return;
  }
  telling_ = 0;
  to_all(kMissing, Writer().u64(round).text(missing_of(round)).bytes());
}

void ControlCore::decide(ErrorCode code, const std::string& text) {
  if (std::exchange(decided_, true)) return;
  to_all(kFault, Writer().u8(static_cast<std::uint8_t>(code)).text(text).bytes());
}

void ControlCore::on_member_gone(int rank, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (left_[index(rank)]) return;
  }
  if (decided_) return;
  const std::string text = who(rank) + " died: its control connection " + (why == "closed" ? why : "broke: " + why);
  base::log(base::LogLevel::error, text);
  decide(ErrorCode::remote_error, text);
}

void ControlCore::on_centre_gone(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    if (gone_ || settled_) return;
    if (left_[0]) {
      for (int rank = 1; rank < size_; ++rank) orphaned_ |= rank != rank_ && !left_[index(rank)];
      return;
    }
  }
  settle(ErrorCode::remote_error,
         who(0) + " died: its control connection " + (why == "closed" ? why : "broke: " + why));
}

void ControlCore::stall(int from, const StatedCall& call) {
  const OperationRecord& record = call.record;
  if (const auto leaver = early_leaver(record))
    return decide(ErrorCode::remote_error,
                  *leaver + "; rank " + std::to_string(from) + " waits in " + describe(record));
  const auto now = Clock::now();
  Report& report = reports_[index(from)];
  if (report.call.record != record) {
    report.first = now;
    report.compared = {};
  }
  report.call = call;
  report.last = now;
  Clock::time_point compared{};  // this record, whoever reported it
  for (int rank = 0; rank < size_; ++rank) {
    const StatedCall& other = reports_[index(rank)].call;
    if (other.record == record) compared = std::max(compared, reports_[index(rank)].compared);
    if (other.record.sequence != record.sequence || other.record == record) continue;
    const std::string text =
        rank < from ? describe_mismatch(rank, other, from, call) : describe_mismatch(from, call, rank, other);
    base::log(base::LogLevel::error, text);
    return decide(ErrorCode::invalid_usage, text);
  }
  // Each record has its own turns: ranks may be stuck in different ones, and report in step.
  if (now - report.first < kCompareAfter || now - compared < kCompareAfter) return;
  report.compared = now;
  Writer question;
  put(question, record);
  to_all(kCompare, question.bytes());
}

void ControlCore::start_query(int from, std::uint64_t id) {
  Query& query = queries_[from];  // a newer inspection replaces the older one
  query.serial = ++serials_;
  query.id = id;
  query.states.assign(index(size_), std::nullopt);
  engine_->after(kAnswerTime, [weak = weak_from_this(), from, serial = query.serial] {
    const auto self = weak.lock();
    if (!self) return;
    const auto found = self->queries_.find(from);
    if (found != self->queries_.end() && found->second.serial == serial) self->finish_query(from);
  });
  to_all(kQuery, Writer().u64(query.serial).bytes());
}

void ControlCore::answer_query(int from, Reader& reader) {
  const std::uint64_t serial = reader.u64();
  RankState state = take_state(reader);
  for (auto& [inquirer, query] : queries_) {
    if (query.serial != serial) continue;
    query.states[index(from)] = std::move(state);
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < query.states.size(); ++i)
      if (!query.states[i] && !left_[i]) return;
    break;
  }
  for (const auto& [inquirer, query] : queries_)
    if (query.serial == serial) return finish_query(inquirer);
}

void ControlCore::finish_query(int from) {
  const Query query = std::move(queries_[from]);
  queries_.erase(from);
  Writer report;
  report.u64(query.id);
  for (const auto& state : query.states) {
    report.u8(state.has_value());
    if (state) put(report, *state);
  }
  to_member(from, kReport, report.bytes());
}

void ControlCore::depart(int rank, std::uint64_t last) {
  to_all(kLeft, Writer().u32(static_cast<std::uint32_t>(rank)).u64(last).bytes());
}

void ControlCore::on_news(const Frame& frame) {
  Reader reader(frame.payload);
  switch (frame.type) {
    case kGathered: return take_gathered(reader);
    case kFault: {
      const auto code =
          static_cast<ErrorCode>(std::min<std::uint8_t>(reader.u8(), std::uint8_t(ErrorCode::internal_error)));
      return settle(code, reader.text());
    }
    case kCompare: return compare(take_record(reader));
    case kQuery: {
      Writer answer;
      answer.u64(reader.u64());
      put(answer, own_state());
      return to_centre(kState, answer.bytes());
    }
    case kReport: return take_report(reader);
    case kMissing: {
      const std::uint64_t round = reader.u64();
      std::lock_guard lock(mutex_);
      missing_ = {round, reader.text()};
      return;
    }
    case kLeft: {
      const std::uint32_t rank = reader.u32();
      {
        std::lock_guard lock(mutex_);
        if (rank < left_.size()) left_[rank] = reader.u64();
      }
      return changed_.notify_all();
    }
    default: return;  // of a newer version; the centre decides what matters
  }
}

void ControlCore::take_gathered(Reader& reader) {
  const std::uint64_t round = reader.u64();
  std::vector<Bytes> all;
  for (int rank = 0; rank < size_; ++rank) {
    const auto blob = reader.blob();
    all.emplace_back(blob.begin(), blob.end());
  }
  {
    std::lock_guard lock(mutex_);
    gathered_[round] = std::move(all);
  }
  changed_.notify_all();
}

void ControlCore::take_report(Reader& reader) {
  const std::uint64_t id = reader.u64();
  std::vector<std::optional<RankState>> states(index(size_));
  for (auto& state : states)
    if (reader.u8() != 0) state = take_state(reader);
  {
    std::lock_guard lock(mutex_);
    const auto waiting = inspected_.find(id);
    if (waiting != inspected_.end()) waiting->second = std::move(states);
  }
  changed_.notify_all();
}

// Another rank is stuck in `record`: if this rank calls otherwise, the centre must hear of it.
void ControlCore::compare(const OperationRecord& record) {
  RankState state = own_state();
  state.recent.push_back(state.current);
  for (const OperationRecord& mine : state.recent) {
    if (mine.sequence != record.sequence || mine == record) continue;
    Writer report;
    put(report, stated(mine, state));
    return to_centre(kStall, report.bytes());
  }
}

}  // namespace tutti::runtime
