// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Every way in which a program reaches NCCL: amem catches its calls, its memory can be paused, and
// the job works before and after.
#include "tests/interpose/interposition.h"
#include "tests/slowdown.h"

namespace amem {
namespace {

TEST_F(Interposition, LinkedProgramUnderAPreload) {
  for (const char* program : {"linked_lazy", "linked_now", "linked_fixed"})
    for (const char* way : {"calls", "table"}) expect_caught({program, way}, preloaded_);
}

TEST_F(Interposition, LinkedProgramMaySetAmemsVariablesBeforeItsFirstCall) {
  EXPECT_EQ(run({"linked_now", "settings"}, preloaded_).output, "group 7\n");
}

// A conda environment's bin and lib. LD_LIBRARY_PATH has the simulated driver alone, so a program
// without such a path does not find minccl, at most another NCCL in the loader's cache.
TEST_F(Interposition, LinkedProgramThatFindsItsNcclByRpathOrRunpath) {
  const std::vector<std::string> settings{"LD_PRELOAD=" + kEngine, "AMEM_ENABLE=1",
                                          "LD_LIBRARY_PATH=" + kPrograms + "/driver"};
  for (const char* program : {"conda/bin/linked_rpath", "conda/bin/linked_runpath"})
    expect_caught({program, "calls"}, settings);
  expect_caught({"opener", "library=" + kPrograms + "/conda/lib/libnccl_user_conda.so"}, settings);
  EXPECT_NE(run({"linked_now", "calls"}, settings).output, kCaught);
}

TEST_F(Interposition, NcclOpenedUnderAPreload) {
  for (const char* how : {"nccl", "nccl-global", "nccl-deep"})
    for (const std::string& file : {std::string("libnccl.so.2"), kNccl})
      expect_caught({"opener", std::string(how) + "=" + file}, preloaded_);
}

TEST_F(Interposition, CallerThatAsksForTheProfilingNames) {
  expect_caught({"opener", "nccl=" + kNccl, "profiling"}, preloaded_);
}

TEST_F(Interposition, LibraryThatIsLoadedLaterAndCallsNccl) {
  for (const char* binding : {"lazy", "now"}) {
    const std::string library = "library=" + kPrograms + "/libnccl_user_" + binding + ".so";
    expect_caught({"opener", library}, preloaded_);
    expect_caught({"opener", "nccl=" + kNccl, library}, preloaded_);
  }
}

TEST_F(Interposition, AmemOpenedBeforeOrAfterNccl) {
  for (const char* amem : {"amem", "amem-global"}) {
    const std::string open_amem = std::string(amem) + "=" + kEngine;
    expect_caught({"opener", open_amem, "nccl=libnccl.so.2"}, plain_);
    expect_caught({"opener", "nccl=libnccl.so.2", open_amem}, plain_);
    for (const char* binding : {"lazy", "now"}) {
      const std::string library = "library=" + kPrograms + "/libnccl_user_" + binding + ".so";
      expect_caught({"opener", library, open_amem}, plain_);
    }
  }
}

TEST_F(Interposition, AmemOpenedAfterTheFirstCommunicatorRefusesToPause) {
  const Ended ended =
      run({"opener", "nccl=libnccl.so.2", "communicators", "amem=" + kEngine}, plain_);

  EXPECT_NE(ended.output.find("pause: 5 ncclPause failed: "), std::string::npos) << ended.output;
  EXPECT_NE(
      ended.output.find("amem was loaded after NCCL had been initialized; import amem before"),
      std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("after: right"), std::string::npos) << "the job goes on";
}

// The loader stores the function that it has bound, whatever a scan has stored meanwhile.
TEST_F(Interposition, SlotThatAnotherThreadBoundDuringAScanIsPatchedAgainAtAPause) {
  const Ended ended = run({"opener", "nccl=" + kNccl, "communicators", "bind-late"}, preloaded_);

  EXPECT_EQ(ended.output, std::string("pause: 0\nresume: 0\n") + kCaught) << ended.errors;
}

// A library among those that were not looked at may call NCCL past amem.
TEST_F(Interposition, MoreImagesThanCanBeRememberedRefuseThePause) {
  std::filesystem::copy_file(kPrograms + "/tiny/libtiny.so", machine_ / "libtiny.so");

  const Ended ended = run({"opener", "nccl=libnccl.so.2", "images=" + machine_.string(),
                           "amem=" + kEngine, "communicators", "pause"},
                          plain_);

  EXPECT_EQ(ended.output.find("pause: 5 ncclPause failed: this process has loaded more "
                              "libraries than amem can look at"),
            0u)
      << ended.output << ended.errors;
  EXPECT_NE(ended.output.find("after: right"), std::string::npos) << ended.output;
}

// Nobody sees what it does.
TEST_F(Interposition, NcclInANamespaceOfItsOwnRefusesThePause) {
  const Ended ended = run({"opener", "nccl=" + kNccl, "namespace=" + kNccl, "pause"}, preloaded_);

  EXPECT_EQ(ended.output.find("pause: 5 ncclPause failed: " + kNccl +
                              " was loaded into a namespace of its own (dlmopen)"),
            0u)
      << ended.output << ended.errors;
}

TEST_F(Interposition, TwoNcclLibrariesInOneProcess) {
  const std::filesystem::path copy = machine_ / "libnccl-of-another-package.so.2";
  std::filesystem::copy_file(kNccl, copy);

  const Ended ended = run({"opener", "nccl=" + kNccl, "again=" + copy.string()}, preloaded_);

  EXPECT_EQ(ended.output, std::string("second: right\n") + kCaught) << ended.errors;
}

TEST_F(Interposition, WorkByAnUnknownFunctionPassesAndRefusesThePause) {
  const Ended ended = run({"opener", "nccl=" + kNccl, "unknown"}, preloaded_);

  EXPECT_NE(ended.output.find("unknown: 0\nbefore: right\n"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("NCCL work was started by a call that does not pass amem's gate"),
            std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("after: right"), std::string::npos);
}

// Nobody would see what they do while they are paused.
TEST_F(Interposition, CommunicatorsMadeByPointersFromBeforeAmemRefuseThePause) {
  const Ended ended =
      run({"opener", "nccl=" + kNccl, "functions", "amem=" + kEngine, "communicators", "pause"},
          plain_);

  EXPECT_EQ(
      ended.output.find("pause: 5 ncclPause failed: NCCL work was started by a call that does "
                        "not pass amem's gate"),
      0u)
      << ended.output;
  EXPECT_NE(ended.output.find("after: right"), std::string::npos) << ended.output;
}

TEST_F(Interposition, WrappersOfOthersAreUnharmed) {
  for (const std::string& preload : {kPrograms + "/libnccl_wrapper.so:" + kEngine,
                                     kEngine + ":" + kPrograms + "/libnccl_wrapper.so"}) {
    const Ended ended =
        run({"linked_lazy", "calls"}, {"LD_PRELOAD=" + preload, "AMEM_ENABLE=1", kLibraryPath});
    EXPECT_EQ(ended.output, std::string(kCaught) + "wrapper: 6 calls\n") << preload << ended.errors;
  }
}

TEST_F(Interposition, NcclLibrariesThatAreLinkedWithTheirCudaRuntimes) {
  const Ended ended = run({"entry_points", kPrograms + "/libfake_dynamic_nccl.so",
                           kPrograms + "/libfake_dynamic_nccl_other.so"},
                          preloaded_);

  std::string expected;
  for (const std::string runtime : {"libfake_cudart.so", "libfake_cudart_other.so"})
    for (const std::string finder : {"find_by_version ", "find_newest "}) {
      expected += finder + "cuMemCreate: libamem_nccl.so\n";
      expected += finder + "cuMemGetInfo_v2: libcuda.so.1\n";
      expected += finder + "runtime: " + runtime + "\n";
    }
  EXPECT_EQ(ended.output, expected) << ended.errors;
}

TEST_F(Interposition, DisabledAmemChangesNothing) {
  const Ended without = run({"opener", "nccl=" + kNccl}, plain_);
  const Ended with = run({"opener", "nccl=" + kNccl}, {"LD_PRELOAD=" + kEngine, kLibraryPath});

  EXPECT_EQ(without.output, "before: right\nncclPause\n") << "the control: no such function";
  EXPECT_EQ(with.output, without.output);
  EXPECT_EQ(with.errors, without.errors);
}

TEST_F(Interposition, LibrariesThatComeAndGoWhileOthersCall) {
  // To load a library takes 0.2 s under qemu-user.
  const std::string rounds = std::to_string(4000 / (kSlowdown * kSlowdown));
  const Ended ended = run({"churn", rounds, kNccl, kPrograms + "/libnccl_user_lazy.so",
                           kPrograms + "/libnccl_user_now.so"},
                          preloaded_);

  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(ended.output, "done\n") << ended.errors;
}

}  // namespace
}  // namespace amem
