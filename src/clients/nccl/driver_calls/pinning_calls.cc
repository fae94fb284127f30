// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/driver_calls/pinning_calls.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "clients/nccl/hook_context.h"

namespace amem {
namespace {

// The C ABIs of the functions below: libibverbs verbs.h (rdma-core 44), gdrapi.h (gdrcopy 2.4).
// Objects are opaque here.
using IbvRegMr = void* (*)(void* protection_domain, void* address, size_t size_bytes, int access);
using IbvRegMrIova2 = void* (*)(void* protection_domain, void* address, size_t size_bytes,
                                uint64_t iova, unsigned access);
struct GdrHandle {
  unsigned long value;
};
using GdrPinBuffer = int (*)(void* gdr, unsigned long address, size_t size_bytes,
                             uint64_t p2p_token, uint32_t va_space, GdrHandle* handle);
using GdrPinBufferV2 = int (*)(void* gdr, unsigned long address, size_t size_bytes, uint32_t flags,
                               GdrHandle* handle);

std::atomic<void*> g_ibv_reg_mr, g_ibv_reg_mr_iova2, g_gdr_pin_buffer, g_gdr_pin_buffer_v2;

constexpr char kNic[] = "registered with a NIC";
constexpr char kGdrcopy[] = "mapped for the CPU (gdrcopy)";

void* hooked_ibv_reg_mr(void* domain, void* address, size_t size_bytes, int access) {
  void* const region =
      reinterpret_cast<IbvRegMr>(g_ibv_reg_mr.load())(domain, address, size_bytes, access);
  if (region != nullptr)
    pin_range(*hook_context(), reinterpret_cast<uintptr_t>(address), size_bytes, kNic);
  return region;
}

void* hooked_ibv_reg_mr_iova2(void* domain, void* address, size_t size_bytes, uint64_t iova,
                              unsigned access) {
  void* const region = reinterpret_cast<IbvRegMrIova2>(g_ibv_reg_mr_iova2.load())(
      domain, address, size_bytes, iova, access);
  if (region != nullptr)
    pin_range(*hook_context(), reinterpret_cast<uintptr_t>(address), size_bytes, kNic);
  return region;
}

int hooked_gdr_pin_buffer(void* gdr, unsigned long address, size_t size_bytes, uint64_t token,
                          uint32_t va_space, GdrHandle* handle) {
  const int result = reinterpret_cast<GdrPinBuffer>(g_gdr_pin_buffer.load())(
      gdr, address, size_bytes, token, va_space, handle);
  if (result == 0) pin_range(*hook_context(), address, size_bytes, kGdrcopy);
  return result;
}

int hooked_gdr_pin_buffer_v2(void* gdr, unsigned long address, size_t size_bytes, uint32_t flags,
                             GdrHandle* handle) {
  const int result = reinterpret_cast<GdrPinBufferV2>(g_gdr_pin_buffer_v2.load())(
      gdr, address, size_bytes, flags, handle);
  if (result == 0) pin_range(*hook_context(), address, size_bytes, kGdrcopy);
  return result;
}

struct Row {
  const char* name;
  std::atomic<void*>* real;
  void* wrapper;
};
const Row kRows[] = {
    {"ibv_reg_mr", &g_ibv_reg_mr, reinterpret_cast<void*>(&hooked_ibv_reg_mr)},
    {"ibv_reg_mr_iova2", &g_ibv_reg_mr_iova2, reinterpret_cast<void*>(&hooked_ibv_reg_mr_iova2)},
    {"gdr_pin_buffer", &g_gdr_pin_buffer, reinterpret_cast<void*>(&hooked_gdr_pin_buffer)},
    {"gdr_pin_buffer_v2", &g_gdr_pin_buffer_v2, reinterpret_cast<void*>(&hooked_gdr_pin_buffer_v2)},
};

}  // namespace

void* pinning_wrapper(const char* name, void* real) {
  for (const Row& row : kRows) {
    if (strcmp(row.name, name) != 0) continue;
    row.real->store(real);
    return row.wrapper;
  }
  return real;
}

bool is_pinning_call(const char* name) {
  for (const Row& row : kRows)
    if (strcmp(row.name, name) == 0) return true;
  return false;
}

}  // namespace amem
