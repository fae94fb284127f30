// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/socket_address.h"

#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace amem {
namespace {

/// Connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
constexpr int kBacklog = 4096;

struct Address {
  sockaddr_un address{};
  socklen_t size_bytes = 0;
};

Address address_of(const InstanceId& instance) {
  const std::string name = socket_name(instance);
  Address out;
  out.address.sun_family = AF_UNIX;
  // At most 1 + 5 + 10 + 1 + 32 bytes of the 108 that there are.
  std::copy(name.begin(), name.end(), out.address.sun_path);
  out.size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return out;
}

Result<UniqueFd> open_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return os_error(errno, "socket(AF_UNIX, SOCK_SEQPACKET)");
  return fd;
}

}  // namespace

std::string socket_name(const InstanceId& instance) {
  return std::string(1, '\0') + "amem-" + std::to_string(geteuid()) + "-" + instance.hex();
}

Result<UniqueFd> listen_at(const InstanceId& instance) {
  Result<UniqueFd> fd = open_socket();
  if (!fd.ok()) return fd;
  const Address at = address_of(instance);
  if (bind(fd.value().get(), reinterpret_cast<const sockaddr*>(&at.address), at.size_bytes) != 0)
    return os_error(errno, "bind(@%s)", at.address.sun_path + 1);
  if (listen(fd.value().get(), kBacklog) != 0)
    return os_error(errno, "listen(@%s)", at.address.sun_path + 1);
  return fd;
}

Result<UniqueFd> dial(const InstanceId& instance) {
  Result<UniqueFd> fd = open_socket();
  if (!fd.ok()) return fd;
  const Address at = address_of(instance);
  int code = 0;
  while (connect(fd.value().get(), reinterpret_cast<const sockaddr*>(&at.address), at.size_bytes) !=
         0) {
    code = errno;
    if (code != EINTR) break;
    code = 0;
  }
  if (code == 0) return fd;
  if (code == EAGAIN) return UniqueFd();
  if (code == ECONNREFUSED)
    return make_error(ErrorKind::peer, code, "process of instance %s has ended",
                      instance.hex().c_str());
  return os_error(code, "connect(@%s)", at.address.sun_path + 1);
}

Result<ucred> credentials_of(int socket) {
  ucred credentials{};
  socklen_t size_bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size_bytes) != 0)
    return os_error(errno, "getsockopt(SO_PEERCRED)");
  return credentials;
}

}  // namespace amem
