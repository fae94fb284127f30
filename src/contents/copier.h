// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/exit_flag.h"
#include "contents/backup_file.h"
#include "contents/kernels.h"

namespace amem {

enum class CopyDirection { to_host, to_device };

/// Bytes that are contiguous in a backing and on the host.
struct CopyRange {
  size_t offset_bytes = 0;  ///< in the backing
  HostExtent on_host;
};

/// The copies for pieces of a backing that are stored consecutively in a host block. Pure.
/// REQUIRES: the block has the size of all pieces together.
std::vector<CopyRange> copy_ranges(const std::vector<Piece>& pieces,
                                   const std::vector<HostExtent>& block);

struct HashedPages;

/// A copy of the contents of one backing to the host or back.
struct Transfer {
  BackingId backing = 0;
  int device = 0;
  DeviceAddress address = 0;
  size_t size_bytes = 0;      ///< of the backing
  std::vector<Piece> pieces;  ///< bytes to copy; consecutive on the host
  HostBlock on_host;          ///< of the same size as the pieces together
  bool needs_file = false;    ///< the contents are kept in a file
  FilePart in_file;           ///< if it is set, the pieces are in the file, and `on_host` is memory
                              ///< to copy them through
  bool kernel_can_go = false;  ///< a kernel of the backing's device can access the memory
  /// Of a transfer to the device: what is filled is not copied again.
  std::shared_ptr<Filled> filled = std::make_shared<Filled>(0);
  /// Keeps the memory at `address` mapped while it exists.
  std::shared_ptr<const void> under_way;

  // Of a transfer to the host of contents that are retained after the resume (retained.h). Those of
  // the last pause are in `on_host`, and `pieces` is what it has copied.
  std::vector<Piece> retained;         ///< before zero pages are looked for
  std::shared_ptr<PageHashes> hashes;  ///< of what is on the host
  std::shared_ptr<HashedPages> hashed;
  size_t first_hashed = 0;  ///< index of its first page in `hashed`
};

/// Copies contents between one device and the host in one direction, one backing after another, in
/// one stream. For the thread of that device, in its context. Errors: driver; misuse once exit()
/// has begun. After an error, queued copies still run: call wait_for_all() before the memory is
/// used for anything else.
class Copier {
 public:
  /// Host memory through which contents are copied to a file and back.
  static constexpr size_t kStagingBytes = size_t{32} << 20;
  /// The contents of a backing start at a multiple of this in the file.
  static constexpr size_t kFileAlignment = 4096;

  Copier(const Driver& driver, int device, const ExitFlag& exiting, CopyDirection of_all)
      : direction(of_all), driver_(driver), device_(device), exiting_(exiting) {}

  const CopyDirection direction;

  /// Removes pages that are all zero from the pieces of this device's transfers. Waits for the
  /// result.
  Status leave_out_zero_pages(std::vector<Transfer>& transfers);

  /// Queues a transfer. Of retained contents, waits for the hashes of the pages, and copies those
  /// that have changed. A transfer to the device first zeroes the bytes that are not copied: the
  /// driver does not guarantee zeroed memory, and NCCL would take a stale flag in a payload for
  /// data (prims_ll.h:56@v2.30.7-1). With a file, returns when the contents have been copied, or
  /// when `stopped` is set and one more buffer was. Errors: also os.
  Status queue(const Transfer& transfer, const std::atomic<bool>& stopped = kNotStopped);
  /// Waits for all queued transfers except the last one.
  Status wait_for_previous();
  Status wait_for_all();
  /// The error of a transfer that was stopped.
  static Error cancelled() { return misuse_error("the copy was cancelled after another error"); }

 private:
  static constexpr std::atomic<bool> kNotStopped{false};
  Status make_ready();
  Status zero(const Transfer& transfer);
  Status copy_contents(const Transfer& transfer);
  Status copy_through_file(const Transfer& transfer, const std::atomic<bool>& stopped);
  Status copy(DeviceAddress address, unsigned char* on_host, size_t size_bytes);

  const Driver& driver_;
  const int device_;
  const ExitFlag& exiting_;
  Kernels kernels_{driver_, device_, exiting_};
  uint64_t context_id_ = 0;            ///< of the stream, the events and the kernels
  DriverStream stream_ = nullptr;      ///< exists as long as the context, like the events
  DriverEvent ends_[2] = {};           ///< for the last two transfers, alternating
  std::shared_ptr<Filled> filled_[2];  ///< of the same transfers
  size_t queued_ = 0;                  ///< number of transfers
};

}  // namespace amem
