// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/untagged/untagged_memory.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "clients/untagged/python_stack.h"

namespace amem {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// A library, as the return address of a call in it. No sanitizer intercepts the function.
const void* in_libc() { return dlsym(RTLD_DEFAULT, "gnu_get_libc_version"); }
const void* in_this_program() { return reinterpret_cast<const void*>(&in_libc); }

TEST(UntaggedMemory, IsSummedByDeviceAndLibrary) {
  UntaggedMemory memory;
  memory.add(0x1000, 3 * kMiB, 0, in_libc());
  memory.add(0x2000, 5 * kMiB, 0, in_libc());
  memory.add(0x3000, 7 * kMiB, 1, in_libc());
  memory.add(0x4000, 1 * kMiB, 0, in_this_program());

  const auto sums = memory.by_library();
  ASSERT_EQ(sums.size(), 3U);
  const UntaggedMemory::Sum& of_libc = sums.at({0, "libc.so.6"});
  EXPECT_EQ(of_libc.bytes, 8 * kMiB);
  EXPECT_EQ(of_libc.count, 2U);
  EXPECT_EQ(of_libc.largest_bytes, 5 * kMiB);
  EXPECT_EQ(of_libc.largest_at.find("libc.so.6+0x"), 0U) << of_libc.largest_at;
  EXPECT_EQ(sums.at({1, "libc.so.6"}).bytes, 7 * kMiB);
  EXPECT_EQ(sums.at({0, "the program"}).bytes, kMiB);
}

TEST(UntaggedMemory, EndsWithTheAllocation) {
  UntaggedMemory memory;
  memory.add(0x1000, 3 * kMiB, 0, in_libc());
  memory.add(0x2000, 2 * kMiB, 0, in_libc());
  memory.remove(0x1000);
  memory.remove(0x1000);
  memory.remove(0x9000);
  EXPECT_EQ((memory.by_library().at({0, "libc.so.6"}).bytes), 2 * kMiB);
  memory.remove(0x2000);
  EXPECT_TRUE(memory.by_library().empty());
}

TEST(UntaggedMemory, OfNestedCallsTheOuterOneCounts) {
  UntaggedMemory memory;
  memory.add(0x1000, kMiB, 0, in_libc());
  memory.add(0x1000, kMiB, 0, in_this_program());
  const auto sums = memory.by_library();
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums.at({0, "the program"}).bytes, kMiB);
}

TEST(UntaggedMemory, OfAnAddressOutsideAllLibrariesHasAName) {
  UntaggedMemory memory;
  memory.add(0x1000, kMiB, 0, reinterpret_cast<const void*>(uintptr_t{16}));
  EXPECT_EQ(memory.by_library().begin()->first.second, "a library that is unloaded");
}

TEST(PythonStack, IsEmptyWithoutPython) { EXPECT_EQ(python_stack(), ""); }

}  // namespace
}  // namespace amem
