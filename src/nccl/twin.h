// The two names of every function of the C interface: pncclX is the code, ncclX a weak alias that others may replace.
#pragma once

// NOLINTNEXTLINE(bugprone-macro-parentheses): these are names, which cannot be enclosed
#define TUTTI_NCCL_TWIN(name) extern "C" decltype(p##name) name __attribute__((weak, alias("p" #name)))
