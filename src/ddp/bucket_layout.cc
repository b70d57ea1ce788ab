#include "src/ddp/bucket_layout.h"

namespace tutti::ddp {

std::vector<BucketLayout> make_bucket_layouts(const std::vector<Parameter>& parameters, const DdpOptions& options) {
  std::vector<BucketLayout> buckets;
  for (std::size_t p = parameters.size(); p-- > 0;) {
    const Parameter& parameter = parameters[p];
    if (!parameter.trained()) continue;
    const std::size_t limit = buckets.size() <= 1 ? options.first_bucket_bytes : options.bucket_bytes;
    const bool fits = !buckets.empty() && buckets.back().type == parameter.type &&
                      (buckets.back().elements + parameter.count()) * size_of(parameter.type) <= limit;
    if (!fits) buckets.push_back({.type = parameter.type, .places = {}, .elements = 0});
    BucketLayout& bucket = buckets.back();
    bucket.places.push_back({.parameter = p, .offset = bucket.elements});
    bucket.elements += parameter.count();
  }
  return buckets;
}

}  // namespace tutti::ddp
