// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace amem {
namespace {

Status fail() { return make_error(ErrorKind::misuse, 7, "cannot %s", "pause"); }
Result<int> try_it(bool failing) {
  if (failing) AMEM_TRY(fail());
  return 3;
}

TEST(Result, CarriesAValueOrAnError) {
  EXPECT_EQ(try_it(false).value(), 3);

  const Result<int> failed = try_it(true);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::misuse);
  EXPECT_EQ(failed.error().code, 7);
  EXPECT_EQ(failed.error().message, "cannot pause");
}

TEST(Result, OsErrorNamesTheCause) {
  EXPECT_EQ(os_error(ENOENT, "open(%s)", "/x").message, "open(/x): No such file or directory");
}

}  // namespace
}  // namespace amem
