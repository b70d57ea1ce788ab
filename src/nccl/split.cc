// Communicators made of others: checks, then what the C++ interface does.
//
// A rank whose own arguments are wrong must not leave the others waiting for it: before a split or a growth all ranks
// say whether theirs are in order (one byte each), and none goes on unless all are.
#include "src/nccl/split.h"

#include <algorithm>
#include <cstring>

#include "src/nccl/group.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

void agree(Communicator& parent, const std::optional<Error>& wrong) {
  const char own = wrong ? 1 : 0;
  std::vector<char> refused(static_cast<std::size_t>(parent.size()));
  parent.all_gather(&own, refused.data(), 1, DataType::int8);
  if (wrong) throw *wrong;
  std::string ranks;
  for (std::size_t rank = 0; rank < refused.size(); ++rank)
    if (refused[rank] != 0) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  if (!ranks.empty())
    refuse_usage("rank " + std::to_string(parent.rank()) +
                 ": no communicator was made, because the arguments of rank " + ranks + " were refused there");
}

// What `check` complains of.
template <class Check>
std::optional<Error> complaint(Check check) {
  try {
    check();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

// `child`: null for a rank that only helps.
ncclResult_t make(const Entry& entry, const Use& parent, std::shared_ptr<Member> child, ncclComm_t* out,
                  std::function<std::optional<Communicator>()> connect) {
  const bool blocking = child ? child->settings().blocking : parent->settings().blocking;
  return submit(Job{entry, parent.shared(), std::move(child), out, std::move(connect), blocking});
}

void set_null(ncclComm_t* out) {
  require(out, "newcomm");
  *out = nullptr;
}

ncclResult_t split(const Entry& entry, int color, int key, ncclComm_t* out, const ncclConfig_t* config) {
  const Use use(entry.comm);
  if (out != nullptr) *out = nullptr;
  Communicator& parent = use->quiet();
  Settings settings = use->settings();
  const std::optional<Error> wrong = complaint([&] {
    require(out, "newcomm");
    settings = apply_config(settings, config);
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
      use->refuse("the color is " + std::to_string(color) + "; valid: 0 or more, or NCCL_SPLIT_NOCOLOR (-1)");
  });
  auto child = color == NCCL_SPLIT_NOCOLOR ? nullptr : std::make_shared<Member>(settings);
  return make(entry, use, std::move(child), out, [&parent, color, key, wrong, options = settings.config] {
    agree(parent, wrong);
    return parent.split(color == NCCL_SPLIT_NOCOLOR ? Communicator::kNoColor : color, key, options);
  });
}

std::vector<int> left_out(const Member& member, const int* ranks, int count) {
  const std::string valid = "; valid: 0 to " + std::to_string(member.size() - 1);
  if (count < 0 || count >= member.size()) member.refuse("excludeRanksCount is " + std::to_string(count) + valid);
  if (count > 0) require(ranks, "excludeRanksList");
  for (int k = 0; k < count; ++k) {
    if (ranks[k] < 0 || ranks[k] >= member.size())
      member.refuse("excludeRanksList[" + std::to_string(k) + "] is " + std::to_string(ranks[k]) + valid);
    if (ranks[k] == member.rank()) member.refuse("excludeRanksList names the calling rank itself");
  }
  return std::vector<int>(ranks, ranks + count);
}

// The communicator may have failed: nothing is asked of it.
ncclResult_t shrink(const Entry& entry, const int* excluded, int count, ncclComm_t* out, const ncclConfig_t* config,
                    int flags) {
  const Use use(entry.comm);
  set_null(out);
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
    use->refuse("shrinkFlags is " + std::to_string(flags) + "; valid: 0 (NCCL_SHRINK_DEFAULT), 1 (NCCL_SHRINK_ABORT)");
  Communicator& parent = use->quiet();
  const std::vector<int> ranks = left_out(*use, excluded, count);
  const Settings settings = apply_config(use->settings(), config);
  if (flags == NCCL_SHRINK_ABORT) use->stop("ncclCommShrink with NCCL_SHRINK_ABORT was called on " + use->who());
  return make(entry, use, std::make_shared<Member>(settings), out,
              [&parent, ranks, options = settings.config] { return std::optional(parent.shrink(ranks, options)); });
}

ncclResult_t grow(const Entry& entry, int ranks, const ncclUniqueId* given, int rank, ncclComm_t* out,
                  const ncclConfig_t* config) {
  const Use use(entry.comm);
  if (out != nullptr) *out = nullptr;
  Communicator& parent = use->quiet();
  Settings settings = use->settings();
  const std::optional<Error> wrong = complaint([&] {
    require(out, "newcomm");
    settings = apply_config(settings, config);
    if (ranks <= use->size())
      use->refuse("nRanks is " + std::to_string(ranks) + "; valid: " + std::to_string(use->size() + 1) + " or more");
    if (rank != -1) use->refuse("rank is " + std::to_string(rank) + "; ranks of the communicator keep theirs: pass -1");
  });
  std::optional<UniqueId> id;
  if (given != nullptr) std::memcpy(id.emplace().bytes.data(), given->internal, sizeof given->internal);
  return make(entry, use, std::make_shared<Member>(settings), out,
              [&parent, ranks, id, wrong, options = settings.config] {
                agree(parent, wrong);
                return std::optional(parent.grow(ranks, id ? &*id : nullptr, options));
              });
}

}  // namespace

ncclResult_t grow_call(const Entry& entry, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
                       const ncclConfig_t* config) {
  return guarded_in_group(entry, [&] {
    if (entry.comm != nullptr) return grow(entry, ranks, id, rank, out, config);
    require(id, "uniqueId, which a rank that joins must pass,");
    return pncclCommInitRankConfig(out, ranks, *id, rank, const_cast<ncclConfig_t*>(config));
  });
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  const Entry entry{"ncclCommSplit", comm};
  return guarded_in_group(entry, [&] { return split(entry, color, key, newcomm, config); });
}
TUTTI_NCCL_TWIN(ncclCommSplit);

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                             ncclConfig_t* config, int shrinkFlags) {
  const Entry entry{"ncclCommShrink", comm};
  return guarded_in_group(
      entry, [&] { return shrink(entry, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags); });
}
TUTTI_NCCL_TWIN(ncclCommShrink);

}  // extern "C"
