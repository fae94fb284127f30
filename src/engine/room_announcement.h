// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <string>

#include "base/deadline.h"
#include "engine/room_ticket.h"
#include "sharing/process_context.h"

namespace amem {

/// What a pause of this process still releases, for resumes that wait: never more than is true.
/// Written into the ticket from the constructor to the destructor. For one thread.
class RoomAnnouncement {
 public:
  /// `bytes`: by device.
  RoomAnnouncement(const ProcessContext& context, RoomTicket& ticket,
                   const std::map<int, size_t>& bytes, Deadline deadline);
  ~RoomAnnouncement();
  RoomAnnouncement(const RoomAnnouncement&) = delete;

  /// Before this memory is released.
  void releases(int device, size_t size_bytes);

 private:
  struct Gpu {
    std::string uuid;
    size_t left_bytes, announced_bytes;
  };
  void write();

  RoomTicket& ticket_;
  const Deadline deadline_;
  std::map<int, Gpu> gpus_;  ///< by device
};

}  // namespace amem
