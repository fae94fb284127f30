// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/instances.h"

#include <gtest/gtest.h>
#include <unistd.h>

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

  const Result<std::set<InstanceId>> found = instances_of_this_user();

  ASSERT_TRUE(found.ok()) << found.error().message;
  for (const InstanceId& instance : expected) EXPECT_TRUE(found.value().contains(instance));
}

}  // namespace
}  // namespace amem
