// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Finding functions.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/contract/driver.h"

namespace amem::contract {
namespace {

using LookUp = CuResult (*)(const char*, void**, int, uint64_t, int*);
using OldLookUp = CuResult (*)(const char*, void**, int, uint64_t);

LookUp look_up() { return reinterpret_cast<LookUp>(driver_symbol("cuGetProcAddress_v2")); }

struct Found {
  CuResult result;
  void* function;
  int status;
};

Found find(const char* name, int version) {
  Found found{kErrorUnknown, reinterpret_cast<void*>(1), -1};
  found.result = look_up()(name, &found.function, version, 0, &found.status);
  return found;
}

struct Row {
  const char* name;
  const char* symbol;
  int since;
};

constexpr Row kRows[] = {
#define AMEM_CONTRACT_FUNCTION(name, symbol, since, parameters) {#name, #symbol, since},
#include "tests/contract/functions.def"
#undef AMEM_CONTRACT_FUNCTION
};

TEST(LookUp, GivesEveryFunctionForTheVersionThatBroughtIt) {
  for (const Row& row : kRows) {
    const Found found = find(row.name, row.since);
    EXPECT_EQ(kSuccess, found.result) << row.name;
    EXPECT_EQ(kProcAddressSuccess, found.status) << row.name;
    EXPECT_NE(nullptr, found.function) << row.name;
    EXPECT_EQ(driver_symbol(row.symbol), found.function) << row.symbol;
  }
}

TEST(LookUp, GivesTheFormOfTheVersion) {
  void* const old_form = driver_symbol("cuMemGetAddressRange");
  void* const new_form = driver_symbol("cuMemGetAddressRange_v2");
  ASSERT_NE(nullptr, old_form);
  ASSERT_NE(old_form, new_form);

  EXPECT_EQ(old_form, find("cuMemGetAddressRange", 2000).function);
  for (const int version : {3020, 10020, 11000, 12010, 13000}) {
    EXPECT_EQ(new_form, find("cuMemGetAddressRange", version).function) << version;
  }
}

TEST(LookUp, KnowsNothingUnderAnUnknownName) {
  const Found found = find("cuMemDoesNotExist", 12000);

  EXPECT_EQ(kSuccess, found.result);
  EXPECT_EQ(nullptr, found.function);
  EXPECT_EQ(kProcAddressNotFound, found.status);
}

// The CUDA runtime asks so whether this is the toolkit's stub library, which answers 34.
TEST(LookUp, OfTheEmptyNameDoesNotSayStub) {
  const Found found = find("", 0);

  EXPECT_EQ(kSuccess, found.result);
  EXPECT_EQ(nullptr, found.function);
}

TEST(LookUp, RefusesAFunctionThatIsNewerThanTheVersion) {
  const Found found = find("cuMemRetainAllocationHandle", 10020);

  EXPECT_EQ(kSuccess, found.result);
  EXPECT_EQ(nullptr, found.function);
  EXPECT_EQ(kProcAddressVersionNotSufficient, found.status);
}

TEST(LookUp, RefusesAVersionThatIsNewerThanTheDriver) {
  int version = 0;
  ASSERT_EQ(kSuccess, driver().cuDriverGetVersion(&version));

  EXPECT_EQ(kErrorInvalidValue, find("cuMemCreate", version + 10).result);
}

TEST(LookUp, OfItselfGivesTheFormOfTheVersion) {
  const Found old_form = find("cuGetProcAddress", 11030);
  const Found new_form = find("cuGetProcAddress", 12000);

  ASSERT_EQ(kSuccess, old_form.result);
  ASSERT_EQ(kSuccess, new_form.result);
  EXPECT_EQ(driver_symbol("cuGetProcAddress"), old_form.function);
  EXPECT_EQ(driver_symbol("cuGetProcAddress_v2"), new_form.function);
  void* through_old = nullptr;
  void* through_new = nullptr;
  int status = -1;
  EXPECT_EQ(kSuccess,
            reinterpret_cast<OldLookUp>(old_form.function)("cuMemAlloc", &through_old, 11000, 0));
  EXPECT_EQ(kSuccess, reinterpret_cast<LookUp>(new_form.function)("cuMemAlloc", &through_new, 11000,
                                                                  0, &status));
  EXPECT_EQ(through_old, through_new);
  EXPECT_EQ(kProcAddressSuccess, status);
}

TEST(LookUp, NeedsNoPlaceForTheStatus) {
  void* function = nullptr;

  EXPECT_EQ(kSuccess, look_up()("cuMemCreate", &function, 12000, 0, nullptr));

  EXPECT_NE(nullptr, function);
}

TEST(ErrorNames, AreTheDriversOwn) {
  const char* name = nullptr;
  const char* text = nullptr;

  ASSERT_EQ(kSuccess, driver().cuGetErrorName(kErrorOutOfMemory, &name));
  ASSERT_EQ(kSuccess, driver().cuGetErrorString(kErrorOutOfMemory, &text));

  EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", name);
  EXPECT_GT(std::strlen(text), 0u);
  EXPECT_EQ(kErrorInvalidValue, driver().cuGetErrorName(static_cast<CuResult>(12345), &name));
}

}  // namespace
}  // namespace amem::contract
