// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/background_loop.h"

#include <stdexcept>

namespace jobs {

void BackgroundLoop::start(Communicator& communicator, Context context, size_t count) {
  error_.clear();
  rounds_ = 0;
  finish_ = false;
  thread_ = std::thread([this, &communicator, context, count] {
    try {
      JOB_CUDA(set_current(context));
      do {
        communicator.all_reduce(count);
        ++rounds_;
      } while (communicator.sum(finish_ ? 1 : 0) == 0);
    } catch (const std::exception& error) {
      error_ = error.what();
    }
  });
}

long BackgroundLoop::finish() {
  finish_ = true;
  thread_.join();
  if (!error_.empty()) throw std::runtime_error(error_);
  return rounds_;
}

}  // namespace jobs
