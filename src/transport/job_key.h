// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace amem {

/// What only the processes of a job know, on all of its hosts (AMEM_JOB_KEY).
class JobKey {
 public:
  using Bytes = std::span<const uint8_t>;
  /// An authentication code: HMAC-SHA-256 (RFC 2104) of BearSSL.
  using Code = std::array<uint8_t, 32>;

  explicit JobKey(Bytes secret) : secret_(secret.begin(), secret.end()) {}
  /// `setting` is the key or, if it begins with '/', the path of a file that contains it. Errors:
  /// os; misuse, for a key of less than kMinBytes; unsupported, if amem was built without BearSSL.
  static Result<JobKey> read(const std::string& setting);
  static constexpr size_t kMinBytes = 16;

  /// The code of these bytes, one part after the other.
  Code code_of(std::initializer_list<Bytes> parts) const;

 private:
  std::vector<uint8_t> secret_;
};

/// Takes the same time wherever they differ.
bool are_equal(const JobKey::Code& code, JobKey::Bytes other);

}  // namespace amem
