// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace amem {
namespace {

// Sockets of IPv6 also reach IPv4, by mapped addresses. Those of IPv4 are for a kernel without
// IPv6.
union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

HostAddress mapped(const sockaddr_in& at) {
  HostAddress out{{}, ntohs(at.sin_port)};
  auto* const ip = reinterpret_cast<uint8_t*>(out.ip.bits.data());
  memcpy(ip, kMapped, sizeof kMapped);
  memcpy(ip + sizeof kMapped, &at.sin_addr, sizeof at.sin_addr);
  return out;
}

/// For a function of this socket.
SocketAddress to_socket(const HostAddress& address, int socket) {
  int family = AF_INET6;
  socklen_t size_bytes = sizeof family;
  getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size_bytes);
  const auto* const ip = reinterpret_cast<const uint8_t*>(address.ip.bits.data());
  SocketAddress out{};
  if (family == AF_INET) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(address.port);
    memcpy(&out.v4.sin_addr, ip + sizeof kMapped, sizeof out.v4.sin_addr);
  } else {
    out.v6.sin6_family = AF_INET6;
    out.v6.sin6_port = htons(address.port);
    memcpy(&out.v6.sin6_addr, ip, sizeof out.v6.sin6_addr);
  }
  return out;
}

/// `call`: getsockname(2) or getpeername(2).
HostAddress address_by(int (*call)(int, sockaddr*, socklen_t*), int socket) {
  SocketAddress at{};
  socklen_t size_bytes = sizeof at;
  call(socket, &at.any, &size_bytes);
  if (at.any.sa_family == AF_INET) return mapped(at.v4);
  HostAddress out{{}, ntohs(at.v6.sin6_port)};
  memcpy(out.ip.bits.data(), &at.v6.sin6_addr, sizeof at.v6.sin6_addr);
  return out;
}

Result<UniqueFd> open_stream(const HostAddress& address) {
  constexpr int kType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  UniqueFd fd(socket(AF_INET6, kType, 0));
  const bool is_ipv4 = memcmp(address.ip.bits.data(), kMapped, sizeof kMapped) == 0;
  if (!fd.valid() && errno == EAFNOSUPPORT && is_ipv4) fd.reset(socket(AF_INET, kType, 0));
  if (!fd.valid()) return os_error(errno, "socket() for %s", ip_text(address).c_str());
  const int off = 0;
  setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  return fd;
}

bool is_allowed(std::string_view interface, std::string_view setting) {
  const bool excludes = setting.starts_with('^'), is_exact = setting.starts_with('=');
  if (excludes || is_exact) setting.remove_prefix(1);
  bool is_named = false;
  while (!setting.empty()) {
    const std::string_view name = setting.substr(0, setting.find(','));
    is_named = is_named || (is_exact ? interface == name : interface.starts_with(name));
    setting.remove_prefix(std::min(name.size() + 1, setting.size()));
  }
  return is_named != excludes;
}

/// Nothing for an interface that is down, has no address, or only that of its link.
std::optional<HostAddress> address_of(const ifaddrs& interface) {
  HostAddress out;
  const sockaddr* const at = interface.ifa_addr;
  if (at == nullptr || (interface.ifa_flags & IFF_UP) == 0) return std::nullopt;
  if (at->sa_family == AF_INET) return mapped(*reinterpret_cast<const sockaddr_in*>(at));
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(at)->sin6_addr;
  if (at->sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&v6)) return std::nullopt;
  memcpy(out.ip.bits.data(), &v6, sizeof v6);
  return out;
}

Result<HostAddress> own_address(const std::string& interfaces) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return os_error(errno, "getifaddrs()");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> guard(all, freeifaddrs);
  // The kernel lists those of IPv4 first.
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (const auto address = address_of(*one); address && is_allowed(one->ifa_name, interfaces))
      return *address;
  return unsupported_error("no network interface that is up has an address and a name as in %s",
                           interfaces.c_str());
}

Status connected(int code, const HostAddress& address) {
  if (code == 0 || code == EINPROGRESS) return ok_status();
  const std::string at = ip_text(address) + ":" + std::to_string(address.port);
  if (code != ECONNREFUSED) return os_error(code, "connect(%s)", at.c_str());
  return make_error(ErrorKind::peer, code, "no process listens at %s", at.c_str());
}

}  // namespace

std::string ip_text(const HostAddress& address) {
  constexpr std::string_view kPrefix = "::ffff:";
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, address.ip.bits.data(), text, sizeof text);
  return std::string_view(text).starts_with(kPrefix) ? text + kPrefix.size() : text;
}

Result<UniqueFd> listen_for_hosts(const std::string& interfaces, HostAddress* self) {
  *self = AMEM_TRY(own_address(interfaces.empty() ? "^lo,docker" : interfaces));
  UniqueFd fd = AMEM_TRY(open_stream(*self));
  const SocketAddress at = to_socket(*self, fd.get());
  if (bind(fd.get(), &at.any, sizeof at) != 0 || listen(fd.get(), SOMAXCONN) != 0)
    return os_error(errno, "listen(%s)", ip_text(*self).c_str());
  *self = address_by(getsockname, fd.get());
  return fd;
}

Result<UniqueFd> dial_host(const HostAddress& address, int listener) {
  UniqueFd fd = AMEM_TRY(open_stream(address));
  const SocketAddress at = to_socket(address, fd.get());
  end_when_cut_off(fd.get());
  HostAddress own = address_by(getsockname, listener);
  own.port = 0;
  const SocketAddress from = to_socket(own, fd.get());
  if (bind(fd.get(), &from.any, sizeof from) != 0)
    return os_error(errno, "bind(%s)", ip_text(own).c_str());
  const int failed = connect(fd.get(), &at.any, sizeof at);
  AMEM_TRY(connected(failed == 0 ? 0 : errno, address));
  return fd;
}

Status check_dialled(int socket, const HostAddress& address) {
  int code = 0;
  socklen_t size_bytes = sizeof code;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size_bytes);
  return connected(code, address);
}

HostAddress address_of_peer(int socket) { return address_by(getpeername, socket); }

void end_when_cut_off(int socket) {
  const int on = 1, retries = 2, unacknowledged_ms = 10000;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_SYNCNT, &retries, sizeof retries);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

}  // namespace amem
