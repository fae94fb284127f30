// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/socket_address.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/user_folder.h"

// Linux 6.5, include/uapi/asm-generic/socket.h.
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace amem {
namespace {

/// Connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
constexpr int kBacklog = 4096;
constexpr size_t kHexDigits = 32;

std::optional<InstanceId> instance_of(std::string_view name) {
  InstanceId id;
  if (name.size() != kHexDigits) return std::nullopt;
  for (size_t i = 0; i < id.bits.size(); ++i)
    std::from_chars(name.data() + i * 16, name.data() + (i + 1) * 16, id.bits[i], 16);
  if (id.hex() != name) return std::nullopt;
  return id;
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // At most 14 + 10 + 1 + 32 + 4 of 108 bytes.
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

Result<UniqueFd> open_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return os_error(errno, "socket(AF_UNIX, SOCK_SEQPACKET)");
  return fd;
}

}  // namespace

std::string socket_path(const InstanceId& instance) { return user_folder() + "/" + instance.hex(); }

Result<std::set<InstanceId>> instances_of_this_user() {
  std::set<InstanceId> out;
  const std::string path = user_folder();
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(path.c_str()), closedir);
  if (open == nullptr && errno == ENOENT) return out;
  AMEM_TRY(check_user_folder());
  if (open == nullptr) return os_error(errno, "opendir(%s)", path.c_str());
  while (const dirent* entry = readdir(open.get()))
    if (const auto instance = instance_of(entry->d_name)) out.insert(*instance);
  return out;
}

Result<UniqueFd> listen_at(const InstanceId& instance) {
  AMEM_TRY(make_user_folder());
  UniqueFd fd = AMEM_TRY(open_socket());
  // It is named after listen(2): a name that refuses connections is taken for that of a dead
  // process.
  const std::string path = socket_path(instance), unfinished = path + ".new";
  const sockaddr_un at = address_of(unfinished);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
    return os_error(errno, "bind(%s)", unfinished.c_str());
  if (listen(fd.get(), kBacklog) != 0 || link(unfinished.c_str(), path.c_str()) != 0) {
    const int code = errno;
    unlink(unfinished.c_str());
    return os_error(code, "listen(%s)", path.c_str());
  }
  unlink(unfinished.c_str());
  return fd;
}

Result<UniqueFd> dial(const InstanceId& instance) {
  UniqueFd fd = AMEM_TRY(open_socket());
  const std::string path = socket_path(instance);
  const sockaddr_un at = address_of(path);
  // Without waiting, so that no signal interrupts it.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return fd;
  const int code = errno;
  if (code == ECONNREFUSED) unlink(path.c_str());
  if (code == ECONNREFUSED || code == ENOENT)
    return make_error(ErrorKind::peer, code,
                      "process of instance %s has ended, or has another /dev/shm than this one, or "
                      "belongs to another user: processes that share GPU memory need one "
                      "/dev/shm (docker run --ipc=...) and one user id",
                      instance.hex().c_str());
  return os_error(code, "connect(%s)", path.c_str());
}

Result<pid_t> pid_of_peer(int socket) {
  ucred credentials{};
  socklen_t size_bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes) != 0)
    return os_error(errno, "getsockopt(SO_PEERCRED)");
  return credentials.pid;
}

UniqueFd process_of_peer(int socket) {
  int fd = -1;
  socklen_t size_bytes = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size_bytes) == 0) return UniqueFd(fd);
  const Result<pid_t> pid = pid_of_peer(socket);
  if (!pid.ok() || pid.value() <= 0) return UniqueFd();
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid.value(), 0)));
}

// The kernel writes the pid for the pid namespace of /proc, which may not be that of this process.
UniqueFd mappings_of_process(int pidfd) {
  const std::string path = "/proc/thread-self/fdinfo/" + std::to_string(pidfd);
  const UniqueFd info(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[512] = "", first = 0;
  if (read(info.get(), text, sizeof text - 1) <= 0) return UniqueFd();
  const char* const pid = strstr(text, "\nPid:");
  if (pid == nullptr || atoi(pid + strlen("\nPid:")) <= 0) return UniqueFd();
  const std::string maps = "/proc/" + std::to_string(atoi(pid + strlen("\nPid:"))) + "/maps";
  UniqueFd mappings(open(maps.c_str(), O_RDONLY | O_CLOEXEC));
  // A process whose first thread has ended shows an empty table.
  return pread(mappings.get(), &first, 1, 0) == 1 ? std::move(mappings) : UniqueFd();
}

bool have_ended(int mappings) {
  char first = 0;
  return pread(mappings, &first, 1, 0) == 0;
}

}  // namespace amem
