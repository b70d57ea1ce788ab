// ncclParam...: the NCCL_ variables that are known here, as a program can ask for them (include/nccl_later.h).
#include <cstdio>
#include <cstring>
#include <limits>

#include "nccl_later.h"
#include "src/base/env.h"
#include "src/nccl/environment.h"
#include "src/nccl/guarded.h"
#include "src/nccl/result.h"
#include "src/nccl/twin.h"

// A variable, with its value when it was first asked for.
struct ncclParamHandle {
  std::string key;
  std::string value;
};

namespace tutti::nccl {
namespace {

// Made once and never destroyed: programs keep handles and texts.
const std::vector<ncclParamHandle>& parameters() {
  static const auto* const all = [] {
    auto* made = new std::vector<ncclParamHandle>;
    for (const std::string& name : known_variables()) made->push_back({name, base::env(name.c_str()).value_or("")});
    return made;
  }();
  return *all;
}

std::string joined_keys() {
  std::string text;
  for (const ncclParamHandle& one : parameters()) text += (text.empty() ? "" : ", ") + one.key;
  return text;
}

const ncclParamHandle& find(const char* key) {
  require(key, "key");
  for (const ncclParamHandle& one : parameters())
    if (one.key == key) return one;
  refuse_argument("there is no parameter '" + std::string(key).substr(0, 100) + "'; valid: " + joined_keys());
}

const ncclParamHandle& valid(ncclParamHandle_t handle) {
  for (const ncclParamHandle& one : parameters())
    if (&one == handle) return one;
  refuse_argument("the handle is none that ncclParamBind gave");
}

template <class T>
ncclResult_t number(const char* function, ncclParamHandle_t handle, T* out) {
  return guarded({function}, [&] {
    require(out, "out");
    const ncclParamHandle& one = valid(handle);
    if constexpr (std::is_signed_v<T>)
      *out = static_cast<T>(
          base::parse_integer(one.key, one.value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    else
      *out = static_cast<T>(base::parse_unsigned(one.key, one.value, 0, std::numeric_limits<T>::max()));
  });
}

void tell(const ncclParamHandle& one, const char** value, int* length) {
  require(value, "value");
  *value = one.value.c_str();
  if (length != nullptr) *length = static_cast<int>(one.value.size());
}

}  // namespace
}  // namespace tutti::nccl

using namespace tutti::nccl;  // NOLINT(google-build-using-namespace): the functions below are C's

extern "C" {

ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key) {
  return guarded({"ncclParamBind"}, [&] {
    require(out, "out");
    *out = const_cast<ncclParamHandle_t>(&find(key));
  });
}
TUTTI_NCCL_TWIN(ncclParamBind);

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be enclosed
#define TUTTI_NCCL_NUMBER(suffix, type)                                     \
  ncclResult_t pncclParamGet##suffix(ncclParamHandle_t handle, type* out) { \
    return number("ncclParamGet" #suffix, handle, out);                     \
  }                                                                         \
  TUTTI_NCCL_TWIN(ncclParamGet##suffix)
// NOLINTEND(bugprone-macro-parentheses)

TUTTI_NCCL_NUMBER(I8, int8_t);
TUTTI_NCCL_NUMBER(I16, int16_t);
TUTTI_NCCL_NUMBER(I32, int32_t);
TUTTI_NCCL_NUMBER(I64, int64_t);
TUTTI_NCCL_NUMBER(U8, uint8_t);
TUTTI_NCCL_NUMBER(U16, uint16_t);
TUTTI_NCCL_NUMBER(U32, uint32_t);
TUTTI_NCCL_NUMBER(U64, uint64_t);

ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char** out) {
  return guarded({"ncclParamGetStr"}, [&] { tell(valid(handle), out, nullptr); });
}
TUTTI_NCCL_TWIN(ncclParamGetStr);

// The text with its end, cut off where `maxLen` bytes are full; *len is the whole text's length.
ncclResult_t pncclParamGet(ncclParamHandle_t handle, void* out, int maxLen, int* len) {
  return guarded({"ncclParamGet"}, [&] {
    const std::string& value = valid(handle).value;
    require(out, "out");
    if (maxLen < 1) refuse_argument("maxLen is " + std::to_string(maxLen) + "; valid: 1 or more");
    std::snprintf(static_cast<char*>(out), static_cast<std::size_t>(maxLen), "%s", value.c_str());
    if (len != nullptr) *len = static_cast<int>(value.size());
  });
}
TUTTI_NCCL_TWIN(ncclParamGet);

ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* valueLen) {
  return guarded({"ncclParamGetParameter"}, [&] { tell(find(key), value, valueLen); });
}
TUTTI_NCCL_TWIN(ncclParamGetParameter);

ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* tableLen) {
  return guarded({"ncclParamGetAllParameterKeys"}, [&] {
    require(table, "table");
    require(tableLen, "tableLen");
    static const auto* const keys = [] {
      auto* made = new std::vector<const char*>;
      for (const ncclParamHandle& one : parameters()) made->push_back(one.key.c_str());
      return made;
    }();
    *table = const_cast<const char**>(keys->data());
    *tableLen = static_cast<int>(keys->size());
  });
}
TUTTI_NCCL_TWIN(ncclParamGetAllParameterKeys);

void pncclParamDumpAll() {
  guarded({"ncclParamDumpAll"}, [] {
    for (const ncclParamHandle& one : parameters()) std::printf("%s=%s\n", one.key.c_str(), one.value.c_str());
    std::fflush(stdout);
  });
}
TUTTI_NCCL_TWIN(ncclParamDumpAll);

}  // extern "C"
