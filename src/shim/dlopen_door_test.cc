// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/dlopen_door.h"

#include <gtest/gtest.h>

#include "shim/testdata/child.h"

namespace amem {
namespace {

const std::string kData = AMEM_TEST_DATA;

std::string caller(const std::string& kind) { return kData + "/libdoor_caller_" + kind + ".so"; }

Ended probe(const std::vector<std::string>& arguments, const std::string& preload,
            const char* enable) {
  std::vector<std::string> argv = {kData + "/door_probe"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return run_program(argv, {"LD_PRELOAD=" + preload, std::string("AMEM_ENABLE=") + enable});
}

/// How often the callback ran; -1 when the probe failed.
int callbacks(const std::string& kind, const std::string& name, const char* enable = "1") {
  const Ended ended = probe({caller(kind), name}, AMEM_TEST_COUNTING_DOOR, enable);
  return ended.status == 0 ? std::stoi(ended.errors) : -1;
}

TEST(DlopenDoor, NobodyNoticesIt) {
  const auto outcome = [](const char* kind, const std::string& name) {
    return probe({caller(kind), name}, "", "0").output.substr(0, 6);
  };
  // The control: a bare name is found for the caller's sake alone ...
  EXPECT_EQ(outcome("runpath", "libdoor_inner.so"), "opened");
  EXPECT_EQ(outcome("rpath", "libdoor_inner.so"), "opened");
  EXPECT_EQ(outcome("plain", "libdoor_inner.so"), "error:");
  // ... but the dependency of a file that is named by its path is not, which is why that file may
  // be loaded by us.
  EXPECT_EQ(outcome("runpath", kData + "/libdoor_middle.so"), "error:");
  EXPECT_EQ(outcome("rpath", kData + "/libdoor_middle.so"), "error:");

  for (const char* kind : {"plain", "runpath", "rpath"})
    for (const std::string& name :
         {std::string("libdoor_inner.so"), std::string("$ORIGIN/sub/libdoor_inner.so"),
          kData + "/sub/libdoor_inner.so", kData + "/libdoor_middle.so",
          std::string("./no/such.so"), std::string("libnosuch.so"), std::string("libm.so.6"),
          std::string("-"), std::string("")}) {
      const Ended without = probe({caller(kind), name}, "", "0");
      ASSERT_EQ(without.status, 0) << without.errors;
      for (const char* enable : {"0", "1"})
        for (const char* preload : {AMEM_TEST_ENGINE, AMEM_TEST_COUNTING_DOOR}) {
          const Ended with = probe({caller(kind), name}, preload, enable);
          EXPECT_EQ(with.status, 0) << with.errors;
          EXPECT_EQ(with.output, without.output)
              << kind << " opens " << name << ", AMEM_ENABLE=" << enable << ", " << preload;
        }
    }
}

TEST(DlopenDoor, SeesWhatIsLoadedByItsPath) {
  EXPECT_EQ(callbacks("plain", kData + "/sub/libdoor_inner.so"), 1);
  EXPECT_EQ(callbacks("plain", AMEM_TEST_FAKE_NCCL), 1);
  EXPECT_EQ(callbacks("rpath", AMEM_TEST_FAKE_NCCL), 1);
}

TEST(DlopenDoor, IsPassedByWhereTheCallerMattersOrNothingIsLoaded) {
  EXPECT_EQ(callbacks("runpath", "libdoor_inner.so"), 0);
  EXPECT_EQ(callbacks("runpath", "$ORIGIN/sub/libdoor_inner.so"), 0);
  EXPECT_EQ(callbacks("plain", "-"), 0);
  EXPECT_EQ(callbacks("plain", kData + "/nosuch.so"), 0);
}

TEST(DlopenDoor, IsShutWhileAmemIsDisabled) {
  EXPECT_EQ(callbacks("plain", AMEM_TEST_FAKE_NCCL, "0"), 0);
  EXPECT_EQ(callbacks("plain", AMEM_TEST_FAKE_NCCL, ""), 0);
}

TEST(DlopenDoor, LetsManyThreadsThroughAtOnce) {
  const Ended ended =
      probe({caller("plain"), kData + "/sub/libdoor_inner.so", "32"}, AMEM_TEST_COUNTING_DOOR, "1");

  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output.find("32 of 32 threads opened it\nopened: "), 0u) << ended.output;
  EXPECT_EQ(ended.errors, "33");
}

TEST(DlopenDoor, BearsADlsymThatLoadsLibrariesItself) {
  const std::string name = kData + "/sub/libdoor_inner.so";
  const std::string expected = probe({caller("plain"), name}, "", "0").output;
  const std::string door = AMEM_TEST_COUNTING_DOOR, dlsym_of_others = AMEM_TEST_DLSYM;
  for (const std::string& preload : {dlsym_of_others + ":" + door, door + ":" + dlsym_of_others}) {
    const Ended ended = probe({caller("plain"), name}, preload, "1");
    EXPECT_EQ(ended.status, 0) << ended.errors;
    EXPECT_EQ(ended.output, expected);
    EXPECT_EQ(ended.errors, "1");
  }
}

TEST(RealDlopen, IsNotOurs) {
  void* handle = real_dlopen()(nullptr, 2 /* RTLD_NOW */);
  EXPECT_NE(handle, nullptr);
}

}  // namespace
}  // namespace amem
