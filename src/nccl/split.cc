// Communicators made of others.
//
// Split: every rank tells every other its colour and key (one all-gather on the parent), so that all know all groups.
// The first rank of each opens a meeting place, whose address goes round in a second all-gather; then each group
// connects. A rank whose own arguments are wrong says so in the first round, and all ranks refuse: nobody waits for it.
#include <algorithm>
#include <cstring>

#include "src/nccl/group.h"
#include "src/nccl/result.h"
#include "src/nccl/split.h"
#include "src/nccl/twin.h"

namespace tutti::nccl {
namespace {

// What each rank tells the others; NoColour joins no group.
struct Proposal {
  std::int32_t color = NCCL_SPLIT_NOCOLOR;
  std::int32_t key = 0;
  std::int32_t refused = 0;
};

struct MeetingPlace {
  UniqueId id;
  std::int32_t open = 0;
};

template <class T>
std::vector<T> gather(Communicator& parent, const T& own) {
  std::vector<T> all(static_cast<std::size_t>(parent.size()));
  parent.all_gather(&own, all.data(), sizeof(T), DataType::uint8);
  return all;
}

// The parent's ranks that form `color`, in the order of the new communicator.
std::vector<int> group_of(const std::vector<Proposal>& proposals, std::int32_t color) {
  std::vector<int> group;
  for (std::size_t rank = 0; rank < proposals.size(); ++rank)
    if (proposals[rank].color == color) group.push_back(static_cast<int>(rank));
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
    return proposals[static_cast<std::size_t>(a)].key < proposals[static_cast<std::size_t>(b)].key;
  });
  return group;
}

void check_all_agree(const std::vector<Proposal>& proposals, int self) {
  std::string ranks;
  for (std::size_t rank = 0; rank < proposals.size(); ++rank)
    if (proposals[rank].refused != 0) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  if (!ranks.empty())
    refuse_usage("rank " + std::to_string(self) + ": nothing was split, because the arguments of rank " + ranks +
                 " were refused there");
}

// `wrong`: this rank's arguments are, which it still has to tell the others.
std::optional<Communicator> split(Communicator& parent, Proposal own, const Config& config,
                                  const std::optional<Error>& wrong) {
  own.refused = wrong ? 1 : 0;
  const std::vector<Proposal> proposals = gather(parent, own);
  if (wrong) throw *wrong;
  check_all_agree(proposals, parent.rank());

  std::vector<int> group;
  if (own.color != NCCL_SPLIT_NOCOLOR) group = group_of(proposals, own.color);
  MeetingPlace place;
  std::optional<Error> closed;
  if (!group.empty() && group.front() == parent.rank()) {
    try {
      place = {UniqueId::create(), 1};
    } catch (const Error& error) {
      closed = error;
    }
  }
  const std::vector<MeetingPlace> places = gather(parent, place);
  if (closed) throw *closed;
  if (group.empty()) return std::nullopt;
  const MeetingPlace& meeting = places[static_cast<std::size_t>(group.front())];
  if (meeting.open == 0)
    throw Error(ErrorCode::remote_error, "rank " + std::to_string(parent.rank()) + ": rank " +
                                             std::to_string(group.front()) +
                                             " could not open a meeting place for the new communicator");
  const auto own_place = std::find(group.begin(), group.end(), parent.rank());
  return Communicator::connect(meeting.id, static_cast<int>(own_place - group.begin()), static_cast<int>(group.size()),
                               config);
}

// The arguments of this rank alone are checked late, so that the others hear of it.
ncclResult_t split_call(const Entry& entry, int color, int key, ncclComm_t* out, const ncclConfig_t* config) {
  return guarded_in_group(entry, [&] {
    const Use use(entry.comm);
    require(out, "newcomm");
    *out = nullptr;
    Communicator& parent = use->parent();
    std::optional<Error> wrong;
    Settings settings = use->settings();
    try {
      settings = apply_config(settings, config);
      if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        use->refuse("the color is " + std::to_string(color) + "; valid: 0 or more, or NCCL_SPLIT_NOCOLOR (-1)");
    } catch (const Error& error) {
      wrong = error;
    }
    const bool joins = color != NCCL_SPLIT_NOCOLOR;
    return submit(Job{entry, use.shared(), joins ? std::make_shared<Member>(settings) : nullptr, out,
                      [&parent, color, key, wrong, options = settings.config] {
                        return split(parent, {color, key, 0}, options, wrong);
                      },
                      settings.blocking});
  });
}

// ---- shrink ----

std::vector<int> remaining(const Member& member, const int* excluded, int count) {
  std::vector<int> ranks;
  if (count < 0 || count >= member.size())
    member.refuse("excludeRanksCount is " + std::to_string(count) + "; valid: 0 to " +
                  std::to_string(member.size() - 1));
  if (count > 0) require(excluded, "excludeRanksList");
  for (int k = 0; k < count; ++k) {
    if (excluded[k] < 0 || excluded[k] >= member.size())
      member.refuse("excludeRanksList[" + std::to_string(k) + "] is " + std::to_string(excluded[k]) + "; valid: 0 to " +
                    std::to_string(member.size() - 1));
    if (excluded[k] == member.rank()) member.refuse("excludeRanksList names the calling rank itself");
  }
  for (int rank = 0; rank < member.size(); ++rank)
    if (std::find(excluded, excluded + count, rank) == excluded + count) ranks.push_back(rank);
  return ranks;
}

// The excluded ranks do not call, so no collective can be used: the first of the others sends the meeting place to
// each.
std::optional<Communicator> shrink(Communicator& parent, const std::vector<int>& ranks, const Config& config) {
  MeetingPlace place;
  std::vector<Message> messages;
  const int own = parent.rank();
  if (own == ranks.front()) {
    place = {UniqueId::create(), 1};
    for (const int rank : ranks)
      if (rank != own) messages.push_back({true, &place, sizeof place, DataType::uint8, rank});
  } else {
    messages.push_back({false, &place, sizeof place, DataType::uint8, ranks.front()});
  }
  if (!messages.empty()) run(parent, messages);
  const auto at = std::find(ranks.begin(), ranks.end(), own);
  return Communicator::connect(place.id, static_cast<int>(at - ranks.begin()), static_cast<int>(ranks.size()), config);
}

void check_alive(const Member& member) {
  if (member.fault() != ncclSuccess)
    member.refuse_usage(
        "the communicator has failed (" + member.last_error() +
        "), and its ranks cannot agree over it any more: connect those that live anew, with a new ncclGetUniqueId that "
        "reaches them some other way");
}

ncclResult_t shrink_call(const Entry& entry, const int* excluded, int count, ncclComm_t* out,
                         const ncclConfig_t* config, int flags) {
  return guarded_in_group(entry, [&] {
    const Use use(entry.comm);
    require(out, "newcomm");
    *out = nullptr;
    if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
      use->refuse("shrinkFlags is " + std::to_string(flags) +
                  "; valid: 0 (NCCL_SHRINK_DEFAULT), 1 (NCCL_SHRINK_ABORT)");
    Communicator& parent = use->parent();
    const std::vector<int> ranks = remaining(*use, excluded, count);
    check_alive(*use);
    const Settings settings = apply_config(use->settings(), config);
    return submit(Job{entry, use.shared(), std::make_shared<Member>(settings), out,
                      [&parent, ranks, options = settings.config] { return shrink(parent, ranks, options); },
                      settings.blocking});
  });
}

// ---- grow ----

struct Invitation {
  UniqueId id;
  std::int32_t given = 0;
};

std::optional<Communicator> grow(Communicator& parent, const std::optional<UniqueId>& id, int ranks,
                                 const Config& config) {
  Invitation own;
  if (id) own = {*id, 1};
  for (const Invitation& invitation : gather(parent, own))
    if (invitation.given != 0) return Communicator::connect(invitation.id, parent.rank(), ranks, config);
  refuse_argument("no rank of the communicator passed the uniqueId of ncclCommGetUniqueId; the one that made it must");
}

std::optional<UniqueId> copy_of(const ncclUniqueId* id) {
  if (id == nullptr) return std::nullopt;
  UniqueId copy;
  std::memcpy(copy.bytes.data(), id->internal, sizeof id->internal);
  return copy;
}

}  // namespace

ncclResult_t grow_call(const Entry& entry, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
                       const ncclConfig_t* config) {
  return guarded_in_group(entry, [&] {
    require(out, "newcomm");
    *out = nullptr;
    if (entry.comm == nullptr) {
      require(id, "uniqueId (of a rank that joins)");
      return pncclCommInitRankConfig(out, ranks, *id, rank, const_cast<ncclConfig_t*>(config));
    }
    const Use use(entry.comm);
    Communicator& parent = use->parent();
    if (ranks <= use->size())
      use->refuse("nRanks is " + std::to_string(ranks) + "; valid: more than the communicator has");
    if (rank != -1) use->refuse("rank is " + std::to_string(rank) + "; ranks of the communicator keep theirs: pass -1");
    check_alive(*use);
    const Settings settings = apply_config(use->settings(), config);
    return submit(Job{entry, use.shared(), std::make_shared<Member>(settings), out,
                      [&parent, given = copy_of(id), ranks, options = settings.config] {
                        return grow(parent, given, ranks, options);
                      },
                      settings.blocking});
  });
}

}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return split_call({"ncclCommSplit", comm}, color, key, newcomm, config);
}
TUTTI_NCCL_TWIN(ncclCommSplit);

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                             ncclConfig_t* config, int shrinkFlags) {
  return shrink_call({"ncclCommShrink", comm}, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
}
TUTTI_NCCL_TWIN(ncclCommShrink);

}  // extern "C"
