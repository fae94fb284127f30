// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/minccl/device_layout.h"

namespace amem::minccl {

/// The bytes of data in one slot.
size_t payload_bytes(Protocol protocol, size_t slot_bytes);

/// The sending end of a connection during one kernel. Reads `step` from device memory and writes it
/// back at the end. One kernel at a time uses a connection.
class SendEnd {
 public:
  SendEnd(DeviceConnection* connection, Protocol protocol)
      : connection_(connection), protocol_(protocol), step_(connection->step) {}

  size_t payload() const;
  /// True if the receiver has released the next slot.
  bool has_credit() const;
  /// Fills the next slot and publishes it. REQUIRES: has_credit(), bytes <= payload().
  void post(const std::byte* data, size_t bytes);
  void save() { connection_->step = step_; }

 private:
  DeviceConnection* connection_;
  Protocol protocol_;
  uint64_t step_;
};

/// The receiving end.
class RecvEnd {
 public:
  RecvEnd(DeviceConnection* connection, Protocol protocol)
      : connection_(connection), protocol_(protocol), step_(connection->step) {}

  size_t payload() const;
  /// True when the next slot holds `bytes` bytes of data.
  bool arrived(size_t bytes) const;
  /// The data of the next slot, in place or copied to `scratch`. REQUIRES: arrived(bytes).
  const std::byte* read(size_t bytes, std::byte* scratch) const;
  /// Releases the slot to the sender.
  void release();
  void save() { connection_->step = step_; }

 private:
  std::byte* slot() const;

  DeviceConnection* connection_;
  Protocol protocol_;
  uint64_t step_;
};

}  // namespace amem::minccl
