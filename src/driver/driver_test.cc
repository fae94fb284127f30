// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/driver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/support/driver_functions.h"

namespace amem {
namespace {

constexpr char kName[] = "libcuda.so.1";

/// Loads one of the small drivers of testdata/. All have the name libcuda.so.1 in them, so the
/// loader takes the one that is loaded for it. Where none is, it finds a file that is no library:
/// the program's own search path has it before any real driver (CMakeLists.txt).
class LoadDriver : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(loaded(), nullptr) << "another libcuda.so.1 is loaded"; }
  ~LoadDriver() override {
    // load_driver() keeps the library, so one test's would be the next one's.
    for (void* library = loaded(); library != nullptr; library = loaded()) {
      dlclose(library);
      dlclose(library);
    }
  }
  static void* loaded() { return dlopen(kName, RTLD_LAZY | RTLD_NOLOAD); }
  void load(const std::string& variant) {
    const std::string path = AMEM_TEST_DRIVERS "/lib" + variant + ".so";
    ASSERT_NE(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL), nullptr) << dlerror();
  }
};

TEST_F(LoadDriver, CompleteDriverOfTheOldestVersionIsTakenWithAllItsFunctions) {
  load("complete_driver");

  const Result<Driver> driver = load_driver();

  ASSERT_TRUE(driver.ok()) << driver.error().message;
  void* const library = loaded();
#define AMEM_DRIVER_FUNCTION(name, symbol, since, handling, parameters) \
  EXPECT_NE(driver.value().symbol, nullptr) << #symbol;                 \
  EXPECT_EQ(reinterpret_cast<void*>(driver.value().symbol), dlsym(library, #symbol));
#include "driver/functions.def"
#undef AMEM_DRIVER_FUNCTION
  dlclose(library);
}

// It lacks a function too: the version is what the user can act on.
TEST_F(LoadDriver, OlderDriverIsRefusedByItsVersion) {
  load("old_driver");

  const Result<Driver> driver = load_driver();

  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(driver.error().message,
            "the CUDA driver supports CUDA 12.1, but amem needs CUDA 12.2 or newer: update the "
            "driver");
}

TEST_F(LoadDriver, FunctionThatIsMissingIsNamed) {
  load("lacking_driver");

  const Result<Driver> driver = load_driver();

  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(driver.error().message,
            "libcuda.so.1 has no cuMulticastBindMem, which every CUDA driver from 12.2 on has");
}

TEST_F(LoadDriver, LibraryWithoutAVersionIsNoDriver) {
  load("nameless_driver");

  const Result<Driver> driver = load_driver();

  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::unsupported);
  EXPECT_NE(driver.error().message.find("has no cuDriverGetVersion"), std::string::npos)
      << driver.error().message;
}

// The toolkit's stub, for linking only, answers every call with CUDA_ERROR_STUB_LIBRARY (34).
TEST_F(LoadDriver, StubThatCannotTellItsVersionIsRefused) {
  load("stub_driver");

  const Result<Driver> driver = load_driver();

  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::driver);
  EXPECT_EQ(driver.error().code, 34);
  EXPECT_NE(driver.error().message.find("cuDriverGetVersion() failed"), std::string::npos)
      << driver.error().message;
}

TEST_F(LoadDriver, MissingDriverSaysWhatToDo) {
  const Result<Driver> driver = load_driver();

  ASSERT_FALSE(driver.ok());
  EXPECT_EQ(driver.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(driver.error().message.find("the CUDA driver is missing ("), 0u);
  EXPECT_NE(driver.error().message.find("libcuda.so.1: "), std::string::npos)
      << driver.error().message;
  EXPECT_NE(driver.error().message.find("set LD_LIBRARY_PATH"), std::string::npos);
}

TEST(DriverFunctions, OnlyAWatchedRowIsNewerThanTheOldestVersion) {
  for (const DriverFunction& function : kDriverFunctions) {
    // A wrapper is handed out only for what the driver has.
    if (function.handling == Handling::watched) continue;
    // Wrappers alone call them.
    if (std::string_view(function.symbol).starts_with("cuLogicalEndpointBind")) continue;
    EXPECT_LE(function.since, kOldestCuda) << function.symbol << " may be null: look at its users";
  }
}

class DriverErrorTest : public testing::Test {
 protected:
  DriverErrorTest() {
    driver_.cuGetErrorName = [](DriverResult code, const char** name) {
      *name = code == driver_result::kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : nullptr;
      return *name == nullptr ? driver_result::kInvalidValue : driver_result::kSuccess;
    };
  }
  Driver driver_;
};

TEST_F(DriverErrorTest, NamesTheCallAndTheResult) {
  const Error error = driver_
                          .check(driver_result::kOutOfMemory, "cuMemCreate(%zu bytes, device %d)",
                                 size_t{2} << 20, 0)
                          .error();

  EXPECT_EQ(error.kind, ErrorKind::driver);
  EXPECT_EQ(error.code, driver_result::kOutOfMemory);
  EXPECT_EQ(error.message,
            "cuMemCreate(2097152 bytes, device 0) failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
}

TEST_F(DriverErrorTest, ResultWithoutANameKeepsItsNumber) {
  const std::string expected = "cuMemUnmap() failed: an unknown driver error (4242)";
  EXPECT_EQ(driver_.check(4242, "cuMemUnmap()").error().message, expected);

  driver_.cuGetErrorName = [](DriverResult, const char**) { return driver_result::kSuccess; };
  EXPECT_EQ(driver_.check(4242, "cuMemUnmap()").error().message, expected);

  driver_.cuGetErrorName = nullptr;
  EXPECT_EQ(driver_.check(4242, "cuMemUnmap()").error().message, expected);
}

TEST_F(DriverErrorTest, LongCallIsCutButTheResultStays) {
  const std::string call(2000, 'x');

  const std::string message =
      driver_.check(driver_result::kOutOfMemory, "%s", call.c_str()).error().message;

  EXPECT_EQ(message.substr(0, 100), call.substr(0, 100));
  EXPECT_NE(message.find("x failed: CUDA_ERROR_OUT_OF_MEMORY (2)"), std::string::npos);
}

}  // namespace
}  // namespace amem
