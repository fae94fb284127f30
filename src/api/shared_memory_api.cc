// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem.h's functions for memory that several processes use, and for libraries over amem.
#include <fcntl.h>

#include <bit>

#include "api/calls.h"
#include "base/environment.h"
#include "driver/work_contexts.h"

using namespace amem;

AMEM_API int amemIpcGetHandle(amemIpcHandle_t* handle, const void* pointer) {
  return with_process("amemIpcGetHandle", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(handle, "handle"));
    const auto address = reinterpret_cast<DeviceAddress>(pointer);
    const auto exported = AMEM_TRY(process.tensors.export_handle(address));
    if (!exported.has_value()) return misuse_error("the address is not in memory of amemMalloc()");
    *handle = std::bit_cast<amemIpcHandle_t>(*exported);
    return ok_status();
  });
}

AMEM_API int amemIpcOpenHandle(void** pointer, const amemIpcHandle_t* handle, int device) {
  return with_process("amemIpcOpenHandle", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(pointer, "pointer"));
    *pointer = nullptr;
    AMEM_TRY(check_pointer(handle, "handle"));
    int ignored = 0;
    if (process.driver.cuDeviceGetAttribute(&ignored, kAttributeMultiprocessors, device) != 0)
      return misuse_error("the driver has no device %d", device);
    auto opened = process.tensors.open(std::bit_cast<IpcHandleBytes>(*handle), device);
    if (!opened.has_value()) return protocol_error("this is not a handle of amemIpcGetHandle()");
    *pointer = reinterpret_cast<void*>(AMEM_TRY(std::move(*opened)));
    return ok_status();
  });
}

AMEM_API int amemIpcCloseHandle(void* pointer) {
  if (pointer == nullptr) return note_success(), 0;
  return with_process("amemIpcCloseHandle", [&](Process& process) -> Status {
    if (auto closed = process.tensors.close(reinterpret_cast<DeviceAddress>(pointer)))
      return std::move(*closed);
    return misuse_error("this is not an address of amemIpcOpenHandle()");
  });
}

AMEM_API int amemCreateMemorySet(amemMemorySet_t* set, const amemRange_t* ranges, size_t count,
                                 const amemMemorySetUser_t* user) {
  return with_process("amemCreateMemorySet", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(set, "set"));
    *set = nullptr;
    MemorySet wanted;
    wanted.ranges = AMEM_TRY(ranges_of(ranges, count));
    if (user != nullptr) wanted.user = *user;
    const void* const id = AMEM_TRY(process.symmetric.create_set(std::move(wanted)));
    *set = static_cast<amemMemorySet_t>(const_cast<void*>(id));
    return ok_status();
  });
}

AMEM_API int amemEnterMemorySet(amemMemorySet_t set, amemStream_t stream, uint64_t timeout_ms) {
  return with_process("amemEnterMemorySet", [&](Process& process) -> Status {
    AMEM_TRY(check_duration(timeout_ms));
    const long limit_ms =
        timeout_ms == 0 ? environment().gate_timeout_ms : static_cast<long>(timeout_ms);
    AMEM_TRY(process.engine.exiting.check());
    AMEM_TRY(process.symmetric.enter(set, limit_ms));
    note_work_context(process.driver);
    Status noted = process.symmetric.note_captured(process.driver, set, stream);
    if (!noted.ok()) (void)process.symmetric.leave(set);
    return noted;
  });
}

AMEM_API int amemLeaveMemorySet(amemMemorySet_t set) {
  return with_process("amemLeaveMemorySet",
                      [&](Process& process) { return process.symmetric.leave(set); });
}

AMEM_API int amemDestroyMemorySet(amemMemorySet_t set) {
  if (set == nullptr) return note_success(), 0;
  return with_process("amemDestroyMemorySet", [&](Process& process) {
    return process.symmetric.destroy_set(set, Deadline::after_ms(environment().timeout_ms));
  });
}

AMEM_API int amemMakePersistent(void* pointer, const char* reason) {
  return with_process("amemMakePersistent", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(reason, "reason"));
    return process.tensors.make_persistent(reinterpret_cast<DeviceAddress>(pointer), reason);
  });
}

AMEM_API int amemOfferDescriptor(amemIpcHandle_t* handle, int descriptor) {
  UniqueFd owned(descriptor);
  return with_process("amemOfferDescriptor", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(handle, "handle"));
    if (fcntl(descriptor, F_GETFD) < 0) return misuse_error("%d is no descriptor", descriptor);
    const auto offered = AMEM_TRY(process.sharing.offer_descriptor(std::move(owned)));
    *handle = std::bit_cast<amemIpcHandle_t>(offered);
    return ok_status();
  });
}

AMEM_API int amemWithdrawDescriptor(const amemIpcHandle_t* handle) {
  return with_process("amemWithdrawDescriptor", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(handle, "handle"));
    return process.sharing.withdraw_descriptor(std::bit_cast<IpcHandleBytes>(*handle));
  });
}

AMEM_API int amemTakeDescriptor(int* descriptor, const amemIpcHandle_t* handle) {
  return with_process("amemTakeDescriptor", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(descriptor, "descriptor"));
    *descriptor = -1;
    AMEM_TRY(check_pointer(handle, "handle"));
    const auto wanted = std::bit_cast<IpcHandleBytes>(*handle);
    *descriptor = AMEM_TRY(process.sharing.take_descriptor(wanted)).release();
    return ok_status();
  });
}

AMEM_API int amemGetSetting(const char* name, int64_t* value) {
  return with_process("amemGetSetting", [&](Process&) -> Status {
    AMEM_TRY(check_pointer(name, "name"));
    AMEM_TRY(check_pointer(value, "value"));
    const std::optional<long> found = number_setting(name);
    if (!found.has_value())
      return misuse_error("no environment variable of amem with this name is a number or a flag");
    *value = *found;
    return ok_status();
  });
}

AMEM_API void amemSetLastError(const char* call, const char* text) {
  const NoCancellation no_cancellation;
  if (call != nullptr && text != nullptr) keep_last_error(call, {ErrorKind::misuse, 0, text});
}
