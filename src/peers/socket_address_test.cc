// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/socket_address.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "peers/connection.h"

namespace amem {
namespace {

const InstanceId kInstance{{0x0123456789abcdef, 0xfedcba9876543210}};

TEST(InstanceOf, IsThatOfItsName) {
  EXPECT_EQ(instance_of(socket_name(kInstance)), kInstance);
  EXPECT_EQ(instance_of(socket_name(kInstance, 7), 7), kInstance);
}

TEST(InstanceOf, NothingElseIsAName) {
  const std::string name = socket_name(kInstance, 7);
  std::string capital = name, no_digit = name, in_front = name;
  capital[capital.find('a', 6)] = 'A';
  no_digit.back() = 'g';
  in_front.front() = '@';
  EXPECT_EQ(instance_of(name, 8), std::nullopt);
  for (const std::string& other :
       {capital, no_digit, in_front, name + "0", name.substr(0, name.size() - 1), std::string()})
    EXPECT_EQ(instance_of(other, 7), std::nullopt) << other;
}

ucred of_user(uid_t uid) { return {0, uid, 0}; }

TEST(IsOfThisUser, OnlyThisOne) {
  EXPECT_TRUE(is_of_this_user(of_user(geteuid())));
  EXPECT_FALSE(is_of_this_user(of_user(geteuid() + 1)));
}

// All that have no number in a user namespace have the same one, and so has this process in a new
// one: that the numbers are equal says nothing.
TEST(IsOfThisUser, NobodyWhereUsersHaveNoNumbers) {
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(2);
    const bool same_number = geteuid() == 65534;
    _exit(same_number && !is_of_this_user(of_user(geteuid())) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no user namespace to be had";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Linux 6.16; before, they come, and are closed on arrival.
TEST(AllowFds, NoneComeBefore) {
  Result<UniqueFd> listener = listen_at(kInstance);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  int inherited = 1;
  socklen_t size_bytes = sizeof inherited;
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS
  if (getsockopt(listener.value().get(), SOL_SOCKET, kPassRights, &inherited, &size_bytes) != 0)
    GTEST_SKIP() << "this kernel has no SO_PASSRIGHTS";
  Result<UniqueFd> dialled = dial(kInstance);
  ASSERT_TRUE(dialled.ok());
  FdLedger ledger;
  Connection from(TrackedFd(ledger, std::move(dialled.value())));
  OutPacket packet{{1}, {}};
  packet.fds.emplace_back(ledger, UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  from.queue(std::move(packet));
  Result<Connection::Flushed> flushed = from.flush();
  ASSERT_TRUE(flushed.ok()) << flushed.error().message;
  EXPECT_EQ(flushed.value(), Connection::Flushed::starved);

  const int accepted =
      accept4(listener.value().get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  ASSERT_GE(accepted, 0);
  Connection to(TrackedFd(ledger, UniqueFd(accepted)));
  allow_fds(accepted);
  flushed = from.flush();
  ASSERT_TRUE(flushed.ok()) << flushed.error().message;
  EXPECT_EQ(flushed.value(), Connection::Flushed::all);
  Result<Arrival> arrival = to.receive();
  ASSERT_TRUE(arrival.ok()) << arrival.error().message;
  EXPECT_EQ(arrival.value().fds.size(), 1u);
}

}  // namespace
}  // namespace amem
