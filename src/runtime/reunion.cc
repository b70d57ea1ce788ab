#include "src/runtime/reunion.h"

#include <algorithm>

#include "src/runtime/wire.h"
#include "tutti/error.h"

namespace tutti::runtime {

std::vector<std::byte> to_blob(const ReunionPlace& place) {
  Writer writer;
  writer.u16(place.port).u32(static_cast<std::uint32_t>(place.hosts.size()));
  for (const std::string& host : place.hosts) writer.text(host);
  return writer.bytes();
}

ReunionPlace reunion_place_from_blob(const std::vector<std::byte>& blob, int rank) {
  constexpr std::uint32_t kMostHosts = 1024;
  Reader reader(blob);
  ReunionPlace place;
  place.port = reader.u16();
  const std::uint32_t hosts = reader.u32();
  for (std::uint32_t i = 0; i < hosts && i < kMostHosts && reader.ok(); ++i) place.hosts.push_back(reader.text());
  if (!reader.ok() || hosts > kMostHosts)
    throw Error(ErrorCode::internal_error,
                "what rank " + std::to_string(rank) + " says of where it can be met cannot be read");
  return place;
}

Job Reunion::call(const std::vector<int>& members, int self, Occasion occasion, int color) {
  const std::uint64_t number = ++called[static_cast<std::size_t>(occasion)];
  Job job;
  if (members.empty()) return job;  // this rank meets nobody, but counts with the others
  job.rank = static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
  job.size = static_cast<int>(members.size());
  job.source = occasion == Occasion::split ? "split" : "shrink";
  job.meeting.secret = secret;
  job.meeting.name =
      std::to_string(communicator) + "-" + job.source + "-" + std::to_string(number) + "-" + std::to_string(color);
  job.meeting.serve = job.rank == 0;
  if (places.empty()) return job;
  const ReunionPlace& place = places[static_cast<std::size_t>(members.front())];
  job.meeting.hosts = place.hosts;
  job.meeting.port = place.port;
  if (job.meeting.serve) job.meeting.listener = listener.get();
  return job;
}

}  // namespace tutti::runtime
