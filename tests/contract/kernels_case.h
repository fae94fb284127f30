// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/mman.h>

#include "contents/kernels_ptx.h"
#include "tests/contract/capture_case.h"

namespace amem::contract {

/// amem's kernels loaded, and pinned host memory as the host pool has it.
class KernelsCase : public CaptureCase {
 protected:
  void SetUp() override {
    CaptureCase::SetUp();
    ASSERT_EQ(kSuccess, driver().cuModuleLoadData(&module_, kKernelsPtx));
    host_ = static_cast<char*>(
        mmap(nullptr, kHostBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(MAP_FAILED, static_cast<void*>(host_));
    ASSERT_EQ(kSuccess, driver().cuMemHostRegister(host_, kHostBytes, kRegisterPortableAndMapped));
  }

  void TearDown() override {
    EXPECT_EQ(kSuccess, driver().cuMemHostUnregister(host_));
    munmap(host_, kHostBytes);
    EXPECT_EQ(kSuccess, driver().cuModuleUnload(module_));
    CaptureCase::TearDown();
  }

  CuFunction function(const char* name) {
    CuFunction found = nullptr;
    EXPECT_EQ(kSuccess, driver().cuModuleGetFunction(&found, module_, name));
    return found;
  }

  CuDevicePtr on_device(void* host) {
    CuDevicePtr address = 0;
    EXPECT_EQ(kSuccess, driver().cuMemHostGetDevicePointer(&address, host, 0));
    return address;
  }

  CuResult launch(CuFunction function, size_t block_count, unsigned thread_count, void* parameter) {
    void* parameters[] = {parameter};
    return driver().cuLaunchKernel(function, static_cast<unsigned>(block_count), 1, 1, thread_count,
                                   1, 1, 0, other_, parameters, nullptr);
  }

  static constexpr unsigned kRegisterPortableAndMapped = 1 | 2;
  static constexpr size_t kHostBytes = 2 * kMb;
  CuModule module_ = nullptr;
  char* host_ = nullptr;
};

}  // namespace amem::contract
