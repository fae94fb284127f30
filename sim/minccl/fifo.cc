// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/fifo.h"

#include <atomic>

#include "sim/minccl/protocol_ll.h"
#include "sim/minccl/protocol_ll128.h"
#include "sim/minccl/protocol_simple.h"

namespace amem::minccl {
namespace {

uint64_t load(uint64_t* counter) {
  return std::atomic_ref(*counter).load(std::memory_order_acquire);
}

// NCCL stores the absolute step instead (prims_simple.h:483,530), which lets the next operation
// repair a counter that was lost. Counting up in place makes every loss visible.
void count_up(uint64_t* counter) {
  std::atomic_ref(*counter).fetch_add(1, std::memory_order_release);
}

std::byte* slot_of(const DeviceConnection& connection, Protocol protocol, uint64_t step) {
  int index = static_cast<int>(protocol);
  return connection.fifo[index] + step % kSlots * connection.slot_bytes[index];
}

size_t payload_of(const DeviceConnection& connection, Protocol protocol) {
  return payload_bytes(protocol, connection.slot_bytes[static_cast<int>(protocol)]);
}

}  // namespace

size_t payload_bytes(Protocol protocol, size_t slot_bytes) {
  if (protocol == Protocol::ll) return LlProtocol::payload_bytes(slot_bytes);
  if (protocol == Protocol::ll128) return Ll128Protocol::payload_bytes(slot_bytes);
  return SimpleProtocol::payload_bytes(slot_bytes);
}

size_t SendEnd::payload() const { return payload_of(*connection_, protocol_); }

bool SendEnd::has_credit() const { return load(connection_->head) + kSlots > step_; }

void SendEnd::post(const std::byte* data, size_t bytes) {
  std::byte* slot = slot_of(*connection_, protocol_, step_);
  if (protocol_ == Protocol::ll) LlProtocol::write(slot, data, bytes, step_);
  if (protocol_ == Protocol::ll128) Ll128Protocol::write(slot, data, bytes, step_);
  if (protocol_ == Protocol::simple) SimpleProtocol::write(slot, data, bytes);
  ++step_;
  count_up(connection_->tail);
}

size_t RecvEnd::payload() const { return payload_of(*connection_, protocol_); }

std::byte* RecvEnd::slot() const { return slot_of(*connection_, protocol_, step_); }

bool RecvEnd::arrived(size_t bytes) const {
  if (protocol_ == Protocol::ll) return LlProtocol::arrived(slot(), bytes, step_);
  if (protocol_ == Protocol::ll128) return Ll128Protocol::arrived(slot(), bytes, step_);
  return load(connection_->tail) > step_;
}

const std::byte* RecvEnd::read(size_t bytes, std::byte* scratch) const {
  if (protocol_ == Protocol::simple) return slot();
  if (protocol_ == Protocol::ll) LlProtocol::read(slot(), scratch, bytes);
  if (protocol_ == Protocol::ll128) Ll128Protocol::read(slot(), scratch, bytes);
  return scratch;
}

void RecvEnd::release() {
  ++step_;
  count_up(connection_->head);
}

}  // namespace amem::minccl
