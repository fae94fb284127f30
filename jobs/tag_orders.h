// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "jobs/device.h"
#include "jobs/orders.h"

namespace jobs {

/// Tagged memory that a rank allocates with amemMalloc(); each word has a different value.
class TagOrders {
 public:
  /// The commands refer to this object.
  Orders orders();

 private:
  struct Piece {
    Address address;
    size_t size_bytes;
    unsigned pattern;
    std::map<size_t, unsigned> changes;  ///< of words, by index

    std::vector<unsigned> contents() const;
  };
  std::string allocate(Words& words);
  static void write(const Piece& piece);
  std::string write(Words& words, bool only_last);
  std::string change(Words& words);
  std::string check(Words& words);
  std::string free(Words& words);

  std::map<std::string, std::vector<Piece>> pieces_;
  unsigned next_pattern_ = 1;
};

}  // namespace jobs
