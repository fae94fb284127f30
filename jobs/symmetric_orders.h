// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>

#include "amem/symmetric.h"
#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// Symmetric memory of a rank: buffers and handles by name.
class SymmetricOrders {
 public:
  /// The commands refer to this object.
  Orders orders();

 private:
  struct Buffer {
    void* pointer = nullptr;
    size_t size_bytes = 0;
  };
  struct Captured {
    GraphExec graph = nullptr;
    size_t size_bytes = 0;
  };
  std::string allocate(Words& words);
  std::string free(Words& words);
  static std::string pad_size(Words& words);
  std::string meet(Words& words);
  std::string destroy(Words& words);
  std::string barrier(Words& words);
  std::string signal(Words& words, bool puts);
  std::string write_word(Words& words);
  std::string read_word(Words& words);
  std::string pad(Words& words);
  std::string error(Words& words);
  std::string multicast(Words& words);
  std::string collectives(Words& words);
  std::string enqueue(Words& words);
  std::string capture(Words& words);
  std::string replay(Words& words);
  std::string misuse(Words& words);
  amemSymmetric_t handle_of(Words& words);
  void finish(amemSymmetric_t handle);
  Stream stream();

  std::map<std::string, Buffer> buffers_;
  std::map<std::string, amemSymmetric_t> handles_;
  std::map<std::string, Captured> graphs_;
  Address stage_ = 0;
  size_t stage_bytes_ = 0;
  Stream stream_ = nullptr;
};

}  // namespace jobs
