// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/driver.h"

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <string>

#include "base/deadline.h"

namespace amem::symmetric {
namespace {

constexpr int kCaptureModeRelaxed = 2;      // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr int kOutOfMemory = 2;             // CUDA_ERROR_OUT_OF_MEMORY
constexpr unsigned kStreamNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

/// The amemError_t for each ErrorKind.
constexpr int kResults[] = {amemErrorCuda,        amemErrorSystem,  amemErrorInternal,
                            amemErrorPeer,        amemErrorTimeout, amemErrorInvalidUsage,
                            amemErrorInvalidUsage};
static_assert(static_cast<int>(ErrorKind::peer) == 3 &&
              static_cast<int>(ErrorKind::unsupported) + 1 == std::size(kResults));

}  // namespace

Result<Driver> load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return make_error(ErrorKind::unsupported, 0, "%s", dlerror());
  Driver driver;
#define AMEM_SYMMETRIC_FUNCTION(symbol, parameters)                                   \
  driver.symbol = reinterpret_cast<decltype(driver.symbol)>(dlsym(library, #symbol)); \
  if (driver.symbol == nullptr)                                                       \
    return make_error(ErrorKind::unsupported, 0,                                      \
                      "libcuda.so.1 has no " #symbol ": update the CUDA driver to 12.2 or newer");
#include "symmetric/driver_functions.def"
#undef AMEM_SYMMETRIC_FUNCTION
  return driver;
}

Status driver_status(const Driver& driver, DriverResult code, const char* format, ...) {
  if (code == 0) return ok_status();
  char call[512];
  va_list args;
  va_start(args, format);
  vsnprintf(call, sizeof call, format, args);
  va_end(args);
  const char* name = nullptr;
  if (driver.cuGetErrorName(code, &name) != 0 || name == nullptr) name = "an unknown driver error";
  return make_error(ErrorKind::driver, code, "%s failed: %s (%d)", call, name, code);
}

OwnStream::OwnStream(const Driver& driver)
    : driver_(driver), capture_mode_(kCaptureModeRelaxed), created_(ok_status()) {
  created_ = driver_status(driver_, driver_.cuThreadExchangeStreamCaptureMode(&capture_mode_),
                           "cuThreadExchangeStreamCaptureMode()");
  if (created_.ok())
    created_ = driver_status(driver_, driver_.cuStreamCreate(&stream_, kStreamNonBlocking),
                             "cuStreamCreate()");
}

OwnStream::~OwnStream() {
  if (stream_ != nullptr) driver_.cuStreamDestroy_v2(stream_);
  if (capture_mode_ != kCaptureModeRelaxed)
    driver_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
}

Status OwnStream::zero(DeviceAddress address, size_t size_bytes) {
  AMEM_TRY(Status(created_));
  return driver_status(driver_, driver_.cuMemsetD32Async(address, 0, size_bytes / 4, stream_),
                       "cuMemsetD32Async(%zu words)", size_bytes / 4);
}

Status OwnStream::write(DeviceAddress address, const void* from, size_t size_bytes) {
  AMEM_TRY(Status(created_));
  return driver_status(driver_, driver_.cuMemcpyHtoDAsync_v2(address, from, size_bytes, stream_),
                       "cuMemcpyHtoDAsync(%zu bytes)", size_bytes);
}

Status OwnStream::wait(long timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  DriverResult state = kNotReady;
  while ((state = driver_.cuStreamQuery(stream_)) == kNotReady && !deadline.passed()) {
    constexpr timespec kMoment{0, 20'000};
    nanosleep(&kMoment, nullptr);
  }
  if (state != kNotReady) return driver_status(driver_, state, "cuStreamQuery()");
  return make_error(ErrorKind::timeout, 0, "the device has not written the workspace in %ld ms",
                    timeout_ms);
}

// "amemMalloc failed: cuMemCreate(...) failed: ..." without the name of the call: the caller's own
// is set later.
Status amem_status(int result) {
  if (result == 0) return ok_status();
  const bool lacks_memory = result == amemErrorOutOfMemory;
  const auto* const found = std::find(std::begin(kResults), std::end(kResults), result);
  const ErrorKind kind = lacks_memory                  ? ErrorKind::driver
                         : found == std::end(kResults) ? ErrorKind::misuse
                                                       : static_cast<ErrorKind>(found - kResults);
  const std::string text = amemGetLastError();
  constexpr std::string_view kFailed = " failed: ";
  const size_t name_end = text.find(kFailed);
  return Error{kind, lacks_memory ? kOutOfMemory : 0,
               name_end == text.npos ? text : text.substr(name_end + kFailed.size())};
}

int result_of(const Error& error) {
  const bool lacks_memory = error.kind == ErrorKind::driver && error.code == kOutOfMemory;
  return lacks_memory ? amemErrorOutOfMemory : kResults[static_cast<int>(error.kind)];
}

}  // namespace amem::symmetric
