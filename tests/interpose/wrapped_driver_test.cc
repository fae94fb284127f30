// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Driver functions that only dlsym() wraps, one or two of those that amem hooks: NCCL gets them by
// cuGetProcAddress() in a form that amem does not know. The job works, and its pauses are refused.
#include "tests/interpose/interposition.h"

namespace amem {
namespace {

/// Those that minccl looks up.
constexpr const char* kFunctions[] = {"cuMemCreate",
                                      "cuMemRelease",
                                      "cuMemGetAllocationGranularity",
                                      "cuMemAddressReserve",
                                      "cuMemAddressFree",
                                      "cuMemMap",
                                      "cuMemUnmap",
                                      "cuMemSetAccess",
                                      "cuMemExportToShareableHandle",
                                      "cuMemImportFromShareableHandle",
                                      "cuMemRetainAllocationHandle",
                                      "cuMemGetAllocationPropertiesFromHandle",
                                      "cuMemGetAddressRange_v2",
                                      "cuMulticastBindMem",
                                      "cuMulticastUnbind"};

class WrappedDriver : public Interposition, public testing::WithParamInterface<const char*> {
 protected:
  void expect_works_and_refuses(const std::string& wrapped) {
    const Ended ended = run({"linked_now", "calls"},
                            {"LD_PRELOAD=" + kPrograms + "/libdlsym_wrapper.so:" + kEngine,
                             "AMEM_ENABLE=1", "AMEM_TEST_WRAPPED=" + wrapped, kLibraryPath});
    EXPECT_EQ(ended.status, 0) << wrapped << ended.errors;
    std::string output = ended.output;
    const size_t reason = output.find("a look-up of cuM"), end = output.find("\nresume", reason);
    ASSERT_NE(end, std::string::npos) << wrapped << output << ended.errors;
    const std::string text = output.substr(reason, output.find('\n', reason) - reason);
    EXPECT_NE(text.find(" returned a function that this version of amem does not know"),
              std::string::npos)
        << wrapped << text;
    output.replace(reason, text.size(), "...");
    EXPECT_EQ(output,
              "before: right\nactive: nothing is known\npause: 5 ncclPause failed: ...\n"
              "paused: nothing is known\ncall while paused: 0\nresume: 0\nafter: right\n")
        << wrapped << ended.errors;
  }
};

/// The function alone, and with each that follows it.
TEST_P(WrappedDriver, JobWorksAndPausesAreRefused) {
  const std::string first = GetParam();
  expect_works_and_refuses(first);
  bool follows = false;
  for (const char* const second : kFunctions) {
    if (follows) expect_works_and_refuses(first + "," + second);
    follows |= first == second;
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, WrappedDriver, testing::ValuesIn(kFunctions),
                         [](const auto& function) { return std::string(function.param); });

TEST_F(Interposition, WrapperOfDlsymThatWrapsNothingOfTheDriverChangesNothing) {
  const Ended ended =
      run({"linked_now", "calls"}, {"LD_PRELOAD=" + kPrograms + "/libdlsym_wrapper.so:" + kEngine,
                                    "AMEM_ENABLE=1", kLibraryPath});
  EXPECT_EQ(ended.output, kCaught) << ended.errors;
}

}  // namespace
}  // namespace amem
