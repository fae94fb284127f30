// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "sim/cuda_abi.h"

/// The physical memory of one simulated GPU (or of the host), shared by all processes.
///
///   pool file   |   | allocation A |      | allocation B |            ... (sparse)
///                   ^ write lock of A's   ^ write lock of B's
///                     open file description
///
/// An allocation is one open file description that holds an open-file-description lock on its
/// range. The kernel drops the lock when the last descriptor (also one in flight in a socket) and
/// the last mapping of that description in any process are gone, however they went (fcntl(2),
/// "Open file description locks"). That is the driver's own rule for physical memory (CUDA Driver
/// API, cuMemRelease), so the simulator keeps no counts across processes that a kill could spoil.
namespace amem::sim {

inline constexpr uint64_t kGranularityBytes = 2ull << 20;

/// The state of one pool that all processes of a machine share; in the machine's state file.
struct PoolState {
  std::atomic<uint64_t> used_bound_bytes;  ///< at least the bytes in use
  std::atomic<uint64_t> next_offset;       ///< where the search for free memory starts
};

/// A range of physical memory.
struct PhysicalRange {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  bool gpu_direct_rdma_capable = false;
};

/// Thread-safe. Several processes can use the same pool.
class Pool {
 public:
  /// Opens or creates the pool file. `state_fd` and `lock_byte` identify the lock that serializes
  /// allocation between processes. On false, errno has the reason.
  bool open(const std::string& path, uint64_t capacity_bytes, PoolState* state, int state_fd,
            uint64_t lock_byte);

  /// True if no process holds memory of it. REQUIRES: open.
  bool unused() const;

  /// Releases all pages. REQUIRES: unused.
  bool clear();

  /// A new allocation that contains zeros. `size_bytes` is a multiple of the granularity.
  CuResult allocate(uint64_t size_bytes, bool gpu_direct_rdma_capable, UniqueFd* description,
                    uint64_t* offset_bytes);

  /// This memory, mapped in this process until it ends, for accesses of other devices than through
  /// an allocation. Null if it cannot be mapped. Holds no memory.
  unsigned char* all();

  /// A part of the memory, from an offset on, and whether it has pages. It gets pages when it is
  /// first written.
  struct Extent {
    bool has_pages;
    uint64_t end_bytes;
  };
  Extent extent_at(uint64_t offset_bytes) const;

  /// The range of an allocation's descriptor; nothing if the descriptor is not of this pool.
  std::optional<PhysicalRange> describe(int fd) const;

  /// True if nobody holds a part of the range.
  bool is_free(uint64_t offset_bytes, uint64_t size_bytes) const;

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  /// At most the capacity.
  uint64_t used_bytes();

 private:
  bool make_room(uint64_t size_bytes);
  bool lock_free_range(int fd, uint64_t from, uint64_t size_bytes, uint64_t* offset_bytes) const;
  uint64_t walk(bool punch_gaps) const;
  UniqueFd new_description() const;

  std::string path_;
  uint64_t capacity_bytes_ = 0;
  uint64_t span_bytes_ = 0;
  PoolState* state_ = nullptr;
  int state_fd_ = -1;
  uint64_t lock_byte_ = 0;
  UniqueFd query_fd_;  ///< holds no locks, so that it sees the locks of all processes
  dev_t file_device_ = 0;
  ino_t file_inode_ = 0;
  std::mutex mutex_;
  unsigned char* all_ = nullptr;
};

}  // namespace amem::sim
