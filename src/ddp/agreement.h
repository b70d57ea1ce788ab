// What all ranks must agree on before they train together, and whether they still do afterwards.
//
// Agreement: 1. all-gather of 24 bytes a rank (length, hash, own fault); equal everywhere: done.
//            2. otherwise all-gather of the whole descriptions; every rank finds the same first difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/ddp/group.h"
#include "tutti/ddp.h"

namespace tutti::ddp {

// Throws Error on every rank unless all ranks gave the same parameters and bucket sizes, each sound in itself.
void check_agreement(Group& group, const std::vector<Parameter>& parameters, const DdpOptions& options);

// Throws Error on every rank unless all parameters have the same bits; returns a checksum of them all.
std::uint64_t check_values(Group& group, const std::vector<Parameter>& parameters);

// All ranks tell each other which gradients were never ready (1 for each such parameter); throws Error on every rank.
[[noreturn]] void report_missing_gradients(Group& group, const std::vector<Parameter>& parameters,
                                           std::span<const std::uint8_t> missing);

std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace tutti::ddp
