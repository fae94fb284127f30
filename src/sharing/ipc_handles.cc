// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// IPC handles of CUDA's size, on both sides: a handle has no room for a token, so the importer asks
// for it.
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "sharing/exports.h"
#include "sharing/imports.h"

namespace amem {

// --- The owner's side

Result<IpcHandleBytes> Exports::make_ipc_handle(Allocation& allocation) {
  ensure_nonce(allocation);
  return encode_ipc_handle({context_.self, allocation.id, allocation.nonce, getpid()});
}

// The id of an allocation is never 0.
IpcHandleBytes Exports::offer_descriptor(UniqueFd descriptor) {
  const uint64_t nonce = random_instance_id().bits[0];
  MutexLock lock(context_.registry.mutex);
  offered_[nonce] = std::move(descriptor);
  return encode_ipc_handle({context_.self, 0, nonce, getpid()});
}

void Exports::withdraw_descriptor(uint64_t nonce) {
  MutexLock lock(context_.registry.mutex);
  offered_.erase(nonce);
}

void Exports::answer_token_query(const PeerInfo& from, uint64_t request_id,
                                 const TokenQuery& query) {
  std::vector<UniqueFd> fds;
  MutexLock lock(context_.registry.mutex);
  const auto offered = query.allocation == 0 ? offered_.find(query.nonce) : offered_.end();
  if (offered != offered_.end()) {
    UniqueFd copy(fcntl(offered->second.get(), F_DUPFD_CLOEXEC, 0));
    if (copy.valid()) fds.push_back(std::move(copy));
  } else if (Allocation* const allocation = find_exported(query.allocation, query.nonce)) {
    Result<int> token = make_token(*allocation);
    if (token.ok()) fds.emplace_back(token.value());
  }
  const TokenReply reply{!fds.empty()};
  context_.peers.load()->reply(from.instance, request_id, reply, std::move(fds));
}

// --- The importer's side

Result<UniqueFd> Imports::ask_for_token(const IpcHandle& wanted) {
  const auto replies = std::make_shared<Replies>();
  const auto token = std::make_shared<UniqueFd>();
  const Deadline deadline = Deadline::after_ms(context_.timeout_ms);
  const std::string name = process_text(wanted.owner_pid);
  replies->expect(name);
  context_.peers.load()->call(wanted.owner, TokenQuery{wanted.allocation, wanted.nonce}, {},
                              deadline, [replies, token, name](Result<Received> reply) {
                                replies->heard(name);
                                if (!reply.ok())
                                  return replies->failed(reply.error().message, reply.error().kind);
                                if (reply.value().fds.empty())
                                  return replies->failed("its owner does not know it");
                                *token = std::move(reply.value().fds.front());
                                replies->succeeded();
                              });
  AMEM_TRY(replies->wait(deadline, kImportWaits));
  return std::move(*token);
}

Result<DriverHandle> Imports::import_ipc_handle(const IpcHandle& wanted) {
  if (wanted.owner == context_.self) {
    MutexLock lock(context_.registry.mutex);
    return import_own(wanted.allocation, wanted.nonce);
  }
  const Result<UniqueFd> fd = ask_for_token(wanted);
  std::optional<Token> token = fd.ok() ? read_token(fd.value().get()) : std::nullopt;
  if (token.has_value() && (token->owner != wanted.owner || token->allocation != wanted.allocation))
    token.reset();
  Result<DriverHandle> imported = token.has_value() ? import(*token)
                                  : fd.ok() ? make_error(ErrorKind::protocol, 0, "it has no token")
                                            : Error(fd.error());
  if (imported.ok()) return imported;
  Error error = make_error(ErrorKind::driver, result_of(imported.error()),
                           "cannot open an IPC handle of process %d: %s", wanted.owner_pid,
                           imported.error().message.c_str());
  AMEM_LOG(error, -1, "%s", error.message.c_str());
  return error;
}

}  // namespace amem
