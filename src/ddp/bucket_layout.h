// Which parameter's gradient lies where in which bucket: a pure function of the parameters and the options, so that all
// ranks have the same buckets, by definition and not by arrival.
#pragma once

#include <cstddef>
#include <vector>

#include "tutti/ddp.h"

namespace tutti::ddp {

// Behind its gradients every bucket carries two numbers that are summed with them: this rank's samples, and how many
// of the bucket's gradients were never ready on it.
inline constexpr std::size_t kTrailerElements = 2;

struct BucketLayout {
  struct Place {
    std::size_t parameter;
    std::size_t offset;  // elements from the start of the bucket
  };
  DataType type = DataType::float32;  // one per bucket
  std::vector<Place> places;
  std::size_t elements = 0;  // of gradients; the trailer comes behind
};

std::vector<BucketLayout> make_bucket_layouts(const std::vector<Parameter>& parameters, const DdpOptions& options);

}  // namespace tutti::ddp
