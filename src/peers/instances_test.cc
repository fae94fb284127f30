// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/instances.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>

#include "peers/socket_address.h"

namespace amem {
namespace {

constexpr char kHeading[] = "Num       RefCount Protocol Flags    Type St Inode Path\n";
constexpr char kListens[] = "00010000 0005 01", kConnected[] = "00000000 0005 03";

const InstanceId kOne{{0x0123456789abcdef, 0xfedcba9876543210}};
const InstanceId kOther{{0, 1}};

/// The name as the table shows it: '@' for the NUL in front.
std::string shown(const InstanceId& instance) { return "@" + socket_name(instance).substr(1); }
std::string of_user(uid_t uid, const InstanceId& instance) {
  return "@amem-" + std::to_string(uid) + "-" + instance.hex();
}

/// A line of /proc/net/unix.
std::string line(const std::string& name, const std::string& how = kListens) {
  return "0000000000000000: 00000002 00000000 " + how + " 24680 " + name + "\n";
}

TEST(InstancesIn, FindsTheSocketsOfThisUser) {
  const std::string table = kHeading + line("@/tmp/.X11-unix/X0") + line(shown(kOne)) +
                            line("/run/systemd/notify") + line(shown(kOther));

  EXPECT_EQ(instances_in(table), (std::set<InstanceId>{kOne, kOther}));
}

TEST(InstancesIn, FindsNoneInAnEmptyTable) {
  EXPECT_TRUE(instances_in("").empty());
  EXPECT_TRUE(instances_in(kHeading).empty());
  EXPECT_TRUE(instances_in("\n\n \n").empty());
}

// Each connection that a process accepted has the name of its listening socket.
TEST(InstancesIn, ConnectionsAreTheSameInstance) {
  const std::string table = kHeading + line(shown(kOne)) + line(shown(kOne), kConnected) +
                            line(shown(kOne), kConnected) + line("", kConnected);

  EXPECT_EQ(instances_in(table), std::set<InstanceId>{kOne});
}

TEST(InstancesIn, OtherUsersAreNotOurs) {
  const uid_t self = geteuid();
  const std::string table = kHeading + line(of_user(self + 1, kOne)) +
                            // Our number is the beginning of theirs.
                            line(of_user(self * 10 + 10, kOne)) +
                            line("@amem-" + std::to_string(self) + "0-" + kOne.hex()) +
                            line("@amem-0" + std::to_string(self) + "-" + kOne.hex()) +
                            line(of_user(self, kOther));

  EXPECT_EQ(instances_in(table), std::set<InstanceId>{kOther});
}

TEST(InstancesIn, NamesThatAreNotOfOurShapeAreNoInstances) {
  const std::string good = shown(kOne);
  std::string not_hex = good, spaced = good, minus = good;
  not_hex.back() = 'g';
  spaced[spaced.size() - 16] = ' ';
  minus[minus.size() - 32] = '-';
  const std::string bad[] = {not_hex,        spaced,
                             minus,          good.substr(0, good.size() - 1),  // too short
                             good + "0",                                       // too long
                             good + "@@@@",   // bound with the whole sun_path
                             good.substr(1),  // a path in the file system
                             "@" + good,     "@amem-" + std::to_string(geteuid()) + "-",
                             "@amem-"};
  std::string table = kHeading;
  for (const std::string& name : bad) {
    EXPECT_TRUE(instances_in(kHeading + line(name)).empty()) << name;
    table += line(name);
  }

  EXPECT_EQ(instances_in(table + line(shown(kOther))), std::set<InstanceId>{kOther});
}

TEST(InstancesIn, LastLineNeedsNoEnd) {
  std::string table = kHeading + line(shown(kOne));
  table.pop_back();
  EXPECT_EQ(instances_in(table), std::set<InstanceId>{kOne});

  // A table that was cut in the name.
  table.resize(table.size() - 5);
  EXPECT_TRUE(instances_in(table).empty());
}

TEST(InstancesOfThisUser, AreThoseThatListen) {
  const InstanceId self = random_instance_id(), absent = random_instance_id();
  Result<UniqueFd> listener = listen_at(self);
  ASSERT_TRUE(listener.ok()) << listener.error().message;

  Result<std::set<InstanceId>> found = instances_of_this_user();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found.value().contains(self));
  EXPECT_FALSE(found.value().contains(absent));
  EXPECT_FALSE(is_name_taken(self));

  listener.value().reset();
  found = instances_of_this_user();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_FALSE(found.value().contains(self));
}

// More than is read at once: a machine may have thousands of sockets.
TEST(InstancesOfThisUser, AreAllFoundInALongTable) {
  constexpr size_t kSockets = 800;
  std::vector<UniqueFd> listeners;
  std::set<InstanceId> expected;
  for (size_t i = 0; i < kSockets; ++i) {
    const InstanceId instance = random_instance_id();
    Result<UniqueFd> listener = listen_at(instance);
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    listeners.push_back(std::move(listener.value()));
    expected.insert(instance);
  }

  for (const auto& found : {instances_of_this_user(), instances_shown()}) {
    ASSERT_TRUE(found.ok()) << found.error().message;
    for (const InstanceId& instance : expected) EXPECT_TRUE(found.value().contains(instance));
  }
}

/// Listens as user `uid` at a name of ours until its input ends.
void pretend(uid_t uid, const std::string& name, int ready, int input) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  name.copy(at.sun_path, sizeof at.sun_path);
  const auto size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  char word = 'n';
  if (setresuid(uid, uid, uid) == 0) {
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&at), size_bytes) == 0 && listen(fd, 1) == 0)
      word = 'y';
  }
  if (write(ready, &word, 1) == 1 && read(input, &word, 1) < 0) _exit(1);
  _exit(0);
}

TEST(InstancesOfThisUser, AreNotThoseThatAnotherUserPretendsToHave) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  if (!UniqueFd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)).valid())
    GTEST_SKIP() << "this kernel does not say whose a socket is (no sock_diag)";
  const InstanceId pretended = random_instance_id();
  int ready[2], input[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(input, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(input[1]);
    pretend(65534, socket_name(pretended, 0), ready[1], input[0]);
  }
  const UniqueFd answer(ready[0]), unused(ready[1]), end(input[0]);
  UniqueFd life(input[1]);
  char word = 0;
  ASSERT_EQ(read(answer.get(), &word, 1), 1);
  ASSERT_EQ(word, 'y');

  const Result<std::set<InstanceId>> shown = instances_shown();
  const Result<std::set<InstanceId>> found = instances_of_this_user();
  const bool taken = is_name_taken(pretended);
  life.reset();
  waitpid(child, nullptr, 0);

  ASSERT_TRUE(shown.ok() && found.ok());
  EXPECT_TRUE(shown.value().contains(pretended));
  EXPECT_FALSE(found.value().contains(pretended));
  EXPECT_TRUE(taken);
  EXPECT_FALSE(is_name_taken(pretended));
}

// --- The kernel's answer

constexpr uint16_t kName = 0, kUser = 7;  // UNIX_DIAG_NAME, UNIX_DIAG_UID of linux/unix_diag.h

void append(std::string& to, const void* bytes, size_t size_bytes) {
  to.append(static_cast<const char*>(bytes), size_bytes);
  to.resize((to.size() + 3) / 4 * 4);
}

std::string attribute(uint16_t type, std::string_view value) {
  const rtattr head{static_cast<uint16_t>(sizeof head + value.size()), type};
  std::string out;
  append(out, &head, sizeof head);
  append(out, value.data(), value.size());
  return out;
}

std::string message(uint16_t type, std::string_view body) {
  const nlmsghdr head{static_cast<uint32_t>(sizeof head + body.size()), type, NLM_F_MULTI, 1, 1};
  std::string out;
  append(out, &head, sizeof head);
  append(out, body.data(), body.size());
  return out;
}

/// A socket of this name; whose it is when the kernel says so.
std::string socket_message(std::string_view name, std::optional<uint32_t> user) {
  unix_diag_msg fixed{};
  std::string body(reinterpret_cast<const char*>(&fixed), sizeof fixed);
  body += attribute(kName, name);
  if (user) body += attribute(kUser, {reinterpret_cast<const char*>(&*user), sizeof *user});
  return message(SOCK_DIAG_BY_FAMILY, body);
}

Result<bool> take(const std::string& answer, NameOwners* found) {
  return take_names({reinterpret_cast<const uint8_t*>(answer.data()), answer.size()}, 7, found);
}

TEST(TakeNames, FindsThoseOfTheUserAndWhoHasThem) {
  NameOwners found;
  const InstanceId pretended = random_instance_id();
  const Result<bool> more =
      take(socket_message(socket_name(kOne, 7), 7) + socket_message("/run/notify", 7) +
               socket_message(socket_name(pretended, 7), 8) +
               socket_message(socket_name(random_instance_id(), 8), 8) +
               socket_message(socket_name(kOther, 7), std::nullopt),
           &found);

  ASSERT_TRUE(more.ok()) << more.error().message;
  EXPECT_TRUE(more.value());
  EXPECT_EQ(found, (NameOwners{{kOne, 7}, {pretended, 8}, {kOther, 7}}));
}

TEST(TakeNames, EndsWhereTheDumpEnds) {
  NameOwners found;
  const int32_t none = 0;
  const Result<bool> more =
      take(message(NLMSG_DONE, {reinterpret_cast<const char*>(&none), sizeof none}), &found);
  ASSERT_TRUE(more.ok());
  EXPECT_FALSE(more.value());
}

TEST(TakeNames, SaysWhyTheKernelRefuses) {
  NameOwners found;
  const int32_t code = -ENOENT;
  const Result<bool> more =
      take(message(NLMSG_ERROR, {reinterpret_cast<const char*>(&code), sizeof code}), &found);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ENOENT);
}

TEST(TakeNames, IsNoAnswerWhenCut) {
  const std::string whole = socket_message(socket_name(kOne, 7), 7);
  for (size_t length = 1; length < whole.size(); ++length) {
    NameOwners found;
    EXPECT_FALSE(take(whole.substr(0, length), &found).ok()) << length;
    EXPECT_TRUE(found.empty()) << length;
  }
}

}  // namespace
}  // namespace amem
