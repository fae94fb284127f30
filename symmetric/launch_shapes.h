// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "symmetric/kernels.h"

/// How the kernels of kernels.h are launched: grids, and how a two-shot all-reduce uses its scratch
/// memory. All ranks get the same results, because all have the same sizes.
namespace amem::symmetric {

/// The bytes that each rank reduces in an all-reduce by parts (Arguments::part_bytes).
inline size_t part_bytes_of(size_t size_bytes, uint32_t world_size) {
  const size_t count = size_bytes / sizeof(Vector);
  return (count + world_size - 1) / world_size * sizeof(Vector);
}

/// The scratch memory of a handle: enough for a two-shot all-reduce of the whole buffer in one
/// launch, up to detail::kMaxScratchBytes.
inline size_t scratch_bytes_of(size_t buffer_bytes, uint32_t world_size) {
  return std::min((world_size - 1) * part_bytes_of(buffer_bytes, world_size),
                  detail::kMaxScratchBytes);
}

/// The bytes of each launch of a two-shot all-reduce but the last, which can have less: as few
/// launches as the scratch memory allows.
inline size_t launch_bytes_of(size_t size_bytes, uint32_t world_size, size_t scratch_bytes) {
  if (world_size == 1) return size_bytes;
  const size_t most = scratch_bytes / (world_size - 1) / sizeof(Vector) * sizeof(Vector);
  const size_t launches = (size_bytes - 1) / (most * world_size) + 1;
  return part_bytes_of(size_bytes, static_cast<uint32_t>(launches));
}

/// The blocks for work of which each thread does 16 bytes at a time.
inline uint32_t blocks_for(size_t work_bytes, uint32_t threads = kThreads, uint32_t most = 48) {
  const size_t block_bytes = threads * sizeof(Vector);
  return static_cast<uint32_t>(
      std::clamp<size_t>((work_bytes + block_bytes - 1) / block_bytes, 1, most));
}

/// The GPU of a rank.
struct RankDevice {
  std::array<uint8_t, 16> uuid;
  int32_t multiprocessors;
};

/// The multiprocessors that the kernel of every rank may fill. Blocks of a kernel wait for those of
/// the other ranks, so that the kernels of ranks that share a GPU must fit on it together (ranks of
/// one process, or under MPS).
inline uint32_t multiprocessors_for_each(std::span<const RankDevice> ranks) {
  int32_t fewest = ranks.front().multiprocessors;
  for (const RankDevice& one : ranks) {
    const auto shares = [&](const RankDevice& other) { return other.uuid == one.uuid; };
    const auto sharing = std::count_if(ranks.begin(), ranks.end(), shares);
    fewest = std::min(fewest, one.multiprocessors / static_cast<int32_t>(sharing));
  }
  return static_cast<uint32_t>(std::max(fewest, 1));
}

struct Shape {
  uint32_t blocks, threads;
};

/// The grid of one launch of a two-shot all-reduce of `size_bytes`. Barriers take longer with more
/// blocks, which only large messages make up for (bench/probes/all_reduce_probe.cu on H100).
inline Shape two_shot_shape(size_t size_bytes, uint32_t world_size, uint32_t multiprocessors) {
  constexpr size_t kMediumBytes = 8 << 20;
  const uint32_t most =
      std::min(multiprocessors, size_bytes <= kMediumBytes ? 64 : detail::kMaxBlocks);
  const size_t part_bytes = part_bytes_of(size_bytes, world_size);
  uint32_t threads = kTwoShotThreads / 4;
  while (threads < kTwoShotThreads && part_bytes > most * threads * sizeof(Vector)) threads *= 2;
  return {blocks_for(part_bytes, threads, most), threads};
}

}  // namespace amem::symmetric
