// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/sharing.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "base/descriptor_limit.h"
#include "base/environment.h"
#include "base/log.h"
#include "sharing/process_names.h"
#include "sharing/replies.h"
#include "sharing/token.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

/// How long a pause waits for offers of host memory.
constexpr long kHostMemoryMs = 200;
/// Segments in one offer: each needs a descriptor in the process that has asked.
constexpr size_t kMaxOffered = 64;

}  // namespace

Status Sharing::start() {
  if (context_.peers.load(std::memory_order_acquire) != nullptr) return ok_status();
  MutexLock lock(start_mutex_);
  if (context_.peers.load() != nullptr) return ok_status();
  AMEM_TRY(imports_.start());
  std::unique_ptr<PeerService> service = AMEM_TRY(PeerService::start(context_.self, *this));
  // Lives as long as the process: other processes' memory depends on it.
  context_.peers.store(service.release(), std::memory_order_release);
  return ok_status();
}

// What exports_ and imports_ call context_ is ours.
AMEM_NOT_ANALYSED Result<int> Sharing::make_token(Allocation& allocation) {
  AMEM_TRY(start());
  context_.devices.prepare({allocation.device()});
  return exports_.make_token(allocation);
}

bool Sharing::import_token(int fd, DriverHandle* handle, DriverResult* result) {
  if (Status started = start(); !started.ok()) {
    AMEM_LOG(error, -1, "cannot reach other processes: %s", started.error().message.c_str());
    return false;
  }
  return imports_.import_token(fd, handle, result);
}

std::string Sharing::processes_without_amem(const char* library) {
  return amem::processes_without_amem(library);
}

AMEM_NOT_ANALYSED Result<IpcHandleBytes> Sharing::make_ipc_handle(Allocation& allocation) {
  AMEM_TRY(start());
  context_.devices.prepare({allocation.device()});
  return exports_.make_ipc_handle(allocation);
}

std::optional<Result<DriverHandle>> Sharing::import_ipc_handle(const IpcHandleBytes& bytes) {
  const std::optional<IpcHandle> of_peer = decode_ipc_handle(bytes);
  if (!of_peer.has_value()) return std::nullopt;
  AMEM_TRY(start());
  if (of_peer->address.port != 0 && of_peer->owner != context_.self) AMEM_TRY(locate(*of_peer));
  return imports_.import_ipc_handle(*of_peer);
}

Status Sharing::locate(const IpcHandle& of_peer) {
  if (host_address().has_value()) {
    context_.peers.load()->locate(of_peer.owner, of_peer.address);
    return ok_status();
  }
  if (access(socket_path(of_peer.owner).c_str(), F_OK) == 0) return ok_status();
  Error error = make_error(ErrorKind::driver, driver_result::kInvalidValue,
                           "cannot import a fabric handle of process %d at %s: AMEM_JOB_KEY is not "
                           "set in this process, or cannot be used",
                           of_peer.owner_pid, ip_text(of_peer.address).c_str());
  AMEM_LOG(error, -1, "%s", error.message.c_str());
  return error;
}

void Sharing::join(const ScopeId& scope, int members, int member) {
  int supported = 0;
  if (context_.driver.cuDeviceGetAttribute(&supported, kAttributeFabric, 0) ==
          driver_result::kSuccess &&
      supported == 0)
    return;
  local_members_.join(scope, members, member);
}

std::optional<HostAddress> Sharing::host_address() {
  if (!context_.job_key.has_value()) return std::nullopt;
  MutexLock lock(start_mutex_);
  if (host_address_.has_value()) return *host_address_;
  const auto open = [&]() -> Result<HostAddress> {
    const JobKey key = AMEM_TRY(*context_.job_key);
    return context_.peers.load()->open_to_hosts(key, context_.interfaces);
  };
  const Result<HostAddress> opened = open();
  if (!opened.ok())
    AMEM_LOG(warn, -1, "memory that processes of other hosts import stays on the GPU: %s",
             opened.error().message.c_str());
  host_address_.emplace(opened.ok() ? std::optional(opened.value()) : std::nullopt);
  return *host_address_;
}

/// Who imports symmetric memory does not follow from the scopes that this process has joined, but
/// from the launcher's variables: all ranks are on one host if as many are there.
AMEM_NOT_ANALYSED std::optional<Result<IpcHandleBytes>> Sharing::make_fabric_handle(
    Allocation& allocation) {
  const bool is_symmetric = context_.registry.backing_of(allocation).tag == kSymmetricTag;
  const std::string ranks = variable_now("WORLD_SIZE");
  const bool are_known = is_symmetric ? !ranks.empty() && ranks == variable_now("LOCAL_WORLD_SIZE")
                                      : local_members_.has_joined();
  const bool is_of_host = are_known && local_members_.are_on_this_host();
  std::optional<HostAddress> address = HostAddress();
  if (is_of_host || context_.job_key.has_value()) AMEM_TRY(start());
  if (!is_of_host) address = host_address();
  if (!address.has_value()) return std::nullopt;
  context_.devices.prepare({allocation.device()});
  static constinit std::atomic_flag g_said;
  if (!g_said.test_and_set())
    AMEM_LOG(info, -1,
             "memory with fabric handles leaves the GPU in a pause: this has run on the simulated "
             "GPU only");
  return exports_.make_ipc_handle(allocation, true, *address);
}

Result<IpcHandleBytes> Sharing::offer_descriptor(UniqueFd descriptor) {
  AMEM_TRY(start());
  return exports_.offer_descriptor(std::move(descriptor));
}

Status Sharing::withdraw_descriptor(const IpcHandleBytes& handle) {
  const std::optional<IpcHandle> own = decode_ipc_handle(handle);
  if (own.has_value() && exports_.withdraw_descriptor(own->nonce)) return ok_status();
  return misuse_error("no descriptor is offered with this handle");
}

Result<UniqueFd> Sharing::take_descriptor(const IpcHandleBytes& handle) {
  const std::optional<IpcHandle> of_peer = decode_ipc_handle(handle);
  if (!of_peer.has_value()) return protocol_error("the handle is not one of amem");
  AMEM_TRY(start());
  return std::move(AMEM_TRY(imports_.ask_for_token(*of_peer)).fds.front());
}

AMEM_NOT_ANALYSED void Sharing::forget(const Allocation& import) { imports_.forget(import); }

void Sharing::wait_until_started() {
  if (context_.peers.load(std::memory_order_acquire) != nullptr) return;
  MutexLock lock(start_mutex_);
}

void Sharing::on_message(const PeerInfo& from, uint64_t request_id, Received received) {
  wait_until_started();
  Message& message = received.message;
  if (const auto* fetch = std::get_if<Fetch>(&message)) {
    exports_.answer_fetch(from, request_id, *fetch);
  } else if (const auto* query = std::get_if<TokenQuery>(&message)) {
    exports_.answer_token_query(from, request_id, *query);
  } else if (auto* revoked = std::get_if<Revoke>(&message)) {
    imports_.on_revoke(from, request_id, std::move(*revoked));
  } else if (const auto* back = std::get_if<Restore>(&message)) {
    imports_.on_restore(from, request_id, *back);
  } else if (const auto* drop = std::get_if<Drop>(&message)) {
    exports_.forget_imports(from.instance, *drop);
  } else if (const auto* resume = std::get_if<ResumeRequest>(&message)) {
    exports_.restore_for_call(from.instance, resume->tag);
    imports_.on_resume_request(*resume);
  } else if (const auto* host = std::get_if<HostMemoryQuery>(&message)) {
    std::vector<UniqueFd> fds;
    if (offer_ != nullptr) fds = offer_(host->wanted_bytes, host->numa_node);
    if (fds.size() > kMaxOffered) fds.resize(kMaxOffered);
    const HostMemoryOffer offer{static_cast<uint16_t>(fds.size())};
    context_.peers.load()->reply(from.instance, request_id, offer, std::move(fds));
  } else if (const auto* control = std::get_if<Control>(&message)) {
    ControlReply reply;
    if (control_ != nullptr) reply = control_(*control, from.pid);
    context_.peers.load()->reply(from.instance, request_id, std::move(reply), {});
  } else if (const auto* about = std::get_if<StatusQuery>(&message)) {
    // A part of the maximum size is not the last one.
    const std::string text = status_(about->attribution);
    for (size_t at = 0; at <= text.size(); at += kMaxJsonBytes)
      context_.peers.load()->reply(from.instance, request_id,
                                   StatusReply{text.substr(at, kMaxJsonBytes)}, {});
  }
}

std::vector<UniqueFd> Sharing::ask_for_host_memory(size_t wanted_bytes, int numa_node) {
  struct Offered {
    Mutex mutex;
    std::vector<UniqueFd> all AMEM_GUARDED_BY(mutex);
  };
  const auto offered = std::make_shared<Offered>();
  const auto on_reply = [offered](Result<Received> reply) {
    MutexLock lock(offered->mutex);
    if (reply.ok()) std::ranges::move(reply.value().fds, std::back_inserter(offered->all));
    return ok_status();
  };
  PeerService* const peers = context_.peers.load();
  const auto others = instances_of_this_user();
  // A reply whose descriptors have no room would end its connection.
  if (peers == nullptr || !others.ok() ||
      !reserve_descriptors((others.value().size() + 1) * kMaxOffered).ok())
    return {};
  const Deadline deadline = Deadline::after_ms(kHostMemoryMs);
  const auto replies = std::make_shared<Replies>();
  for (const InstanceId& other : others.value())
    if (other != context_.self)
      peers->call(other, HostMemoryQuery{wanted_bytes, numa_node}, {}, deadline,
                  replies->expect("", on_reply));
  (void)replies->wait(deadline);
  MutexLock lock(offered->mutex);
  return std::exchange(offered->all, {});
}

bool Sharing::needs_end_of(const PeerInfo& peer) { return imports_.shares_with(peer.instance); }

void Sharing::on_peer_gone(const PeerInfo& peer) {
  wait_until_started();
  if (!needs_end_of(peer)) return;
  exports_.forget_importer(peer.instance);
  imports_.on_owner_gone(peer);
}

void Sharing::start_service() {
  static std::atomic<bool> warned{false};  // every allocation tries again
  if (Status started = start(); !started.ok() && !warned.exchange(true))
    AMEM_LOG(warn, -1, "other processes cannot reach this one: %s",
             started.error().message.c_str());
}

void Sharing::request_resume(const InstanceId& process, const Tag& tag) {
  context_.peers.load()->send(process, ResumeRequest{tag}, {});
}

}  // namespace amem
