// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace amem {

Result<std::unique_ptr<Mailbox>> Mailbox::create(FdLedger& ledger) {
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return os_error(errno, "eventfd()");
  return std::unique_ptr<Mailbox>(new Mailbox(TrackedFd(ledger, std::move(event))));
}

void Mailbox::ring() {
  const uint64_t one = 1;
  // Fails only when the counter is at its end, and then it is readable already (eventfd(2)).
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

void Mailbox::post(Order order) {
  bool first;
  {
    MutexLock lock(mutex_);
    first = orders_.empty();
    orders_.push_back(std::move(order));
  }
  if (first) ring();
}

void Mailbox::stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  ring();
}

std::vector<Order> Mailbox::take() {
  // Cleared before the orders are taken: one posted in between rings again for nothing, and none is
  // left lying without a ring.
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof count);
  MutexLock lock(mutex_);
  return std::exchange(orders_, {});
}

bool Mailbox::stopped() const {
  MutexLock lock(mutex_);
  return stopped_;
}

}  // namespace amem
