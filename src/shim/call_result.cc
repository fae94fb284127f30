// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/call_result.h"

#include "amem_nccl_abi.h"
#include "base/log.h"
#include "base/mutex.h"

namespace amem {
namespace {

struct LastError {
  Mutex mutex;
  std::string text AMEM_GUARDED_BY(mutex);
};

LastError& last_error() {
  static LastError* const instance = new LastError;
  return *instance;
}

thread_local bool t_refused = false;

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
  MutexLock lock(last_error().mutex);
  last_error().text = std::string(call) + " failed: " + error.message;
  return result_for(error.kind);
}

const char* last_error_text() {
  static thread_local std::string copy;
  MutexLock lock(last_error().mutex);
  copy = last_error().text;
  return copy.c_str();
}

bool last_call_was_refused() { return t_refused; }

void note_call_passed() { t_refused = false; }

}  // namespace amem
