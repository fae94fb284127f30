// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace amem {

/// 128 random or hashed bits that name something for everybody on the host.
template <typename Tag>
struct Id128 {
  std::array<uint64_t, 2> bits{};

  bool operator==(const Id128&) const = default;
  auto operator<=>(const Id128&) const = default;
  /// 32 hexadecimal digits.
  std::string hex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (uint64_t word : bits)
      for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(word >> shift) & 15];
    return text;
  }
};

/// One process' amem, from its first allocation to its end. Random: a pid is used again, this is
/// not.
using InstanceId = Id128<struct InstanceTag>;

/// Something that processes share, by a name that is equal in all of them. Which names there are
/// is their clients' affair (registry/client.h).
using ScopeId = Id128<struct ScopeTag>;

/// One local allocation of an instance; also the low bits of the handle that NCCL holds.
using AllocationId = uint64_t;

/// 128 bits from the kernel. Never fails: getrandom(2) with these arguments cannot once the system
/// has booted.
InstanceId random_instance_id();

}  // namespace amem

template <typename Tag>
struct std::hash<amem::Id128<Tag>> {
  size_t operator()(const amem::Id128<Tag>& id) const {
    return id.bits[0] ^ (id.bits[1] * 0x9e3779b97f4a7c15u);
  }
};
