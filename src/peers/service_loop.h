// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>

#include "peers/fd_ledger.h"
#include "peers/mailbox.h"
#include "peers/peer_directory.h"
#include "peers/peer_links.h"
#include "peers/peer_options.h"
#include "peers/pending_calls.h"

namespace amem {

/// What the service thread does: waits for sockets, orders and deadlines, one round after another.
/// Everything in it belongs to that thread, but for post(), stop(), ledger() and directory().
class ServiceLoop {
 public:
  /// Listens at once; run() answers. Errors: os.
  static Result<std::unique_ptr<ServiceLoop>> create(const Hello& self, PeerHandler& handler,
                                                     PeerOptions options);

  /// Other processes do not find this one any more.
  void withdraw();
  ~ServiceLoop() { withdraw(); }

  /// Until stop(). What is pending then is completed with misuse.
  void run();
  void stop() { mailbox_->stop(); }
  void post(Order order) { mailbox_->post(std::move(order)); }

  FdLedger& ledger() { return ledger_; }
  const PeerDirectory& directory() const { return directory_; }
  /// True on the thread that is in run().
  bool on_its_thread() const;

 private:
  ServiceLoop(const Hello& self, PeerHandler& handler, PeerOptions options);
  Status open();
  int wait_ms() const;
  void accept_some();
  void watch_listener();
  void carry_out(Order order);
  void call(Order order);

  FdLedger ledger_;
  const Hello self_;
  PeerHandler& handler_;
  const PeerOptions options_;
  PeerDirectory directory_;
  PendingCalls calls_;
  std::optional<TrackedFd> epoll_;
  std::optional<TrackedFd> listener_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<PeerLinks> links_;
  bool listening_ = true;
  std::optional<Deadline> accept_again_;
  uint64_t next_request_id_ = 1;
  std::atomic<pid_t> thread_{0};
};

}  // namespace amem
