// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/tensors/blas_calls.h"

#include <array>

#include "clients/tensors/host.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

constexpr size_t kMostLibraries = 4;
constexpr std::array<const char*, 1> kNames{"cublasSetWorkspace_v2"};
constinit RealFunctions<kNames.size(), kMostLibraries> g_real(kNames);

template <size_t kLibrary>
int set_workspace_entry(void* handle, void* workspace, size_t size_bytes) {
  TensorClient* const client = tensor_client();
  const auto address = reinterpret_cast<DeviceAddress>(workspace);
  if (client != nullptr && client->contains(address))
    (void)client->make_persistent(address, "a workspace of cuBLAS");
  return g_real.call<kLibrary>(0, handle, workspace, size_bytes);
}

constexpr auto kEntries = []<size_t, size_t kLibrary>() { return set_workspace_entry<kLibrary>; };
constinit NamedFunctions g_functions{kNames, entry_of<g_real, kEntries>};

}  // namespace

void catch_blas_calls() { intercept_names(g_functions); }

}  // namespace amem
