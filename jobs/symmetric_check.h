// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "amem/symmetric.h"
#include "jobs/device.h"

namespace jobs {

/// Throws std::runtime_error with the text of amem if `result` is an error.
void check_symmetric(int result, const char* call);
#define JOB_SYMMETRIC(call) ::jobs::check_symmetric(amemSymmetric##call, "amemSymmetric" #call)

/// Elements of a rank, and what collectives make of those of all ranks. The elements are whole
/// numbers, whose sums each type represents exactly, or thirds, whose sums are rounded.
class Elements {
 public:
  Elements(amemDataType_t type, bool thirds, unsigned salt)
      : type_(type), thirds_(thirds), salt_(salt) {}

  size_t element_bytes() const { return type_ == amemFloat32 ? 4 : 2; }
  std::vector<unsigned char> of_rank(int rank, size_t count) const;
  /// Throws std::runtime_error if `bytes` are not the sums of elements [first, first + count) of
  /// all ranks, computed in double, but for one rounding of each sum and those of float32.
  void check_sums(const std::vector<unsigned char>& bytes, size_t first, size_t count,
                  int world_size, const std::string& what) const;

 private:
  double input(int rank, size_t index) const;
  double read(const unsigned char* at) const;
  void write(unsigned char* at, double value) const;

  const amemDataType_t type_;
  const bool thirds_;
  const unsigned salt_;
};

/// All collectives of a handle with parts of `size_bytes` bytes, all types and engines; compares
/// their results. `stage` is memory of at least 2 * world_size * size_bytes. The buffer of the
/// handle has world_size * size_bytes. Returns how many results were compared.
int check_collectives(amemSymmetric_t handle, size_t size_bytes, Address stage, Stream stream);

}  // namespace jobs
