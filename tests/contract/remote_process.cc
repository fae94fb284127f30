// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "tests/contract/remote_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace amem::contract {
namespace {

struct Request {
  Command command;
  uint64_t value;
};

struct Reply {
  CuResult result;
  uint32_t value;
};

}  // namespace

bool send_with_fd(int socket, const void* bytes, size_t size_bytes, int fd) {
  iovec data{const_cast<void*>(bytes), size_bytes};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size_bytes);
}

bool receive_with_fd(int socket, void* bytes, size_t size_bytes, UniqueFd* fd) {
  iovec data{bytes, size_bytes};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (received != static_cast<ssize_t>(size_bytes)) return false;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
    int passed = -1;
    std::memcpy(&passed, CMSG_DATA(header), sizeof(int));
    fd->reset(passed);
  }
  return true;
}

RemoteProcess::RemoteProcess() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  socket_ = UniqueFd(ends[0]);
  UniqueFd other(ends[1]);
  const int theirs = dup(other.get());  // not of a UniqueFd: a forked child closes those
  const std::string number = std::to_string(theirs);
  pid_ = fork();
  if (pid_ != 0) close(theirs);
  if (pid_ == 0) {
    execl("/proc/self/exe", "driver_contract_test", kRemoteFlag, number.c_str(), nullptr);
    _exit(127);
  }
}

RemoteProcess::~RemoteProcess() { kill(); }

void RemoteProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

Answer RemoteProcess::tell(Command command, uint64_t value, int fd) {
  const Request request{command, value};
  Reply reply{kErrorUnknown, 0};
  Answer answer;
  if (send_with_fd(socket_.get(), &request, sizeof(request), fd) &&
      receive_with_fd(socket_.get(), &reply, sizeof(reply), &answer.fd)) {
    answer.result = reply.result;
    answer.value = reply.value;
  }
  return answer;
}

namespace {

/// The state of the other process between commands.
struct Remote {
  UniqueFd fd;
  CuMemHandle handle = 0;
  CuDevicePtr address = 0;
  size_t size_bytes = 0;
};

CuAllocationProp device_memory() {
  CuAllocationProp wanted = {};
  wanted.type = kAllocationPinned;
  wanted.location = {kLocationDevice, 0};
  return wanted;
}

CuResult call_without_init() {
  CuMemHandle handle = 0;
  const CuAllocationProp wanted = device_memory();
  return driver().cuMemCreate(&handle, 2 << 20, &wanted, 0);
}

CuResult start() {
  CuContext context = nullptr;
  if (const CuResult result = driver().cuInit(0); result != kSuccess) return result;
  const CuResult retained = driver().cuDevicePrimaryCtxRetain(&context, 0);
  return retained == kSuccess ? driver().cuCtxSetCurrent(context) : retained;
}

CuResult start_on_other_machine() {
  const char* folder = std::getenv("AMEM_SIM_OTHER_DIR");
  if (folder == nullptr || setenv("AMEM_SIM_DIR", folder, 1) != 0) return kErrorInvalidValue;
  return start();
}

CuResult total_mb(uint32_t* value) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  const CuResult result = driver().cuMemGetInfo(&free_bytes, &total_bytes);
  *value = static_cast<uint32_t>(total_bytes >> 20);
  return result;
}

CuResult map(Remote& remote, size_t size_bytes) {
  const CuAccessDesc access{{kLocationDevice, 0}, kAccessReadWrite};
  remote.size_bytes = size_bytes;
  CuResult result = driver().cuMemAddressReserve(&remote.address, size_bytes, 0, 0, 0);
  if (result != kSuccess) return result;
  result = driver().cuMemMap(remote.address, size_bytes, 0, remote.handle, 0);
  if (result != kSuccess) return result;
  return driver().cuMemSetAccess(remote.address, size_bytes, &access, 1);
}

CuResult unmap(Remote& remote) {
  const CuResult result = driver().cuMemUnmap(remote.address, remote.size_bytes);
  if (result != kSuccess) return result;
  return driver().cuMemAddressFree(remote.address, remote.size_bytes);
}

CuResult read_unmapped() {
  CuDevicePtr address = 0;
  uint32_t word = 0;
  const CuResult result = driver().cuMemAddressReserve(&address, 2 << 20, 0, 0, 0);
  if (result != kSuccess) return kErrorUnknown;
  return driver().cuMemcpyDtoH(&word, address, sizeof(word));
}

CuResult reexport(Remote& remote, UniqueFd* out) {
  int fd = -1;
  const CuResult result =
      driver().cuMemExportToShareableHandle(&fd, remote.handle, kHandleTypePosixFd, 0);
  out->reset(fd);
  return result;
}

CuResult checkpoint() {
  using Step = CuResult (*)(int, void*);
  CuCheckpointLockArgs limit{10000, {}};
  const CuResult locked =
      reinterpret_cast<Step>(driver_symbol("cuCheckpointProcessLock"))(getpid(), &limit);
  if (locked != kSuccess) return locked;
  return reinterpret_cast<Step>(driver_symbol("cuCheckpointProcessCheckpoint"))(getpid(), nullptr);
}

CuResult obey(Remote& remote, const Request& request, UniqueFd passed, Reply* reply,
              UniqueFd* out) {
  switch (request.command) {
    case Command::kCallWithoutInit:
      return call_without_init();
    case Command::kStart:
      return start();
    case Command::kStartOnOtherMachine:
      return start_on_other_machine();
    case Command::kTotalMb:
      return total_mb(&reply->value);
    case Command::kImport: {
      remote.fd = std::move(passed);
      void* shareable = reinterpret_cast<void*>(static_cast<intptr_t>(remote.fd.get()));
      return driver().cuMemImportFromShareableHandle(&remote.handle, shareable, kHandleTypePosixFd);
    }
    case Command::kImportFabric: {
      unsigned char name[64];
      if (pread(passed.get(), name, sizeof name, 0) != sizeof name) return kErrorUnknown;
      return driver().cuMemImportFromShareableHandle(&remote.handle, name, kHandleTypeFabric);
    }
    case Command::kCreate: {
      CuAllocationProp wanted = {};
      wanted.type = kAllocationPinned;
      wanted.requested_handle_types = kHandleTypePosixFd;
      wanted.location = {kLocationDevice, 0};
      return driver().cuMemCreate(&remote.handle, request.value, &wanted, 0);
    }
    case Command::kCheckpoint:
      return checkpoint();
    case Command::kCloseFd:
      remote.fd.reset();
      return kSuccess;
    case Command::kMap:
      return map(remote, request.value);
    case Command::kRead:
      return driver().cuMemcpyDtoH(&reply->value, remote.address, sizeof(reply->value));
    case Command::kWrite: {
      const auto word = static_cast<uint32_t>(request.value);
      const CuResult copied = driver().cuMemcpyHtoD(remote.address, &word, sizeof(word));
      // A copy from pageable memory returns when it is staged; another process sees it when it is
      // done.
      return copied == kSuccess ? driver().cuCtxSynchronize() : copied;
    }
    case Command::kUnmap:
      return unmap(remote);
    case Command::kRelease:
      return driver().cuMemRelease(remote.handle);
    case Command::kReexport:
      return reexport(remote, out);
    case Command::kReadUnmapped:
      return read_unmapped();
    case Command::kAddDevice:
      return driver().cuMulticastAddDevice(remote.handle, static_cast<CuDevice>(request.value));
  }
  return kErrorUnknown;
}

}  // namespace

int remote_main(int socket) {
  Remote remote;
  for (;;) {
    Request request;
    UniqueFd passed;
    if (!receive_with_fd(socket, &request, sizeof(request), &passed)) return 0;
    Reply reply{kErrorUnknown, 0};
    UniqueFd out;
    reply.result = obey(remote, request, std::move(passed), &reply, &out);
    if (!send_with_fd(socket, &reply, sizeof(reply), out.get())) return 0;
  }
}

}  // namespace amem::contract
