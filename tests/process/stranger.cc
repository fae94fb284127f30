// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "tests/process/stranger.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "base/deadline.h"
#include "base/identity.h"
#include "base/unique_fd.h"
#include "peers/lingering_fixture.h"
#include "tests/slowdown.h"

namespace amem {
namespace {

constexpr long kPatienceMs = 10000 * kSlowdown;

struct Address {
  sockaddr_un address{};
  socklen_t size_bytes = 0;
};

Address address_of(const std::string& name) {
  Address out;
  out.address.sun_family = AF_UNIX;
  name.copy(out.address.sun_path, sizeof out.address.sun_path);
  out.size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return out;
}

UniqueFd packet_socket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// Connected, or an invalid one when there is no room in the queue or nobody listens.
UniqueFd connect_to(const std::string& name) {
  UniqueFd fd = packet_socket();
  const Address at = address_of(name);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size_bytes) != 0)
    fd.reset();
  return fd;
}

/// The same, waited for.
UniqueFd connect_in_time(const std::string& name) {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (;;) {
    UniqueFd fd = connect_to(name);
    if (fd.valid() || errno != EAGAIN || deadline.passed()) return fd;
    poll(nullptr, 0, 1);
  }
}

void send_packet(int to, const std::vector<uint8_t>& bytes, const std::vector<int>& fds) {
  iovec data{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  std::vector<char> room(CMSG_SPACE(fds.size() * sizeof(int)));
  if (!fds.empty()) {
    header.msg_control = room.data();
    header.msg_controllen = room.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  // Whether it was taken shows in what comes back.
  static_cast<void>(sendmsg(to, &header, MSG_NOSIGNAL));
}

enum class Came { something, nothing, end };

/// Counts what lies in `from`, one packet of it.
Came take_one(int from, Loot& loot) {
  std::array<char, 1 << 16> bytes;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(253 * sizeof(int))> control;
  iovec data{bytes.data(), bytes.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t got = recvmsg(from, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && errno == EAGAIN) return Came::nothing;
  if (got <= 0) return Came::end;
  loot.bytes += static_cast<uint64_t>(got);
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part))
    if (part->cmsg_type == SCM_RIGHTS) loot.fds += (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  return Came::something;
}

/// Counts what comes from `from` until its end.
void take_all(int from, Loot& loot) {
  for (const Deadline deadline = Deadline::after_ms(kPatienceMs); !deadline.passed();) {
    pollfd wait{from, POLLIN, 0};
    poll(&wait, 1, deadline.left_ms());
    if (take_one(from, loot) == Came::end) return;
  }
  ++loot.left_open;
}

/// Listens at a name with a queue that is full: whoever comes finds no room. False, with errno set,
/// when the name is not free.
bool close_door(const std::string& name, std::vector<UniqueFd>& kept) {
  const Address at = address_of(name);
  UniqueFd listener = packet_socket();
  if (!listener.valid() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&at.address), at.size_bytes) != 0 ||
      listen(listener.get(), 0) != 0)
    return false;
  kept.push_back(std::move(listener));
  kept.push_back(connect_to(name));
  return true;
}

int become(uid_t uid) {
  if (uid == geteuid()) return 0;
  const auto gid = static_cast<gid_t>(uid);
  if (setgroups(0, nullptr) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
    return errno;
  return 0;
}

}  // namespace

SocketNames sockets_of(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::set<std::string> inodes;
  if (DIR* folder = opendir((process + "/fd").c_str())) {
    while (const dirent* entry = readdir(folder)) {
      char target[64] = {};
      if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0)
        inodes.insert(target);
    }
    closedir(folder);
  }
  std::set<std::string> names;
  std::ifstream table(process + "/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string skipped, inode, name;
    for (int i = 0; i < 6; ++i) words >> skipped;
    words >> inode >> name;
    if (name.starts_with("@amem-") && inodes.contains("socket:[" + inode + "]")) names.insert(name);
  }
  SocketNames out(names.begin(), names.end());
  for (std::string& name : out) name.front() = '\0';
  return out;
}

Attacker::Attacker(uid_t uid, const SocketNames& names, const Attack& attack) {
  void* const shared =
      mmap(nullptr, sizeof(Loot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return;
  loot_ = ::new (shared) Loot;
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ != 0) return;
  loot_->error = become(uid);
  // After the change of user, which clears it (prctl(2)).
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  while (loot_->error == 0 && getppid() == parent) {
    attack(names, *loot_);
    ++loot_->rounds;
  }
  _exit(0);
}

Attacker::~Attacker() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (loot_ != nullptr) munmap(loot_, sizeof(Loot));
}

bool Attacker::wait_for_rounds(uint64_t more) const {
  const Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (const uint64_t wanted = loot_->rounds + more; loot_->rounds < wanted;) {
    if (deadline.passed() || loot_->error != 0) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

Attack hold_connections(size_t count) {
  auto held = std::make_shared<std::vector<UniqueFd>>();
  return [held, count](const SocketNames& names, Loot& loot) {
    held->clear();
    for (const std::string& name : names)
      for (size_t i = 0; i < count; ++i) held->push_back(connect_in_time(name));
    for (const UniqueFd& connection : *held) take_all(connection.get(), loot);
  };
}

Attack flood(size_t count) {
  return [count](const SocketNames& names, Loot&) {
    for (size_t i = 0; i < count; ++i)
      for (const std::string& name : names) connect_to(name);
  };
}

Attack say(std::vector<uint8_t> greeting, std::vector<Words> words) {
  return [greeting = std::move(greeting), words = std::move(words)](const SocketNames& names,
                                                                    Loot& loot) {
    const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (const std::string& name : names)
      for (const Words& one : words) {
        const UniqueFd connection = connect_in_time(name);
        send_packet(connection.get(), greeting, {});
        send_packet(connection.get(), one.bytes, std::vector<int>(one.fds, null.get()));
        take_all(connection.get(), loot);
      }
  };
}

Attack say_cut(std::vector<uint8_t> packet) {
  return [packet = std::move(packet)](const SocketNames& names, Loot& loot) {
    for (const std::string& name : names)
      for (size_t length = 0; length <= packet.size(); ++length) {
        const UniqueFd connection = connect_in_time(name);
        send_packet(connection.get(), {packet.begin(), packet.begin() + ptrdiff_t(length)}, {});
        if (length == packet.size())
          send_packet(connection.get(), std::vector<uint8_t>(100'000, 1), {});
        take_all(connection.get(), loot);
      }
  };
}

Attack send_lingering_sockets(size_t count) {
  auto children = std::make_shared<size_t>(0);
  return [children, count](const SocketNames& names, Loot&) {
    for (; *children < count * names.size(); ++*children) {
      const std::string& name = names[*children % names.size()];
      // Of the two who hold it now, the one that closes it last waits. Should that be us, it is a
      // child that waits.
      if (fork() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      LingeringConnection one;
      UniqueFd connection = connect_in_time(name);
      send_packet(connection.get(), {1}, {one.sender.get()});
      one.sender.reset();
      for (;;) pause();
    }
    poll(nullptr, 0, 1);
  };
}

Attack forge_names(uid_t user, size_t count) {
  auto kept = std::make_shared<std::vector<UniqueFd>>();
  return [kept, user, count](const SocketNames&, Loot& loot) {
    while (kept->size() < 2 * count) {
      const std::string name =
          std::string(1, '\0') + "amem-" + std::to_string(user) + "-" + random_instance_id().hex();
      if (!close_door(name, *kept)) {
        if (errno != EMFILE) loot.error = errno;
        break;
      }
    }
    poll(nullptr, 0, 1);
  };
}

Attack take_names() {
  auto kept = std::make_shared<std::vector<UniqueFd>>();
  return [kept](const SocketNames& names, Loot&) {
    while (kept->empty())
      for (const std::string& name : names) close_door(name, *kept);
    poll(nullptr, 0, 1);
  };
}

}  // namespace amem
