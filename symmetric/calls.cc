// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The functions of amem/symmetric.h.
#include "api/calls.h"

#include <algorithm>

#include "amem/symmetric.h"
#include "base/environment.h"
#include "driver/work_contexts.h"
#include "symmetric/collectives.h"

namespace amem {
namespace {

Status allocate_symmetric(void** pointer, size_t size_bytes) {
  AMEM_TRY(check_pointer(pointer, "pointer"));
  *pointer = nullptr;
  Process& process = *AMEM_TRY(active_process());
  const int device = AMEM_TRY(device_of_caller(process));
  const DeviceAddress address = AMEM_TRY(process.symmetric().allocate(size_bytes, device));
  *pointer = reinterpret_cast<void*>(address);
  return ok_status();
}

Status rendezvous(amemSymmetric_t* handle, void* pointer, const amemGroup_t* group) {
  AMEM_TRY(check_pointer(handle, "handle"));
  *handle = nullptr;
  AMEM_TRY(check_pointer(group, "group"));
  Process& process = *AMEM_TRY(active_process());
  *handle = AMEM_TRY(process.symmetric().rendezvous(reinterpret_cast<DeviceAddress>(pointer),
                                                    device_of_caller(process), *group));
  return ok_status();
}

Status look_up(amemSymmetric_t handle, const SymmetricClient::Reader& read) {
  return AMEM_TRY(active_process())->symmetric().client().look_up(handle, read);
}

/// `body(SymmetricCall)` for a call that enqueues work.
template <typename Body>
int enqueue(const char* call, amemSymmetric_t handle, amemStream_t stream, uint64_t timeout_ms,
            Body body) {
  constexpr uint64_t kLongestMs = 24ull * 3600 * 1000;
  const auto limit_ms = timeout_ms == AMEM_SYMMETRIC_DEFAULT_TIMEOUT
                            ? environment().gate_timeout_ms
                            : static_cast<long>(std::min(timeout_ms, kLongestMs));
  return with_process(call, [&](Process& process) -> Status {
    AMEM_TRY(process.engine().exiting.check());
    SymmetricClient& client = process.symmetric().client();
    SymmetricHandle& inside = *AMEM_TRY(client.enter(handle, limit_ms));
    note_work_context(process.driver());
    // If this fails, nothing is enqueued, and the handle works.
    const Status noted = client.note_captured(process.driver(), handle, stream);
    const Status enqueued =
        noted.ok() ? body(SymmetricCall{process.driver(), inside, stream, limit_ms}) : ok_status();
    client.leave(inside, enqueued);
    return noted.ok() ? enqueued : noted;
  });
}

}  // namespace
}  // namespace amem

using namespace amem;

AMEM_API int amemSymmetricMalloc(void** pointer, size_t size_bytes) {
  return result_of("amemSymmetricMalloc", allocate_symmetric, pointer, size_bytes);
}

AMEM_API int amemSymmetricFree(void* pointer) {
  if (pointer == nullptr) return 0;
  return with_process("amemSymmetricFree", [&](Process& process) {
    return process.symmetric().free(reinterpret_cast<DeviceAddress>(pointer));
  });
}

AMEM_API int amemSymmetricRendezvous(amemSymmetric_t* handle, void* pointer,
                                     const amemGroup_t* group) {
  return result_of("amemSymmetricRendezvous", rendezvous, handle, pointer, group);
}

AMEM_API int amemSymmetricDestroy(amemSymmetric_t handle) {
  if (handle == nullptr) return 0;
  return with_process("amemSymmetricDestroy",
                      [&](Process& process) { return process.symmetric().destroy(handle); });
}

AMEM_API int amemSymmetricGetInfo(amemSymmetric_t handle, amemSymmetricInfo_t* info) {
  return result_of("amemSymmetricGetInfo", [&]() -> Status {
    AMEM_TRY(check_pointer(info, "info"));
    *info = {};
    return look_up(handle, [&](const SymmetricHandle& facts) {
      using symmetric::detail::Workspace;
      const DeviceAddress workspace = facts.workspace;
      *info = {static_cast<int>(facts.rank()),
               static_cast<int>(facts.world_size()),
               facts.device,
               facts.view.buffer_bytes,
               facts.signal_pad_bytes,
               facts.buffers.data(),
               facts.signal_pads.data(),
               reinterpret_cast<void* const*>(workspace + offsetof(Workspace, buffers)),
               reinterpret_cast<uint32_t* const*>(workspace + offsetof(Workspace, signal_pads)),
               reinterpret_cast<void*>(facts.multicast.address())};
    });
  });
}

AMEM_API int amemSymmetricGetView(amemSymmetric_t handle, amemSymmetricView_t* view) {
  return result_of("amemSymmetricGetView", [&]() -> Status {
    AMEM_TRY(check_pointer(view, "view"));
    *view = {};
    return look_up(handle, [&](const SymmetricHandle& facts) { *view = facts.view; });
  });
}

AMEM_API int amemSymmetricSetSignalPadSize(size_t size_bytes) {
  return with_process("amemSymmetricSetSignalPadSize", [&](Process& process) {
    return process.symmetric().set_signal_pad_bytes(size_bytes);
  });
}

AMEM_API size_t amemSymmetricGetSignalPadSize(void) {
  const NoCancellation no_cancellation;
  Process* const process = process_that_works();
  return process == nullptr ? 0 : process->symmetric().signal_pad_bytes();
}

AMEM_API int amemSymmetricGetError(amemSymmetric_t handle) {
  return with_process("amemSymmetricGetError", [&](Process& process) {
    return process.symmetric().client().status_of(handle);
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
