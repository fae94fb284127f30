// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>

#include "base/exit_flag.h"
#include "driver/driver.h"

namespace amem {

enum class CopyDirection;
struct Transfer;

/// Copies contents between device memory and a file through two buffers of pinned host memory: the
/// device copies one while the other is written or read. For the thread of the device, in its
/// context.
class FileCopier {
 public:
  /// Pinned memory for both buffers.
  static constexpr size_t kStagingBytes = size_t{32} << 20;
  /// The contents of a backing start at a multiple of this in the file.
  static constexpr size_t kAlignment = 4096;

  FileCopier(const Driver& driver, const ExitFlag& exiting) : driver_(driver), exiting_(exiting) {}
  FileCopier(const FileCopier&) = delete;

  /// Returns when the contents have been copied, or after an error when the buffers are unused.
  /// Errors: driver; os; misuse once exit() has begun.
  Status copy(const Transfer& transfer, CopyDirection direction, DriverStream stream);

 private:
  struct Work;

  Status make_ready();
  Status save(const Work& work);
  Status restore(const Work& work);
  Status queue_copy(const Work& work, size_t chunk, CopyDirection direction);
  /// Waits for the copy that used the buffer of this chunk last.
  Status wait_for_buffer(size_t chunk);

  const Driver& driver_;
  const ExitFlag& exiting_;
  DriverEvent copied_[2] = {};  ///< for each buffer; they exist as long as the context
};

}  // namespace amem
