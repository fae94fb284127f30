// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/socket_address.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

namespace amem {
namespace {

/// Skips where this process cannot become another user.
#define AMEM_NEEDS_ROOT() \
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user"

constexpr uid_t kOtherUser = 54321;

/// What `look` returns in a process of another user.
int as_other_user(const std::function<int()>& look) {
  const pid_t child = fork();
  if (child == 0) _exit(setresuid(kOtherUser, kOtherUser, kOtherUser) == 0 ? look() : 99);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

TEST(SocketAddress, InstancesAreThoseThatListen) {
  const InstanceId self = random_instance_id(), absent = random_instance_id();
  const Result<UniqueFd> listener = listen_at(self);
  ASSERT_TRUE(listener.ok()) << listener.error().message;

  const Result<std::set<InstanceId>> found = instances_of_this_user();

  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found.value().contains(self));
  EXPECT_FALSE(found.value().contains(absent));
  unlink(socket_path(self).c_str());
}

TEST(SocketAddress, OneThatNobodyListensAtIsAPeerErrorAndIsRemoved) {
  const InstanceId id = random_instance_id();
  ASSERT_TRUE(listen_at(id).ok());  // and is closed
  ASSERT_TRUE(exists(socket_path(id)));

  for (int again = 0; again < 2; ++again) {
    const Result<UniqueFd> dialled = dial(id);
    ASSERT_FALSE(dialled.ok());
    EXPECT_EQ(dialled.error().kind, ErrorKind::peer);
    EXPECT_FALSE(exists(socket_path(id)));
  }
}

TEST(SocketAddress, WhatElseLiesThereIsNoInstance) {
  const InstanceId id = random_instance_id();
  const std::string path = socket_path(id);
  const std::string others[] = {path + "0", path + ".new", path.substr(0, path.size() - 1),
                                path.substr(0, path.size() - 1) + "G"};
  ASSERT_TRUE(listen_at(id).ok());
  for (const std::string& other : others)
    UniqueFd(open(other.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));

  const Result<std::set<InstanceId>> found = instances_of_this_user();

  for (const std::string& other : others) unlink(other.c_str());
  unlink(path.c_str());
  ASSERT_TRUE(found.ok()) << found.error().message;
  for (const InstanceId& one : found.value())
    EXPECT_TRUE(one == id || one.hex().substr(0, 31) != id.hex().substr(0, 31));
}

TEST(SocketAddress, ProcessAtTheOtherEndIsKnownAndWatched) {
  const InstanceId id = random_instance_id();
  const Result<UniqueFd> listener = listen_at(id);
  ASSERT_TRUE(listener.ok());
  int life[2];
  ASSERT_EQ(pipe2(life, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(life[1]);
    const Result<UniqueFd> connection = dial(id);
    char byte;
    _exit(connection.ok() && read(life[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(life[0]);
  UniqueFd end(life[1]);
  pollfd arrival{listener.value().get(), POLLIN, 0};
  ASSERT_EQ(poll(&arrival, 1, 20000), 1);
  const UniqueFd accepted(accept4(listener.value().get(), nullptr, nullptr, SOCK_CLOEXEC));

  const Result<pid_t> pid = pid_of_peer(accepted.get());
  const UniqueFd process = process_of_peer(accepted.get());

  ASSERT_TRUE(pid.ok() && process.valid());
  EXPECT_EQ(pid.value(), child);
  pollfd ended{process.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0) << "it lives";
  end.reset();
  EXPECT_EQ(poll(&ended, 1, 20000), 1);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  unlink(socket_path(id).c_str());
}

TEST(SocketAddress, AnotherUserNeitherConnectsNorSeesWhoListens) {
  AMEM_NEEDS_ROOT();
  const InstanceId id = random_instance_id();
  const Result<UniqueFd> listener = listen_at(id);
  ASSERT_TRUE(listener.ok());
  const std::string path = socket_path(id);
  const std::string folder = path.substr(0, path.rfind('/'));
  // The addresses of user 0, which dial() of another user does not go to.
  const int outcome = as_other_user([&] {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    const UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return 1;
    if (errno != EACCES) return 2;
    return open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) >= 0 ? 3 : 0;
  });
  EXPECT_EQ(outcome, 0);
  unlink(path.c_str());
}

TEST(SocketAddress, DirectoryThatOthersMayEnterIsRefused) {
  AMEM_NEEDS_ROOT();
  const std::string folder = "/dev/shm/amem-" + std::to_string(kOtherUser);
  const auto refused = [] {
    const Result<UniqueFd> listener = listen_at(random_instance_id());
    return !listener.ok() && listener.error().code == EPERM && !instances_of_this_user().ok() ? 0
                                                                                              : 1;
  };
  rmdir(folder.c_str());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  EXPECT_NE(as_other_user(refused), 1) << "it is root's";
  ASSERT_EQ(chown(folder.c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0750), 0);
  EXPECT_EQ(as_other_user(refused), 0) << "its group may enter";
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(as_other_user([] {
              const InstanceId id = random_instance_id();
              const bool listens = listen_at(id).ok();
              unlink(socket_path(id).c_str());
              return listens ? 0 : 1;
            }),
            0);
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

}  // namespace
}  // namespace amem
