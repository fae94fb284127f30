// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Modules, their functions, and launches of them.
#include <algorithm>
#include <string_view>

#include "sim/api.h"
#include "sim/capture.h"
#include "sim/context.h"
#include "sim/kernel.h"
#include "sim/registry.h"

using namespace amem::sim;

namespace {

/// A loaded image. Its one function has the same handle.
struct Module {
  const Context* context;
  const Kernel* kernel;
};

CuResult load(CuModule* module, const char* image) {
  Context* context = nullptr;
  if (module == nullptr || image == nullptr) return kErrorInvalidValue;
  if (const CuResult current = current_context(&context); current != kSuccess) return current;
  const Kernel* kernel = kernel_in(image);
  if (kernel == nullptr) return kErrorInvalidImage;
  auto loaded = std::make_shared<Module>(Module{context, kernel});
  *module = static_cast<CuModule>(Registry<Module>::instance().add(std::move(loaded)));
  return kSuccess;
}

CuResult launch(CuFunction function, const Grid& grid, CuStream handle, void** parameters) {
  constexpr unsigned kMostThreads = 1024;
  const auto module = Registry<Module>::instance().find(function);
  StreamRef stream;
  if (module == nullptr) return kErrorInvalidHandle;
  if (const CuResult known = stream_of(handle, &stream); known != kSuccess) return known;
  if (&stream->context() != module->context) return kErrorInvalidHandle;
  const unsigned threads = grid.threads[0] * grid.threads[1] * grid.threads[2];
  const bool empty = std::min({grid.blocks[0], grid.blocks[1], grid.blocks[2]}) == 0;
  if (empty || threads == 0 || threads > kMostThreads || parameters == nullptr) {
    return kErrorInvalidValue;
  }
  if (const CuResult failed = stream->context().failure(); failed != kSuccess) return failed;
  Operation operation;
  const CuResult checked = module->kernel->launch(grid, parameters, &operation);
  return checked == kSuccess ? submit(stream, std::move(operation)) : checked;
}

}  // namespace

AMEM_SIM_API CuResult cuModuleLoadData(CuModule* module, const void* image) {
  return driver_call(Function::cuModuleLoadData,
                     [&] { return load(module, static_cast<const char*>(image)); });
}

AMEM_SIM_API CuResult cuModuleUnload(CuModule module) {
  return driver_call(Function::cuModuleUnload, [&] {
    return Registry<Module>::instance().remove(module) ? kSuccess : kErrorInvalidHandle;
  });
}

AMEM_SIM_API CuResult cuModuleGetFunction(CuFunction* function, CuModule handle, const char* name) {
  return driver_call(Function::cuModuleGetFunction, [&] {
    if (function == nullptr || name == nullptr) return kErrorInvalidValue;
    const auto module = Registry<Module>::instance().find(handle);
    if (module == nullptr) return kErrorInvalidHandle;
    if (std::string_view(name) != module->kernel->name) return kErrorNotFound;
    *function = reinterpret_cast<CuFunction>(handle);
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
