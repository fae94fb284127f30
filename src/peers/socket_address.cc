// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/socket_address.h"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "base/seeded_fault.h"

// Linux 6.16, include/uapi/asm-generic/socket.h.
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace amem {
namespace {

/// Connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
constexpr int kBacklog = 4096;
constexpr size_t kHexDigits = 32;

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
  // A connection that is accepted inherits it. What cannot be sent need not be closed.
  const int no = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof no);
  return fd;
}

std::string prefix_of(uid_t user) {
  return std::string(1, '\0') + "amem-" + std::to_string(user) + "-";
}

/// The beginning of a file of /proc; nothing when there is no such file.
std::optional<std::string> beginning_of(const char* path) {
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::array<char, 128> text;
  const ssize_t got = read(fd.get(), text.data(), text.size());
  return std::string(text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
}

/// The number that all users have here who have none in this user namespace (user_namespaces(7),
/// "Unmapped user and group IDs").
uid_t overflow_user() {
  uid_t user = 65534;
  const std::string text = beginning_of("/proc/sys/kernel/overflowuid").value_or("");
  std::from_chars(text.data(), text.data() + text.size(), user);
  return user;
}

/// Whether every user has a number of his own here. So it is on a kernel without user namespaces,
/// which has no such file; a new namespace has an empty one.
bool all_users_have_numbers() {
  const std::optional<std::string> map = beginning_of("/proc/self/uid_map");
  unsigned long first = 0, outside = 0, count = 0;
  return !map || (sscanf(map->c_str(), "%lu %lu %lu", &first, &outside, &count) == 3 &&
                  first == 0 && count == 0xffffffff);
}

}  // namespace

std::string socket_name(const InstanceId& instance, uid_t user) {
  return prefix_of(user) + instance.hex();
}

std::optional<InstanceId> instance_of(std::string_view name, uid_t user) {
  const std::string prefix = prefix_of(user);
  if (!name.starts_with(prefix) || name.size() != prefix.size() + kHexDigits) return std::nullopt;
  const char* digits = name.data() + prefix.size();
  InstanceId id;
  for (uint64_t& word : id.bits) {
    std::from_chars(digits, digits + kHexDigits / 2, word, 16);
    digits += kHexDigits / 2;
  }
  // Byte for byte, or it is the name of somebody who wants to be taken for it.
  if (id.hex() != name.substr(prefix.size()) && !seeded_fault("name_digits")) return std::nullopt;
  return id;
}

void allow_fds(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &yes, sizeof yes);
}

bool is_of_this_user(const ucred& other) {
  static const uid_t overflow = overflow_user();
  return other.uid == geteuid() && (other.uid != overflow || all_users_have_numbers());
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
