// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The stock NCCL of this machine, loaded without a GPU: its look-ups can be caught.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "api/testdata/child.h"
#include "hook/loaded_image.h"
#include "shim/nccl_file.h"

namespace amem {
namespace {

std::atomic<int> driver_lookups{0};
decltype(&dlsym) real_dlsym = nullptr;

void* counting_dlsym(void* handle, const char* name) {
  if (strncmp(name, "cu", 2) == 0) ++driver_lookups;
  return real_dlsym(handle, name);
}

/// Loads the stock NCCL beside an empty libcuda.so.1, redirects its dlsym and makes it look for the
/// driver.
int catch_lookups() {
  if (dlopen(AMEM_TEST_EMPTY_DRIVER, RTLD_NOW) == nullptr) return 10;
  void* nccl = dlopen(AMEM_TEST_STOCK_NCCL, RTLD_LAZY | RTLD_LOCAL);
  if (nccl == nullptr) return 11;
  const auto images = images_exporting("ncclCommInitRank");
  if (images.size() != 1) return 12;
  void* previous = nullptr;
  const auto slots =
      redirect_import(images.front(), "dlsym", reinterpret_cast<void*>(&counting_dlsym), &previous);
  if (!slots.ok() || slots.value() < 1) return 13;
  real_dlsym = reinterpret_cast<decltype(&dlsym)>(previous);
  if (real_dlsym == nullptr || real_dlsym(nccl, "ncclCommInitRank") == nullptr) return 14;

  void* memory = nullptr;
  auto* allocate = reinterpret_cast<int (*)(void**, size_t)>(real_dlsym(nccl, "ncclMemAlloc"));
  const int result = allocate(&memory, 1 << 20);
  printf("%d slots, ncclMemAlloc returned %d, %d driver look-ups\n", slots.value(), result,
         driver_lookups.load());
  fflush(stdout);
  return driver_lookups > 0 ? 0 : 15;
}

TEST(StockNccl, LookupsOfTheDriverAreCaught) {
  if (strlen(AMEM_TEST_STOCK_NCCL) == 0) GTEST_SKIP() << "this machine has no stock libnccl.so.2";

  const Ended ended = run_in_child(catch_lookups);

  EXPECT_EQ(ended.status, 0) << ended.output << ended.errors;
}

TEST(StockNccl, IsRecognisedByItsFile) {
  if (strlen(AMEM_TEST_STOCK_NCCL) == 0) GTEST_SKIP() << "this machine has no stock libnccl.so.2";

  const auto kind = inspect_nccl_file(AMEM_TEST_STOCK_NCCL);

  ASSERT_TRUE(kind.ok()) << kind.error().message;
  EXPECT_EQ(kind.value(), NcclFileKind::nccl);
}

}  // namespace
}  // namespace amem
