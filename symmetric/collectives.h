// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "amem/symmetric.h"
#include "symmetric/driver.h"
#include "symmetric/handle.h"

namespace amem::symmetric {

/// Work that a call of amem/symmetric.h enqueues. The call has passed SymmetricMemory::enter(). All
/// functions check their arguments first. Errors: misuse; driver.
struct SymmetricCall {
  const Driver& driver;
  const SymmetricHandle& handle;
  DriverStream stream;
  long timeout_ms;

  Status barrier(int channel) const;
  Status put_signal(int peer, int channel) const;
  Status wait_signal(int peer, int channel) const;
  Status write_value(const void* address, uint32_t value) const;
  Status fill(const void* address, uint32_t value, size_t count) const;
  Status clear_signal_pad() const;

  Status all_reduce(void* output, size_t offset_bytes, size_t count, amemDataType_t type,
                    amemAllReduce_t algorithm) const;
  /// With multicast only.
  Status multimem_all_gather(const void* input, size_t offset_bytes, size_t size_bytes) const;
  /// `stride_bytes`: how much later the input starts in the buffer for each rank that reads it. 0:
  /// all-gather; size_bytes: all-to-all.
  Status gather(void* output, size_t offset_bytes, size_t size_bytes, size_t stride_bytes,
                amemEngine_t engine) const;
  Status reduce_scatter(void* output, size_t offset_bytes, size_t count, amemDataType_t type,
                        amemEngine_t engine, void* scratch) const;

 private:
  Arguments arguments() const;
  Status launch(DriverKernel kernel, size_t blocks, unsigned threads,
                const Arguments& arguments) const;
  Status signal(DriverKernel kernel, int peer, int channel) const;
  /// In as few launches as the scratch memory of the handle allows.
  Status two_shot(Arguments all, amemDataType_t type) const;
  Status multimem_all_reduce(Arguments all, amemDataType_t type) const;
  Status check_multicast() const;
  Status check_channel(int channel, size_t count) const;
  /// That these words are in one buffer or signal pad.
  Status check_words(DeviceAddress address, size_t count) const;
  /// `inputs`, in bytes of the buffer from the offset; `output_bytes` at `output`.
  Status check_sizes(const void* output, size_t output_bytes, size_t offset_bytes,
                     size_t inputs) const;
  Status check_outside(const void* output, size_t output_bytes, size_t offset_bytes,
                       size_t inputs) const;
  /// The barrier of the collectives with copy engines, which no caller's channel has.
  Status barrier_of_copies() const;
  /// to[r] = `size_bytes` bytes at `offset_bytes` of rank r, between two barriers.
  Status copy_from_all(unsigned char* to, size_t offset_bytes, size_t size_bytes) const;
};

}  // namespace amem::symmetric
