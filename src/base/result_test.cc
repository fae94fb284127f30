// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace amem {
namespace {

Status fail() { return make_error(ErrorKind::misuse, 7, "cannot %s", "pause"); }
Result<int> try_it(bool failing) {
  if (failing) AMEM_TRY(fail());
  return 3;
}

Result<std::unique_ptr<int>> make_owned(bool failing) {
  return std::make_unique<int>(AMEM_TRY(try_it(failing)));
}
Result<int> sum(bool failing) {
  const std::unique_ptr<int> first = AMEM_TRY(make_owned(false));
  return *first + *AMEM_TRY(make_owned(failing));
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(try_it(false).value(), 3);

  const Result<int> failed = try_it(true);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::misuse);
  EXPECT_EQ(failed.error().code, 7);
  EXPECT_EQ(failed.error().message, "cannot pause");
}

TEST(Result, TryIsTheValueOrReturnsTheError) {
  EXPECT_EQ(sum(false).value(), 6);

  const Result<int> failed = sum(true);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "cannot pause");
}

TEST(Result, OsErrorNamesTheCause) {
  EXPECT_EQ(os_error(ENOENT, "open(%s)", "/x").message, "open(/x): No such file or directory");
}

}  // namespace
}  // namespace amem
