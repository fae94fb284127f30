// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// dlopen(3) through a patched slot gives what it gives without amem, for every caller.
#include <gtest/gtest.h>

#include "src/api/testdata/child.h"

namespace amem {
namespace {

const std::string kData = AMEM_TEST_PROGRAMS;

std::string caller(const std::string& kind) { return kData + "/libdlopen_caller_" + kind + ".so"; }

Ended probe(const std::vector<std::string>& arguments, const std::string& preload,
            const char* enable) {
  std::vector<std::string> argv = {kData + "/dlopen_probe"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(argv, {"LD_PRELOAD=" + preload, std::string("AMEM_ENABLE=") + enable});
}

TEST(Dlopen, GivesWhatItGivesWithoutAmem) {
  const auto outcome = [](const char* kind, const std::string& name) {
    return probe({caller(kind), name}, "", "0").output.substr(0, 6);
  };
  // The control: a bare name is found for the caller's sake alone, ...
  EXPECT_EQ(outcome("runpath", "libdlopen_inner.so"), "opened");
  EXPECT_EQ(outcome("rpath", "libdlopen_inner.so"), "opened");
  EXPECT_EQ(outcome("plain", "libdlopen_inner.so"), "error:");
  // ... the dependency of a library that is opened by its path is not, which is why amem may open
  // that one.
  EXPECT_EQ(outcome("runpath", kData + "/libdlopen_middle.so"), "error:");
  EXPECT_EQ(outcome("rpath", kData + "/libdlopen_middle.so"), "error:");

  for (const char* kind : {"plain", "runpath", "rpath"})
    for (const std::string& name :
         {std::string("libdlopen_inner.so"), std::string("$ORIGIN/sub/libdlopen_inner.so"),
          kData + "/sub/libdlopen_inner.so", kData + "/libdlopen_middle.so",
          std::string("./no/such.so"), std::string("libnosuch.so"), std::string("libm.so.6"),
          std::string("-"), std::string("")}) {
      const Ended without = probe({caller(kind), name}, "", "0");
      ASSERT_EQ(without.status, 0) << without.errors;
      for (const char* enable : {"0", "1"}) {
        const Ended with = probe({caller(kind), name}, AMEM_TEST_ENGINE, enable);
        EXPECT_EQ(with.status, 0) << with.errors;
        EXPECT_EQ(with.output, without.output)
            << kind << " opens " << name << ", AMEM_ENABLE=" << enable;
        EXPECT_EQ(with.errors, without.errors);
      }
    }
}

TEST(Dlopen, LetsManyThreadsThroughAtOnce) {
  const Ended ended =
      probe({caller("plain"), kData + "/sub/libdlopen_inner.so", "32"}, AMEM_TEST_ENGINE, "1");

  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output.find("32 of 32 threads opened it\nopened: "), 0u) << ended.output;
}

TEST(Dlopen, WorksBesideAnInterposedDlsymThatLoadsLibraries) {
  const std::string name = kData + "/sub/libdlopen_inner.so";
  const std::string expected = probe({caller("plain"), name}, "", "0").output;
  const std::string engine = AMEM_TEST_ENGINE, others = kData + "/libdlopen_dlsym.so";
  for (const std::string& preload : {others + ":" + engine, engine + ":" + others}) {
    const Ended ended = probe({caller("plain"), name}, preload, "1");
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_EQ(ended.output, expected);
  }
}

}  // namespace
}  // namespace amem
