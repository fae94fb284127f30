// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The functions of amem/symmetric.h.
#include <algorithm>
#include <string_view>

#include "amem/symmetric.h"
#include "base/cancellation.h"
#include "symmetric/collectives.h"
#include "symmetric/memory.h"

namespace amem::symmetric {
namespace {

/// Runs `body(SymmetricMemory&)`, which returns a Status. Returns 0, or the amemError_t of the
/// error, whose text is for amemGetLastError(). All functions with an error run in it: a thread
/// cannot be cancelled there (pthread_cancel(3)).
template <typename Body>
int run(const char* call, Body body) {
  const NoCancellation no_cancellation;
  const Status status = [&]() -> Status { return body(*AMEM_TRY(SymmetricMemory::get())); }();
  if (status.ok()) return 0;
  amemSetLastError(call, status.error().message.c_str());
  return result_of(status.error());
}

Status check_pointer(const void* pointer, const char* name) {
  return pointer != nullptr ? ok_status()
                            : make_error(ErrorKind::misuse, 0, "the %s is null", name);
}

/// `body(SymmetricCall)` for a call that enqueues work.
template <typename Body>
int enqueue(const char* call, amemSymmetric_t handle, amemStream_t stream, uint64_t timeout_ms,
            Body body) {
  return run(call, [&](SymmetricMemory& memory) -> Status {
    constexpr uint64_t kLongestMs = 24ull * 3600 * 1000;
    const auto limit_ms = timeout_ms == AMEM_SYMMETRIC_DEFAULT_TIMEOUT
                              ? memory.gate_timeout_ms()
                              : static_cast<long>(std::min(timeout_ms, kLongestMs));
    const auto inside = AMEM_TRY(memory.enter(handle, stream, limit_ms));
    Status enqueued = body(SymmetricCall{memory.driver(), *inside, stream, limit_ms});
    SymmetricMemory::leave(*inside, enqueued);
    return enqueued;
  });
}

}  // namespace
}  // namespace amem::symmetric

#define AMEM_API extern "C" [[gnu::visibility("default")]]

using namespace amem;
using namespace amem::symmetric;

AMEM_API int amemSymmetricMalloc(void** pointer, size_t size_bytes) {
  return run("amemSymmetricMalloc", [&](SymmetricMemory& memory) -> Status {
    AMEM_TRY(check_pointer(pointer, "pointer"));
    *pointer = nullptr;
    *pointer = AMEM_TRY(memory.allocate(size_bytes));
    return ok_status();
  });
}

AMEM_API int amemSymmetricFree(void* pointer) {
  if (pointer == nullptr) return 0;
  return run("amemSymmetricFree", [&](SymmetricMemory& memory) {
    return memory.free(reinterpret_cast<DeviceAddress>(pointer));
  });
}

AMEM_API int amemSymmetricRendezvous(amemSymmetric_t* handle, void* pointer,
                                     const amemGroup_t* group) {
  return run("amemSymmetricRendezvous", [&](SymmetricMemory& memory) -> Status {
    AMEM_TRY(check_pointer(handle, "handle"));
    *handle = nullptr;
    AMEM_TRY(check_pointer(group, "group"));
    *handle = AMEM_TRY(memory.rendezvous(reinterpret_cast<DeviceAddress>(pointer), *group));
    return ok_status();
  });
}

AMEM_API int amemSymmetricDestroy(amemSymmetric_t handle) {
  if (handle == nullptr) return 0;
  return run("amemSymmetricDestroy",
             [&](SymmetricMemory& memory) { return memory.destroy(handle); });
}

AMEM_API int amemSymmetricGetInfo(amemSymmetric_t handle, amemSymmetricInfo_t* info) {
  return run("amemSymmetricGetInfo", [&](SymmetricMemory& memory) -> Status {
    AMEM_TRY(check_pointer(info, "info"));
    *info = {};
    using detail::Workspace;
    const SymmetricMemory::HandlePointer found = AMEM_TRY(memory.find(handle));
    const SymmetricHandle& facts = *found;
    *info = {static_cast<int>(facts.rank()),
             static_cast<int>(facts.world_size()),
             facts.device,
             facts.view.buffer_bytes,
             facts.signal_pad_bytes,
             facts.buffers.data(),
             facts.signal_pads.data(),
             reinterpret_cast<void* const*>(facts.workspace + offsetof(Workspace, buffers)),
             reinterpret_cast<uint32_t* const*>(facts.workspace + offsetof(Workspace, signal_pads)),
             reinterpret_cast<void*>(facts.multicast.address())};
    return ok_status();
  });
}

AMEM_API int amemSymmetricGetView(amemSymmetric_t handle, amemSymmetricView_t* view) {
  return run("amemSymmetricGetView", [&](SymmetricMemory& memory) -> Status {
    AMEM_TRY(check_pointer(view, "view"));
    *view = {};
    *view = AMEM_TRY(memory.find(handle))->view;
    return ok_status();
  });
}

AMEM_API int amemSymmetricSetSignalPadSize(size_t size_bytes) {
  return run("amemSymmetricSetSignalPadSize",
             [&](SymmetricMemory& memory) { return memory.set_signal_pad_bytes(size_bytes); });
}

AMEM_API size_t amemSymmetricGetSignalPadSize(void) {
  const NoCancellation no_cancellation;
  if (amemGetState() == amemOff) return 0;  // no error
  const Result<SymmetricMemory*> memory = SymmetricMemory::get();
  return memory.ok() ? memory.value()->signal_pad_bytes() : 0;
}

AMEM_API size_t amemSymmetricGetStructBytes(const char* name) {
  const NoCancellation no_cancellation;
  const std::string_view wanted = name == nullptr ? "" : name;
  if (wanted == "amemGroup_t") return sizeof(amemGroup_t);
  return wanted == "amemSymmetricInfo_t" ? sizeof(amemSymmetricInfo_t) : 0;
}

AMEM_API int amemSymmetricGetError(amemSymmetric_t handle) {
  return run("amemSymmetricGetError", [&](SymmetricMemory& memory) -> Status {
    return AMEM_TRY(memory.find(handle))->failure.status();
  });
}

AMEM_API int amemSymmetricBarrier(amemSymmetric_t handle, int channel, amemStream_t stream,
                                  uint64_t timeout_ms) {
  return enqueue("amemSymmetricBarrier", handle, stream, timeout_ms,
                 [&](const SymmetricCall& call) { return call.barrier(channel); });
}

AMEM_API int amemSymmetricPutSignal(amemSymmetric_t handle, int peer, int channel,
                                    amemStream_t stream, uint64_t timeout_ms) {
  return enqueue("amemSymmetricPutSignal", handle, stream, timeout_ms,
                 [&](const SymmetricCall& call) { return call.put_signal(peer, channel); });
}

AMEM_API int amemSymmetricWaitSignal(amemSymmetric_t handle, int peer, int channel,
                                     amemStream_t stream, uint64_t timeout_ms) {
  return enqueue("amemSymmetricWaitSignal", handle, stream, timeout_ms,
                 [&](const SymmetricCall& call) { return call.wait_signal(peer, channel); });
}

AMEM_API int amemSymmetricWriteValue32(amemSymmetric_t handle, void* address, uint32_t value,
                                       amemStream_t stream) {
  return enqueue("amemSymmetricWriteValue32", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) { return call.write_value(address, value); });
}

AMEM_API int amemSymmetricMemset32(amemSymmetric_t handle, void* address, uint32_t value,
                                   size_t count, amemStream_t stream) {
  return enqueue("amemSymmetricMemset32", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) { return call.fill(address, value, count); });
}

AMEM_API int amemSymmetricClearSignalPad(amemSymmetric_t handle, amemStream_t stream) {
  return enqueue("amemSymmetricClearSignalPad", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) { return call.clear_signal_pad(); });
}

AMEM_API int amemSymmetricAllReduce(amemSymmetric_t handle, void* output, size_t offset_bytes,
                                    size_t count, amemDataType_t type, amemAllReduce_t algorithm,
                                    amemStream_t stream) {
  return enqueue("amemSymmetricAllReduce", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) {
                   return call.all_reduce(output, offset_bytes, count, type, algorithm);
                 });
}

AMEM_API int amemSymmetricAllGather(amemSymmetric_t handle, void* output, size_t offset_bytes,
                                    size_t size_bytes, amemEngine_t engine, amemStream_t stream) {
  return enqueue("amemSymmetricAllGather", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) {
                   return call.gather(output, offset_bytes, size_bytes, 0, engine);
                 });
}

AMEM_API int amemSymmetricMultimemAllGather(amemSymmetric_t handle, const void* input,
                                            size_t offset_bytes, size_t size_bytes,
                                            amemStream_t stream) {
  return enqueue("amemSymmetricMultimemAllGather", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) {
                   return call.multimem_all_gather(input, offset_bytes, size_bytes);
                 });
}

AMEM_API int amemSymmetricAllToAll(amemSymmetric_t handle, void* output, size_t offset_bytes,
                                   size_t size_bytes, amemEngine_t engine, amemStream_t stream) {
  return enqueue("amemSymmetricAllToAll", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) {
                   return call.gather(output, offset_bytes, size_bytes, size_bytes, engine);
                 });
}

AMEM_API int amemSymmetricReduceScatter(amemSymmetric_t handle, void* output, size_t offset_bytes,
                                        size_t count, amemDataType_t type, amemEngine_t engine,
                                        void* scratch, amemStream_t stream) {
  return enqueue("amemSymmetricReduceScatter", handle, stream, AMEM_SYMMETRIC_DEFAULT_TIMEOUT,
                 [&](const SymmetricCall& call) {
                   return call.reduce_scatter(output, offset_bytes, count, type, engine, scratch);
                 });
}
