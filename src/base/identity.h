// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

namespace amem {

/// A 128-bit identifier, random or a hash, that is unique on the host.
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

/// Identifies amem in one process from its start to its end. Random, because pids are reused.
using InstanceId = Id128<struct InstanceTag>;

/// Identifies something that processes share, for example a communicator. All sharing processes
/// derive the same value. The clients define the meaning (memory/client.h).
using ScopeId = Id128<struct ScopeTag>;

/// One allocation of an instance; also the low bits of the handle that its client holds.
using AllocationId = uint64_t;

/// 128 random bits from the kernel. Cannot fail: getrandom(2) with these arguments always succeeds
/// once the system has booted.
InstanceId random_instance_id();

}  // namespace amem

template <typename Tag>
struct std::hash<amem::Id128<Tag>> {
  size_t operator()(const amem::Id128<Tag>& id) const {
    return id.bits[0] ^ (id.bits[1] * 0x9e3779b97f4a7c15u);
  }
};
