// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "sharing/exchange.h"
#include "sharing/exports.h"
#include "sharing/imports.h"
#include "sharing/local_members.h"

namespace amem {

/// Sharing of memory with other processes: passes messages to the owner's and the importer's side,
/// and implements export and import for clients. The service starts before the first communicator
/// is created, or with the first allocation that is shared.
class Sharing final : public Exchange, public PeerHandler {
 public:
  /// What the `amem` command asks of this process: its status, or whose its memory is.
  using StatusText = std::function<std::string(bool attribution)>;

  /// Idle host memory of this process, for others: HostPool::Offer.
  using Offer = std::function<std::vector<UniqueFd>(size_t wanted_bytes, int numa_node)>;

  /// Pauses or resumes this process; must not wait. `from`: the pid of who requests it.
  using AnswerControl = std::function<ControlReply(const Control& request, pid_t from)>;

  Sharing(ProcessContext& context, StatusText status, Offer offer = nullptr,
          AnswerControl control = nullptr)
      : context_(context),
        exports_(context),
        imports_(context),
        status_(std::move(status)),
        offer_(std::move(offer)),
        control_(std::move(control)) {}

  Exports& exports() { return exports_; }
  Imports& imports() { return imports_; }

  // Exchange, called by clients.
  Result<int> make_token(Allocation& allocation) override AMEM_REQUIRES(context_.registry.mutex);
  bool import_token(int fd, DriverHandle* handle, DriverResult* result) override;
  Result<IpcHandleBytes> make_ipc_handle(Allocation& allocation) override
      AMEM_REQUIRES(context_.registry.mutex);
  std::optional<Result<DriverHandle>> import_ipc_handle(const IpcHandleBytes& bytes) override;
  std::optional<Result<IpcHandleBytes>> make_fabric_handle(Allocation& allocation) override
      AMEM_REQUIRES(context_.registry.mutex);
  void join(const ScopeId& scope, int members, int member) override;
  std::string processes_without_amem(const char* library) override;
  void start_service() override;
  void request_resume(const InstanceId& process, const Tag& tag) override;
  void wake_imports() override { imports_.wake(); }
  void forget(const Allocation& import) override AMEM_REQUIRES(context_.registry.mutex);

  /// Gives processes that have the returned handle a copy of a descriptor of the driver that is not
  /// an allocation's, until it is withdrawn. Error of a withdrawal: misuse, for another handle.
  Result<IpcHandleBytes> offer_descriptor(UniqueFd descriptor);
  Status withdraw_descriptor(const IpcHandleBytes& handle);
  /// The descriptor that another process offers. May wait for it, up to AMEM_TIMEOUT_MS; called
  /// without a lock. Errors: protocol, for another handle; those of a request.
  Result<UniqueFd> take_descriptor(const IpcHandleBytes& handle);

  // PeerHandler, called on the service thread.
  void on_message(const PeerInfo& from, uint64_t request_id, Received received) override;
  void on_peer_gone(const PeerInfo& peer) override;
  bool needs_end_of(const PeerInfo& peer) override;

  /// Requests idle host memory from all amem processes of this user on this host. Waits for a
  /// moment at most: a process that does not answer in time offers nothing.
  std::vector<UniqueFd> ask_for_host_memory(size_t wanted_bytes, int numa_node);

  /// Starts threads that a pause will need.
  Status start();

 private:
  /// Where processes of other hosts reach this one; nothing without a job's key.
  std::optional<HostAddress> host_address();
  /// Makes the owner of a handle reachable, which may be on another host. Errors: driver, without a
  /// job's key.
  Status locate(const IpcHandle& of_peer);
  /// The service thread may receive a message before start() has stored the service.
  void wait_until_started();

  ProcessContext& context_;
  Exports exports_;             // allow: locks itself
  Imports imports_;             // allow: locks itself
  LocalMembers local_members_;  // allow: locks itself
  const StatusText status_;
  const Offer offer_;
  const AnswerControl control_;
  Mutex start_mutex_;  // for one start at a time; what starts is atomic
  /// The result of the first host_address().
  std::optional<std::optional<HostAddress>> host_address_ AMEM_GUARDED_BY(start_mutex_);
};

}  // namespace amem
