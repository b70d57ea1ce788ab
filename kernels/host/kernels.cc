#include "kernels/host/kernels.h"

#include <string>

#include "kernels/host/tables.h"
#include "src/base/env.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tutti::kernels {
namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports also checks that the operating system saves the registers.
bool cpu_has_avx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2");
}

bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

}  // namespace

std::vector<const runtime::Kernels*> available_host_kernels() {
  std::vector<const runtime::Kernels*> tables;
#if defined(__x86_64__)
  if (cpu_has_avx512()) tables.push_back(&kAvx512Kernels);
  if (cpu_has_avx2()) tables.push_back(&kAvx2Kernels);
#elif defined(__aarch64__)
  tables.push_back(&kNeonKernels);
#endif
  tables.push_back(&kPlainKernels);
  return tables;
}

const runtime::Kernels& host_kernels() {
  const std::vector<const runtime::Kernels*> tables = available_host_kernels();
  const auto wanted = base::env("TUTTI_KERNELS");
  if (!wanted) return *tables.front();

  std::vector<std::string> names;
  for (const runtime::Kernels* table : tables) names.emplace_back(table->name);
  const std::string name = base::parse_choice("TUTTI_KERNELS", *wanted, names);
  for (const runtime::Kernels* table : tables)
    if (table->name == name) return *table;
  return *tables.front();  // not reached: parse_choice returns one of the names
}

}  // namespace tutti::kernels
