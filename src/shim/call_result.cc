// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/call_result.h"

#include <atomic>
#include <memory>

#include "amem_nccl_abi.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_value.h"

namespace amem {
namespace {

struct LastError {
  Mutex mutex;
  std::string text AMEM_GUARDED_BY(mutex);
};

std::atomic<LastError*> g_last_error{nullptr};

LastError& last_error() {
  static LastError* const first = new LastError;
  LastError* const later = g_last_error.load(std::memory_order_acquire);
  return later != nullptr ? *later : *first;
}

ncclResult_t result_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::driver:
      return ncclUnhandledCudaError;
    case ErrorKind::os:
    case ErrorKind::timeout:
      return ncclSystemError;
    case ErrorKind::protocol:
      return ncclInternalError;
    case ErrorKind::peer:
      return ncclRemoteError;
    case ErrorKind::misuse:
    case ErrorKind::unsupported:
      return ncclInvalidUsage;
  }
  return ncclInternalError;
}

}  // namespace

int report_error(const char* call, const Error& error) {
  AMEM_LOG(warn, -1, "%s failed: %s", call, error.message.c_str());
  t_refused = true;
  LastError& last = last_error();
  MutexLock lock(last.mutex);
  last.text = std::string(call) + " failed: " + error.message;
  return result_for(error.kind);
}

const char* last_error_text() {
  struct Copy {
    std::string text;
  };
  std::string& copy = thread_value<Copy>().text;
  LastError& last = last_error();
  MutexLock lock(last.mutex);
  copy = last.text;
  return copy.c_str();
}

void unlock_error_text_after_fork() {
  g_last_error.store(std::make_unique<LastError>().release(), std::memory_order_release);
}

}  // namespace amem
