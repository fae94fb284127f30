// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Modules, their functions, and launches of them.
#include <algorithm>
#include <map>
#include <string_view>

#include "sim/api.h"
#include "sim/capture.h"
#include "sim/context.h"
#include "sim/kernel.h"
#include "sim/registry.h"

using namespace amem::sim;

namespace {

struct LoadedKernel {
  uint64_t context_id;
  KernelInImage in_image;
};

/// A loaded image: its functions' handles by name.
struct Module {
  std::map<std::string_view, void*> functions;
};

CuResult load(CuModule* module, const char* image) {
  Context* context = nullptr;
  if (module == nullptr || image == nullptr) return kErrorInvalidValue;
  if (const CuResult current = current_context(&context); current != kSuccess) return current;
  const std::vector<KernelInImage> kernels = kernels_in(image);
  if (kernels.empty()) return kErrorInvalidImage;
  auto loaded = std::make_shared<Module>();
  for (const KernelInImage& found : kernels) {
    auto function = std::make_shared<LoadedKernel>(LoadedKernel{context->id(), found});
    loaded->functions[found.kernel->name] =
        Registry<LoadedKernel>::instance().add(std::move(function));
  }
  *module = static_cast<CuModule>(Registry<Module>::instance().add(std::move(loaded)));
  return kSuccess;
}

CuResult launch(CuFunction function, const Grid& grid, CuStream handle, void** parameters) {
  constexpr unsigned kMaxThreads = 1024;
  const auto loaded = Registry<LoadedKernel>::instance().find(function);
  StreamRef stream;
  if (loaded == nullptr) return kErrorInvalidHandle;
  if (const CuResult known = stream_of(handle, &stream); known != kSuccess) return known;
  if (stream->context().id() != loaded->context_id) return kErrorInvalidHandle;
  const unsigned threads = grid.threads[0] * grid.threads[1] * grid.threads[2];
  const bool empty = std::min({grid.blocks[0], grid.blocks[1], grid.blocks[2]}) == 0;
  if (empty || threads == 0 || threads > kMaxThreads || parameters == nullptr) {
    return kErrorInvalidValue;
  }
  if (const CuResult failed = stream->context().failure(); failed != kSuccess) return failed;
  Operation operation;
  operation.stack_bytes = loaded->in_image.stack_bytes;
  const CuResult checked = loaded->in_image.kernel->launch(grid, parameters, &operation);
  return checked == kSuccess ? submit(stream, std::move(operation)) : checked;
}

}  // namespace

AMEM_SIM_API CuResult cuModuleLoadData(CuModule* module, const void* image) {
  return driver_call(Function::cuModuleLoadData,
                     [&] { return load(module, static_cast<const char*>(image)); });
}

AMEM_SIM_API CuResult cuModuleUnload(CuModule module) {
  return driver_call(Function::cuModuleUnload, [&] {
    const auto unloaded = Registry<Module>::instance().remove(module);
    if (unloaded == nullptr) return kErrorInvalidHandle;
    for (const auto& [name, function] : unloaded->functions)
      Registry<LoadedKernel>::instance().remove(function);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuModuleGetFunction(CuFunction* function, CuModule handle, const char* name) {
  return driver_call(Function::cuModuleGetFunction, [&] {
    if (function == nullptr || name == nullptr) return kErrorInvalidValue;
    const auto module = Registry<Module>::instance().find(handle);
    if (module == nullptr) return kErrorInvalidHandle;
    const auto found = module->functions.find(name);
    if (found == module->functions.end()) return kErrorNotFound;
    *function = static_cast<CuFunction>(found->second);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuLaunchKernel(CuFunction function, unsigned blocks_x, unsigned blocks_y,
                                     unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                                     unsigned threads_z, unsigned, CuStream stream,
                                     void** parameters, void**) {
  return driver_call(Function::cuLaunchKernel, [&] {
    const Grid grid{{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}};
    return launch(function, grid, stream, parameters);
  });
}
