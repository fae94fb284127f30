// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/file_copier.h"

#include <algorithm>
#include <vector>

#include "contents/backup_file.h"
#include "contents/copier.h"

namespace amem {
namespace {

/// Bytes of one copy.
struct Chunk {
  DeviceAddress address;
  size_t in_file_bytes;  ///< offset
  size_t size_bytes;
};

/// The pieces, which are consecutive in the file, in chunks of at most `most_bytes`.
std::vector<Chunk> chunks_of(const Transfer& transfer, size_t most_bytes) {
  std::vector<Chunk> chunks;
  size_t in_file = transfer.in_file.offset_bytes;
  for (const Piece& piece : transfer.pieces)
    for (size_t done = 0; done < piece.size_bytes;) {
      const size_t bytes = std::min(piece.size_bytes - done, most_bytes);
      chunks.push_back({transfer.address + piece.offset_bytes + done, in_file, bytes});
      done += bytes;
      in_file += bytes;
    }
  return chunks;
}

const HostExtent& longest(const std::vector<HostExtent>& block) {
  return *std::max_element(
      block.begin(), block.end(),
      [](const HostExtent& a, const HostExtent& b) { return a.size_bytes < b.size_bytes; });
}

}  // namespace

struct FileCopier::Work {
  const BackupFile& file;
  DriverStream stream;
  HostExtent staging;
  std::vector<Chunk> chunks;

  /// Chunks use the halves of the staging memory alternately.
  unsigned char* buffer(size_t chunk) const {
    return staging.base + chunk % 2 * (staging.size_bytes / 2);
  }
};

Status FileCopier::make_ready() {
  for (DriverEvent& event : copied_) {
    AMEM_TRY(exiting_.check());
    if (event == nullptr)
      AMEM_TRY(driver_status(driver_, driver_.cuEventCreate(&event, kEventDisableTiming),
                             "cuEventCreate()"));
  }
  return ok_status();
}

Status FileCopier::wait_for_buffer(size_t chunk) {
  AMEM_TRY(exiting_.check());
  return driver_status(driver_, driver_.cuEventSynchronize(copied_[chunk % 2]),
                       "cuEventSynchronize() after copying");
}

Status FileCopier::queue_copy(const Work& work, size_t chunk, CopyDirection direction) {
  AMEM_TRY(exiting_.check());
  const auto& [address, in_file, bytes] = work.chunks[chunk];
  const bool to_host = direction == CopyDirection::to_host;
  AMEM_TRY(driver_status(
      driver_,
      to_host ? driver_.cuMemcpyDtoHAsync_v2(work.buffer(chunk), address, bytes, work.stream)
              : driver_.cuMemcpyHtoDAsync_v2(address, work.buffer(chunk), bytes, work.stream),
      "%s(%zu bytes)", to_host ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", bytes));
  return driver_status(driver_, driver_.cuEventRecord(copied_[chunk % 2], work.stream),
                       "cuEventRecord()");
}

Status FileCopier::save(const Work& work) {
  const size_t count = work.chunks.size();
  for (size_t next = 0; next <= count; ++next) {
    if (next < count) AMEM_TRY(queue_copy(work, next, CopyDirection::to_host));
    if (next == 0) continue;
    const size_t chunk = next - 1;
    AMEM_TRY(wait_for_buffer(chunk));
    AMEM_TRY(work.file.write(work.chunks[chunk].in_file_bytes, work.buffer(chunk),
                             work.chunks[chunk].size_bytes));
  }
  return ok_status();
}

Status FileCopier::restore(const Work& work) {
  for (size_t chunk = 0; chunk < work.chunks.size(); ++chunk) {
    AMEM_TRY(wait_for_buffer(chunk));
    AMEM_TRY(work.file.read(work.chunks[chunk].in_file_bytes, work.buffer(chunk),
                            work.chunks[chunk].size_bytes));
    AMEM_TRY(queue_copy(work, chunk, CopyDirection::to_device));
  }
  return ok_status();
}

Status FileCopier::copy(const Transfer& transfer, CopyDirection direction, DriverStream stream) {
  AMEM_TRY(make_ready());
  const HostExtent& staging = longest(*transfer.on_host);
  const Work work{*transfer.in_file.file, stream, staging,
                  chunks_of(transfer, staging.size_bytes / 2)};
  Status copied = direction == CopyDirection::to_host ? save(work) : restore(work);
  // Also after an error, because the device may still use the buffers.
  for (const size_t buffer : {0, 1}) {
    Status unused = wait_for_buffer(buffer);
    if (copied.ok()) copied = std::move(unused);
  }
  return copied;
}

}  // namespace amem
