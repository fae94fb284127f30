// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/instances.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "peers/socket_address.h"

// Linux 5.3, include/uapi/linux/unix_diag.h.
#ifndef UDIAG_SHOW_UID
#define UDIAG_SHOW_UID 0x00000040
#endif

namespace amem {
namespace {

constexpr char kTable[] = "/proc/net/unix";
constexpr uint16_t kNameAttribute = 0, kUserAttribute = 7;  // UNIX_DIAG_NAME, UNIX_DIAG_UID

/// Takes the first part of `bytes` off it as a T; false when it is not there.
template <typename T>
bool take(std::span<const uint8_t>& bytes, T* part) {
  if (bytes.size() < sizeof *part) return false;
  memcpy(part, bytes.data(), sizeof *part);
  bytes = bytes.subspan(sizeof *part);
  return true;
}

/// The next piece of `bytes`, which begins with a Head and has the length that it says, its
/// contents without the head; netlink(7) aligns pieces to 4 bytes. False at the end, and when there
/// is no whole piece.
template <typename Head>
bool take_piece(std::span<const uint8_t>& bytes, size_t (*length_of)(const Head&), Head* head,
                std::span<const uint8_t>* contents) {
  std::span<const uint8_t> rest = bytes;
  if (!take(rest, head)) return false;
  const size_t length = length_of(*head);
  if (length < sizeof *head || length > bytes.size()) return false;
  *contents = bytes.subspan(sizeof *head, length - sizeof *head);
  bytes = bytes.subspan(std::min((length + 3) & ~size_t{3}, bytes.size()));
  return true;
}

/// The socket that this part of an answer is about, when it has the name of an instance.
void take_name(std::span<const uint8_t> socket, uid_t user, NameOwners* found) {
  unix_diag_msg fixed;
  if (!take(socket, &fixed)) return;
  std::string_view name;
  uint32_t owner = user;
  rtattr head;
  std::span<const uint8_t> value;
  while (take_piece<rtattr>(
      socket, [](const rtattr& attribute) { return size_t{attribute.rta_len}; }, &head, &value)) {
    if (head.rta_type == kNameAttribute)
      name = {reinterpret_cast<const char*>(value.data()), value.size()};
    if (head.rta_type == kUserAttribute && !take(value, &owner)) return;
  }
  if (const auto instance = instance_of(name, user)) found->emplace(*instance, owner);
}

/// Asks the kernel for all unix sockets that listen.
Result<UniqueFd> ask_for_sockets() {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!fd.valid()) return os_error(errno, "socket(NETLINK_SOCK_DIAG)");
  struct {
    nlmsghdr head;
    unix_diag_req body;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = 1u << TCP_LISTEN;
  request.body.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
  if (send(fd.get(), &request, sizeof request, 0) != ssize_t{sizeof request})
    return os_error(errno, "send(NETLINK_SOCK_DIAG)");
  return fd;
}

Result<NameOwners> ask_kernel(uid_t user) {
  Result<UniqueFd> fd = ask_for_sockets();
  if (!fd.ok()) return std::move(fd.error());
  NameOwners found;
  std::vector<uint8_t> room(64 * 1024);  // the kernel sends at most 32 KiB at once
  for (;;) {
    // Only the kernel writes to this socket, and it has its answer ready.
    const ssize_t got = recv(fd.value().get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error(errno, "recv(NETLINK_SOCK_DIAG)");
    const Result<bool> more =
        take_names(std::span(room).first(static_cast<size_t>(got)), user, &found);
    if (!more.ok()) return more.error();
    if (!more.value()) return found;
  }
}

}  // namespace

std::set<InstanceId> instances_in(std::string_view table, uid_t user) {
  std::set<InstanceId> out;
  while (!table.empty()) {
    const size_t end = std::min(table.find('\n'), table.size());
    const std::string_view line = table.substr(0, end);
    // The connections that a process accepted bear its name too.
    std::string name(line.substr(line.rfind(' ') + 1));
    if (name.starts_with('@')) {
      name.front() = '\0';
      if (const auto instance = instance_of(name, user)) out.insert(*instance);
    }
    table.remove_prefix(std::min(end + 1, table.size()));
  }
  return out;
}

Result<bool> take_names(std::span<const uint8_t> answer, uid_t user, NameOwners* found) {
  nlmsghdr head;
  std::span<const uint8_t> contents;
  while (take_piece<nlmsghdr>(
      answer, [](const nlmsghdr& message) { return size_t{message.nlmsg_len}; }, &head,
      &contents)) {
    if (head.nlmsg_type == NLMSG_DONE) return false;
    if (head.nlmsg_type == NLMSG_ERROR) {
      int32_t code = 0;
      take(contents, &code);
      // A negative errno (netlink(7)).
      return os_error(code < 0 && code > -4096 ? -code : EPROTO, "NETLINK_SOCK_DIAG");
    }
    if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) continue;
    take_name(contents, user, found);
  }
  if (!answer.empty())
    return make_error(ErrorKind::protocol, 0, "NETLINK_SOCK_DIAG: %zu bytes that are no message",
                      answer.size());
  return true;
}

Result<std::set<InstanceId>> instances_shown(uid_t user) {
  const UniqueFd fd(open(kTable, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return os_error(errno, "open(%s)", kTable);
  std::string text;
  for (;;) {
    constexpr size_t kPieceBytes = 64 * 1024;
    const size_t before = text.size();
    text.resize(before + kPieceBytes);
    const ssize_t got = read(fd.get(), text.data() + before, kPieceBytes);
    if (got < 0 && errno != EINTR) return os_error(errno, "read(%s)", kTable);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return instances_in(text, user);
  }
}

Result<std::set<InstanceId>> instances_of_this_user() {
  const uid_t user = geteuid();
  const Result<NameOwners> names = ask_kernel(user);
  if (!names.ok()) return instances_shown(user);
  std::set<InstanceId> ours;
  for (const auto& [instance, owner] : names.value())
    if (owner == user) ours.insert(instance);
  return ours;
}

bool is_name_taken(const InstanceId& instance) {
  const uid_t user = geteuid();
  const Result<NameOwners> names = ask_kernel(user);
  if (!names.ok()) return false;
  const auto found = names.value().find(instance);
  return found != names.value().end() && found->second != user;
}

}  // namespace amem
