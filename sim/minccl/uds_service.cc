// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/uds_service.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "sim/minccl/settings.h"

namespace amem::minccl {
namespace {

enum RequestKind : int { kMemoryHandle = 1, kOfferedFile = 2 };

struct Request {
  int kind;
  int padding;
  uint64_t value;
  UdsName reply_to;
};

struct Reply {
  int error;  ///< errno; 0 when a descriptor comes along
};

struct UdsAddress {
  sockaddr_un address{};
  socklen_t length = sizeof(sockaddr_un);
};

UdsAddress address_of(UdsName name) {
  UdsAddress result;
  result.address.sun_family = AF_UNIX;
  // NCCL's name and length (linux_ipcsocket.cc:67@2.30.7). The leading zero byte makes it abstract:
  // it vanishes with the socket.
  snprintf(result.address.sun_path + 1, sizeof result.address.sun_path - 1,
           "tmp/nccl-socket-%d-%llx", name.rank, static_cast<unsigned long long>(name.hash));
  return result;
}

ncclResult_t open_named_socket(UniqueFd* fd, UdsName* name) {
  if (getrandom(&name->hash, sizeof name->hash, 0) != sizeof name->hash)
    return fail(ncclSystemError, "getrandom failed");
  fd->reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  UdsAddress own = address_of(*name);
  if (!fd->valid() || bind(fd->get(), reinterpret_cast<sockaddr*>(&own.address), own.length) != 0)
    return fail(ncclSystemError, "abstract Unix socket: %s", strerror(errno));
  return ncclSuccess;
}

// One datagram, with a descriptor unless `fd` is negative. Waits while the receiver's queue is
// full.
ncclResult_t send_datagram(int socket, UdsName to, const void* data, size_t bytes, int fd,
                           const Patience& patience) {
  UdsAddress destination = address_of(to);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{const_cast<void*>(data), bytes};
  msghdr message{};
  message.msg_name = &destination.address;
  message.msg_namelen = destination.length;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  while (sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EAGAIN && errno != EINTR)
      return fail(ncclRemoteError, "sendmsg to the UDS service of a peer: %s", strerror(errno));
    if (patience.deadline.passed())
      return fail(ncclRemoteError, "the UDS service of a peer takes no requests");
    poll(nullptr, 0, 1);
  }
  return ncclSuccess;
}

// False when there was no datagram of this size.
bool recv_datagram(int socket, void* data, size_t bytes, UniqueFd* fd) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{data, bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return false;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    memcpy(&received, CMSG_DATA(rights), sizeof received);
    fd->reset(received);
  }
  return got == static_cast<ssize_t>(bytes);
}

ncclResult_t fetch(RequestKind kind, UdsName owner, uint64_t value, const Patience& patience,
                   UniqueFd* fd) {
  UniqueFd socket;
  Request request{kind, 0, value, {}};
  MINCCL_TRY(open_named_socket(&socket, &request.reply_to));
  MINCCL_TRY(send_datagram(socket.get(), owner, &request, sizeof request, -1, patience));
  Reply reply{};
  // NCCL repeats recvmsg(2) until there is an answer (linux_ipcsocket.cc:140@2.30.7).
  while (!recv_datagram(socket.get(), &reply, sizeof reply, fd)) {
    if (patience.aborting != nullptr && patience.aborting->load())
      return fail(ncclInternalError, "waiting for a descriptor: the communicator was aborted");
    if (patience.deadline.passed())
      return fail(ncclRemoteError,
                  "waiting for a descriptor: rank %d has not answered within %ld ms", owner.rank,
                  settings().timeout_ms);
    poll(nullptr, 0, 1);
  }
  if (reply.error != 0 || !fd->valid())
    return fail(ncclRemoteError, "a peer's UDS service has no file for 0x%llx: error %d",
                static_cast<unsigned long long>(value), reply.error);
  return ncclSuccess;
}

}  // namespace

ncclResult_t UdsService::start(CuContext context, int rank) {
  name_.rank = rank;
  MINCCL_TRY(open_named_socket(&socket_, &name_));
  stop_event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_event_.valid()) return fail(ncclSystemError, "eventfd: %s", strerror(errno));
  thread_ = std::thread(&UdsService::serve, this, context);
  return ncclSuccess;
}

void UdsService::stop() {
  if (!thread_.joinable()) return;
  uint64_t one = 1;
  if (write(stop_event_.get(), &one, sizeof one) == sizeof one) thread_.join();
  socket_.reset();
  stop_event_.reset();
  files_.clear();
}

uint64_t UdsService::offer_file(UniqueFd fd) {
  std::lock_guard lock(mutex_);
  files_.emplace(next_file_, std::move(fd));
  return next_file_++;
}

void UdsService::serve(CuContext context) {
  driver().context_set_current(context);
  while (true) {
    pollfd entries[] = {{socket_.get(), POLLIN, 0}, {stop_event_.get(), POLLIN, 0}};
    if (poll(entries, 2, -1) < 0 && errno != EINTR) return;
    if (entries[1].revents != 0) return;
    if (entries[0].revents != 0) answer();
  }
}

int UdsService::file_for(int kind, uint64_t value, UniqueFd* fd) {
  if (kind == kMemoryHandle) {
    int exported = -1;
    CuResult code = driver().mem_export(&exported, value, kHandleTypePosixFd, 0);
    if (code == kSuccess) fd->reset(exported);
    return code;
  }
  std::lock_guard lock(mutex_);
  auto file = files_.find(value);
  if (kind != kOfferedFile || file == files_.end()) return ENOENT;
  *fd = std::move(file->second);
  files_.erase(file);
  return 0;
}

void UdsService::answer() {
  Request request{};
  UniqueFd surplus;
  if (!recv_datagram(socket_.get(), &request, sizeof request, &surplus)) return;
  UniqueFd file;
  Reply reply{file_for(request.kind, request.value, &file)};
  if (request.kind == kMemoryHandle && !file.valid()) return;
  send_datagram(socket_.get(), request.reply_to, &reply, sizeof reply, file.get(),
                Patience::begin());
}

ncclResult_t fetch_memory_fd(UdsName owner, CuMemHandle handle, const Patience& patience,
                             UniqueFd* fd) {
  return fetch(kMemoryHandle, owner, handle, patience, fd);
}

ncclResult_t fetch_offered_file(UdsName owner, uint64_t number, const Patience& patience,
                                UniqueFd* fd) {
  return fetch(kOfferedFile, owner, number, patience, fd);
}

}  // namespace amem::minccl
