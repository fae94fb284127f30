// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/room_announcement.h"

#include <algorithm>

#include "engine/room_wait.h"

namespace amem {

RoomAnnouncement::RoomAnnouncement(const ProcessContext& context, RoomTicket& ticket,
                                   const std::map<int, size_t>& bytes, Deadline deadline)
    : ticket_(ticket), deadline_(deadline) {
  for (const auto& [device, size_bytes] : bytes) {
    const std::string name = gpu_name(context, device);
    if (name != RoomTicket::kUnknownGpu) gpus_[device] = {name, size_bytes, size_bytes};
  }
  if (!gpus_.empty()) write();
}

RoomAnnouncement::~RoomAnnouncement() {
  if (!gpus_.empty()) ticket_.announce({}, deadline_);
}

void RoomAnnouncement::releases(int device, size_t size_bytes) {
  constexpr size_t kStepBytes = size_t{64} << 20;  // one write for each
  const auto found = gpus_.find(device);
  if (found == gpus_.end()) return;
  Gpu& gpu = found->second;
  gpu.left_bytes -= std::min(gpu.left_bytes, size_bytes);
  if (gpu.announced_bytes <= gpu.left_bytes) return;
  gpu.announced_bytes = gpu.left_bytes - std::min(gpu.left_bytes, kStepBytes);
  write();
}

void RoomAnnouncement::write() {
  std::map<std::string, size_t> bytes;
  for (const auto& [device, gpu] : gpus_) bytes[gpu.uuid] = gpu.announced_bytes;
  ticket_.announce(bytes, deadline_);
}

}  // namespace amem
