// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "driver/device_work.h"

#include <poll.h>

#include <atomic>
#include <utility>
#include <vector>

#include "base/cancellation.h"
#include "base/log.h"
#include "driver/work_contexts.h"

namespace amem {
namespace {

// amem takes one reference to each primary context and never releases it: a release at exit would
// be a driver call after exit has begun.
std::atomic<DriverContext> g_primary[kMaxDevices];
std::atomic<uint64_t> g_primary_id[kMaxDevices];

/// False if the context has ended. After a reset its handle is the same, and its id another
/// (measured: H100, driver 580.159.04).
Result<bool> note_primary(const Driver& driver, int device, DriverContext context) {
  unsigned long long id = 0;
  const DriverResult result = driver.cuCtxGetId(context, &id);
  if (result == driver_result::kContextIsDestroyed) return false;
  AMEM_TRY(driver.check(result, "cuCtxGetId(device %d)", device));
  g_primary_id[device] = id;
  return true;
}

Result<DriverContext> primary_context(const Driver& driver, int device) {
  if (device < 0 || device >= kMaxDevices)
    return unsupported_error("device %d is over the limit of %d", device, kMaxDevices);
  DriverContext context = g_primary[device].load(std::memory_order_acquire);
  if (context != nullptr && AMEM_TRY(note_primary(driver, device, context))) return context;
  unsigned flags = 0;
  int active = 0;
  AMEM_TRY(driver.check(driver.cuDevicePrimaryCtxGetState(device, &flags, &active),
                        "cuDevicePrimaryCtxGetState(%d)", device));
  if (active == 0) {
    std::vector<DriverContext> created = work_contexts_of(device);
    std::erase(created, context);  // the primary one, which has ended
    if (!created.empty())
      return misuse_error(
          "work runs on device %d in a context of cuCtxCreate(), but its primary "
          "context, in which amem works, is not active: call cudaFree(0) first",
          device);
    return unsupported_error("device %d has no active primary context", device);
  }
  AMEM_TRY(driver.check(driver.cuDevicePrimaryCtxRetain(&context, device),
                        "cuDevicePrimaryCtxRetain(%d)", device));
  g_primary[device].store(context, std::memory_order_release);
  AMEM_TRY(note_primary(driver, device, context));
  return context;
}

Status make_current(const Driver& driver, int device, DriverContext context) {
  return driver.check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent(device %d)", device);
}

/// How a device is waited for. Known after the first wait of the process.
enum class WaitMethod { unknown, free_pinned, synchronize };
constinit std::atomic<WaitMethod> g_method{WaitMethod::unknown};

/// Work of 2 ms in a stream of its own, by which wait_for_device() sees whether a call has waited.
class TestWork {
 public:
  TestWork(const Driver& driver, const ExitFlag& exiting) : driver_(driver), exiting_(exiting) {
    constexpr int kMs = 2;
    const auto work = [](void*) { (void)poll(nullptr, 0, kMs); };
    if (driver_.cuStreamCreate(&stream_, kStreamNonBlocking) != driver_result::kSuccess)
      stream_ = nullptr;
    is_queued_ = stream_ != nullptr &&
                 driver_.cuLaunchHostFunc(stream_, work, nullptr) == driver_result::kSuccess;
  }
  ~TestWork() {
    if (exiting_) return;
    if (is_queued_) (void)driver_.cuStreamSynchronize(stream_);
    if (stream_ != nullptr) (void)driver_.cuStreamDestroy_v2(stream_);
  }
  TestWork(const TestWork&) = delete;

  /// What the call that was made in the meantime has shown.
  WaitMethod seen() const {
    if (!is_queued_) return WaitMethod::unknown;
    const DriverResult result = driver_.cuStreamQuery(stream_);
    if (result == driver_result::kNotReady) return WaitMethod::synchronize;
    return result == driver_result::kSuccess ? WaitMethod::free_pinned : WaitMethod::unknown;
  }

 private:
  const Driver& driver_;
  const ExitFlag& exiting_;
  DriverStream stream_ = nullptr;
  bool is_queued_ = false;
};

Status synchronize(const Driver& driver, int device) {
  return driver.check(driver.cuCtxSynchronize(), "cuCtxSynchronize() on device %d", device);
}

Status allocate_pinned(const Driver& driver, const ExitFlag& exiting, int device, void** piece) {
  constexpr size_t kBytes = 64;
  AMEM_TRY(exiting.check());
  if (*piece != nullptr) return ok_status();
  return driver.check(driver.cuMemHostAlloc(piece, kBytes, 0),
                      "cuMemHostAlloc() to wait for the work of device %d", device);
}

Status free_pinned(const Driver& driver, const ExitFlag& exiting, int device, void** piece) {
  AMEM_TRY(exiting.check());
  AMEM_TRY(driver.check(driver.cuMemFreeHost(*piece),
                        "cuMemFreeHost() to wait for the work of device %d", device));
  *piece = nullptr;
  return ok_status();
}

/// Waits for the work of the current context, the primary one of the device.
Status wait_for_primary(const Driver& driver, const ExitFlag& exiting, int device) {
  // The driver allocates pinned memory from blocks. To create or free a block it takes a lock that
  // kernel launches need. One allocation is therefore kept, so that its block is kept too. The
  // other is allocated and freed at each call; if freeing it failed, the next call frees it.
  static constinit thread_local void* t_kept = nullptr;
  static constinit thread_local void* t_freed = nullptr;
  const WaitMethod method = g_method;
  if (method == WaitMethod::synchronize) return synchronize(driver, device);
  for (void** const piece : {&t_kept, &t_freed})
    AMEM_TRY(allocate_pinned(driver, exiting, device, piece));
  if (method == WaitMethod::free_pinned) return free_pinned(driver, exiting, device, &t_freed);
  // After the allocations, which may take longer than the work.
  const TestWork test(driver, exiting);
  const bool tests = test.seen() == WaitMethod::synchronize;
  AMEM_TRY(free_pinned(driver, exiting, device, &t_freed));
  AMEM_TRY(exiting.check());
  const WaitMethod seen = tests ? test.seen() : WaitMethod::unknown;
  g_method = seen;
  if (seen != WaitMethod::synchronize) return ok_status();
  AMEM_LOG(warn, device,
           "this driver does not wait when pinned memory is freed; amem waits with "
           "cuCtxSynchronize(), which invalidates captures of CUDA graphs");
  return synchronize(driver, device);
}

/// The same for a context that the application has made.
Status wait_for_created(const Driver& driver, const ExitFlag& exiting, int device,
                        DriverContext context) {
  AMEM_TRY(exiting.check());
  // Not by making it current: with a destroyed context that corrupts the process's memory
  // (measured: H200, driver 580.159.04).
  unsigned version = 0;
  const DriverResult found = driver.cuCtxGetApiVersion(context, &version);
  if (found == driver_result::kInvalidContext || found == driver_result::kContextIsDestroyed) {
    forget_work_context(context);
    return ok_status();
  }
  AMEM_TRY(driver.check(found, "cuCtxGetApiVersion() on device %d", device));
  AMEM_TRY(driver.check(driver.cuCtxSetCurrent(context),
                        "cuCtxSetCurrent(a context of cuCtxCreate() on device %d)", device));
  void* piece = nullptr;
  Status status = g_method == WaitMethod::synchronize
                      ? synchronize(driver, device)
                      : allocate_pinned(driver, exiting, device, &piece);
  if (piece != nullptr) status = free_pinned(driver, exiting, device, &piece);
  if (!status.ok() && status.error().code == driver_result::kContextIsDestroyed) {
    forget_work_context(context);
    return ok_status();
  }
  return status;
}

}  // namespace

uint64_t primary_context_id(int device) { return g_primary_id[device]; }

Status in_device_context(const Driver& driver, int device, const std::function<Status()>& job) {
  DriverContext const context = AMEM_TRY(primary_context(driver, device));
  AMEM_TRY(make_current(driver, device, context));
  int mode = kCaptureModeRelaxed;
  AMEM_TRY(driver.check(driver.cuThreadExchangeStreamCaptureMode(&mode),
                        "cuThreadExchangeStreamCaptureMode(relaxed)"));
  return job();
}

Status visit_device_context(const Driver& driver, int device, const std::function<Status()>& job) {
  const NoCancellation no_cancellation;
  DriverContext before = nullptr;
  int mode = kCaptureModeRelaxed;
  AMEM_TRY(driver.check(driver.cuCtxGetCurrent(&before), "cuCtxGetCurrent()"));
  AMEM_TRY(driver.check(driver.cuThreadExchangeStreamCaptureMode(&mode),
                        "cuThreadExchangeStreamCaptureMode(relaxed)"));
  Status status = [&]() -> Status {
    DriverContext const context = AMEM_TRY(primary_context(driver, device));
    if (context != before) AMEM_TRY(make_current(driver, device, context));
    return job();
  }();
  const Status current = make_current(driver, device, before);
  const Status captures = driver.check(driver.cuThreadExchangeStreamCaptureMode(&mode),
                                       "cuThreadExchangeStreamCaptureMode(back)");
  AMEM_TRY(std::move(status));
  AMEM_TRY(current);
  return captures;
}

Status wait_for_device(const Driver& driver, const ExitFlag& exiting, int device) {
  AMEM_TRY(exiting.check());
  AMEM_TRY(wait_for_primary(driver, exiting, device));
  std::vector<DriverContext> contexts = work_contexts_of(device);
  const DriverContext primary = g_primary[device];
  std::erase(contexts, primary);
  if (contexts.empty()) return ok_status();
  Status status = ok_status();
  for (DriverContext const context : contexts)
    if (status.ok()) status = wait_for_created(driver, exiting, device, context);
  if (exiting) return status;
  // The rest of the thread's job is for the primary one.
  const Status back = make_current(driver, device, primary);
  return status.ok() ? back : status;
}

Status wait_for_stream(const Driver& driver, const ExitFlag& exiting, int device,
                       DriverStream stream, const char* what) {
  AMEM_TRY(exiting.check());
  Status status =
      driver.check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize() after %s", what);
  if (status.ok()) return status;
  if (const Status idle = wait_for_device(driver, exiting, device); !idle.ok())
    AMEM_LOG(warn, device, "%s may still be running: %s", what, idle.error().message.c_str());
  return status;
}

}  // namespace amem
