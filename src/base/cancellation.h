// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

namespace amem {

/// While it exists, pthread_cancel(3) does not end the calling thread, which would leave locks held
/// and changes half made. A request stays pending, and takes effect in the application's code.
class [[nodiscard]] NoCancellation {
 public:
  NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  /// With PTHREAD_CANCEL_ASYNCHRONOUS, a pending request ends the thread here.
  ~NoCancellation() noexcept(false) { pthread_setcancelstate(before_, nullptr); }
  NoCancellation(const NoCancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace amem
