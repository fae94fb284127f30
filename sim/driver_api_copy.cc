// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Copies and fills, in a stream and at once, and writes of a word.
#include "sim/api.h"
#include "sim/context.h"
#include "sim/transfer.h"

using namespace amem::sim;

namespace {

CuDevicePtr address_of(const void* pointer) { return reinterpret_cast<CuDevicePtr>(pointer); }

CuResult copy_in(CuStream handle, const Copy& copy) {
  StreamRef stream;
  if (const CuResult known = stream_of(handle, &stream); known != kSuccess) return known;
  return submit_copy(stream, copy);
}

CuResult fill_in(CuStream handle, const Fill& fill) {
  StreamRef stream;
  if (const CuResult known = stream_of(handle, &stream); known != kSuccess) return known;
  return submit_fill(stream, fill);
}

// The synchronous forms are work of the null stream, waited for.
CuResult finish_null_stream(CuResult submitted) {
  if (submitted != kSuccess) return submitted;
  StreamRef stream;
  if (const CuResult known = stream_of(nullptr, &stream); known != kSuccess) return known;
  stream->synchronize();
  return stream->context().failure();
}

CuResult copy_now(const Copy& copy) { return finish_null_stream(copy_in(nullptr, copy)); }

CuResult fill_now(const Fill& fill) { return finish_null_stream(fill_in(nullptr, fill)); }

}  // namespace

AMEM_SIM_API CuResult cuMemcpy(CuDevicePtr to, CuDevicePtr from, size_t size_bytes) {
  return driver_call(Function::cuMemcpy, [&] {
    return copy_now({to, from, size_bytes, Direction::kAny});
  });
}

AMEM_SIM_API CuResult cuMemcpyDtoH_v2(void* to, CuDevicePtr from, size_t size_bytes) {
  return driver_call(Function::cuMemcpyDtoH_v2, [&] {
    return copy_now({address_of(to), from, size_bytes, Direction::kDeviceToHost});
  });
}

AMEM_SIM_API CuResult cuMemcpyHtoD_v2(CuDevicePtr to, const void* from, size_t size_bytes) {
  return driver_call(Function::cuMemcpyHtoD_v2, [&] {
    return copy_now({to, address_of(from), size_bytes, Direction::kHostToDevice});
  });
}

AMEM_SIM_API CuResult cuMemcpyDtoD_v2(CuDevicePtr to, CuDevicePtr from, size_t size_bytes) {
  return driver_call(Function::cuMemcpyDtoD_v2, [&] {
    return copy_now({to, from, size_bytes, Direction::kDeviceToDevice});
  });
}

AMEM_SIM_API CuResult cuMemcpyAsync(CuDevicePtr to, CuDevicePtr from, size_t size_bytes,
                                    CuStream stream) {
  return driver_call(Function::cuMemcpyAsync, [&] {
    return copy_in(stream, {to, from, size_bytes, Direction::kAny});
  });
}

AMEM_SIM_API CuResult cuMemcpyDtoHAsync_v2(void* to, CuDevicePtr from, size_t size_bytes,
                                           CuStream stream) {
  return driver_call(Function::cuMemcpyDtoHAsync_v2, [&] {
    return copy_in(stream, {address_of(to), from, size_bytes, Direction::kDeviceToHost});
  });
}

AMEM_SIM_API CuResult cuMemcpyHtoDAsync_v2(CuDevicePtr to, const void* from, size_t size_bytes,
                                           CuStream stream) {
  return driver_call(Function::cuMemcpyHtoDAsync_v2, [&] {
    return copy_in(stream, {to, address_of(from), size_bytes, Direction::kHostToDevice});
  });
}

AMEM_SIM_API CuResult cuMemcpyDtoDAsync_v2(CuDevicePtr to, CuDevicePtr from, size_t size_bytes,
                                           CuStream stream) {
  return driver_call(Function::cuMemcpyDtoDAsync_v2, [&] {
    return copy_in(stream, {to, from, size_bytes, Direction::kDeviceToDevice});
  });
}

AMEM_SIM_API CuResult cuMemsetD8_v2(CuDevicePtr to, unsigned char value, size_t count) {
  return driver_call(Function::cuMemsetD8_v2, [&] { return fill_now({to, value, 1, count}); });
}

AMEM_SIM_API CuResult cuMemsetD8Async(CuDevicePtr to, unsigned char value, size_t count,
                                      CuStream stream) {
  return driver_call(Function::cuMemsetD8Async, [&] {
    return fill_in(stream, {to, value, 1, count});
  });
}

AMEM_SIM_API CuResult cuMemsetD32_v2(CuDevicePtr to, unsigned value, size_t count) {
  return driver_call(Function::cuMemsetD32_v2, [&] { return fill_now({to, value, 4, count}); });
}

AMEM_SIM_API CuResult cuMemsetD32Async(CuDevicePtr to, unsigned value, size_t count,
                                       CuStream stream) {
  return driver_call(Function::cuMemsetD32Async, [&] {
    return fill_in(stream, {to, value, 4, count});
  });
}

AMEM_SIM_API CuResult cuStreamWriteValue32_v2(CuStream stream, CuDevicePtr to, uint32_t value,
                                              unsigned flags) {
  return driver_call(Function::cuStreamWriteValue32_v2, [&] {
    return flags == 0 ? fill_in(stream, {to, value, 4, 1}) : kErrorNotSupported;
  });
}
