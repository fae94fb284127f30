// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/cuda_abi.h"
#include "sim/local_memory.h"
#include "sim/stream.h"

namespace amem::sim {

/// A context of one device, primary or created. The object is never deleted, because it may still
/// be current in other threads, which then get CUDA_ERROR_CONTEXT_IS_DESTROYED. The primary context
/// of a device is always the same object: retained again after its end, it is alive again, with
/// another id (measured, driver 580). Thread-safe.
class Context {
 public:
  Context(CuDevice device, unsigned flags, uint64_t id)
      : device_(device), flags_(flags), id_(id), local_memory_(device) {}

  CuDevice device() const { return device_; }
  uint64_t id() const { return id_.load(); }
  unsigned flags() const { return flags_; }
  bool alive() const { return alive_.load(); }

  /// The first failure of its work, or kSuccess. As on a GPU, a failure is permanent.
  CuResult failure() const { return failure_.load(); }
  void fail(CuResult failure);

  StreamRef add_stream(unsigned flags);
  void remove_stream(const StreamRef& stream);
  StreamRef null_stream();

  /// Gives work to one of its streams. kErrorOutOfMemory: its local memory has to grow for that,
  /// and there is no room.
  CuResult enqueue(Stream& stream, Operation operation);

  /// Waits for the work that all its streams had when it was called, also for that of streams that
  /// were destroyed since. More may come meanwhile: that is not waited for.
  void synchronize();

  /// Waits as synchronize() does, then runs the body. Until it has returned, enqueue() and what
  /// looks at the limits wait (measured, driver 580).
  CuResult when_idle(const std::function<CuResult()>& body);

  /// CU_LIMIT_STACK_SIZE. Setting it waits for the work, which may be using its local memory.
  uint64_t stack_bytes();
  CuResult set_stack(uint64_t stack_bytes);

  /// Ends it: its streams finish what they have; their handles, its memory and its pinned host
  /// memory are released.
  void destroy();
  /// Begins it again, without streams. kErrorOutOfMemory as make_context().
  CuResult revive(uint64_t id);

  /// True if none of its streams has work.
  bool idle();
  std::vector<BackingRef> local_memory() { return local_memory_.backings(); }

  /// True if access to the peer was not enabled before.
  bool enable_peer(CuDevice peer);
  bool disable_peer(CuDevice peer);

 private:
  std::vector<StreamRef> streams();

  const CuDevice device_;
  const unsigned flags_;
  std::atomic<uint64_t> id_;
  std::mutex submission_;  ///< taken before mutex_
  LocalMemory local_memory_;
  std::atomic<bool> alive_{true};
  std::atomic<CuResult> failure_{kSuccess};
  std::mutex mutex_;
  StreamRef null_stream_;
  std::vector<StreamRef> streams_;  ///< includes destroyed streams until their work is complete
  uint32_t peers_ = 0;
};

/// A new context, which exists as long as the process. kErrorOutOfMemory: the GPU has no memory for
/// its local memory.
CuResult make_context(CuDevice device, unsigned flags, Context** context);

/// The context of an ABI handle; null for an unknown handle.
Context* context_of(CuContext handle);
CuContext handle_of(Context* context);

/// All contexts that were ever made.
std::vector<Context*> all_contexts();

/// The primary contexts, one for each device, active while retained (CUDA Driver API, "Primary
/// Context Management"). Errors as make_context().
CuResult retain_primary(CuDevice device, Context** context);
bool release_primary(CuDevice device);
/// As its last release, whatever the number of references.
void reset_primary(CuDevice device);
/// Null while it is not retained.
Context* active_primary(CuDevice device);
unsigned primary_flags(CuDevice device);
void set_primary_flags(CuDevice device, unsigned flags);

/// The calling thread's stack of current contexts; null entries are allowed, as in the driver.
std::vector<Context*>& current_contexts();

/// The calling thread's context. kErrorInvalidContext if it has none.
CuResult current_context(Context** context);

}  // namespace amem::sim
