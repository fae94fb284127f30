// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Groups that meet over a folder and over TCP: what they gather, and what they say when a rank is
// missing or does not belong. The ranks are threads.
#include "amem/groups.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <future>

#include "tests/process/meeting.h"
#include "tests/slowdown.h"

namespace amem::symmetric {
namespace {

using Make = std::function<std::unique_ptr<Group>(int rank)>;

/// The error text of each rank, or "" after `exchanges` exchanges in which it got all numbers.
std::vector<std::string> run(const std::vector<int>& ranks, int world_size, const Make& make,
                             int exchanges = 3) {
  std::vector<std::future<std::string>> running;
  for (const int rank : ranks)
    running.push_back(std::async(std::launch::async, [=]() -> std::string {
      try {
        const std::unique_ptr<Group> group = make(rank);
        for (int i = 0; i < exchanges; ++i) {
          const int mine = 100 * i + rank;
          std::vector<int> all(static_cast<size_t>(world_size), -1);
          group->all_gather(&mine, sizeof mine, all.data());
          for (int from = 0; from < world_size; ++from)
            if (all[static_cast<size_t>(from)] != 100 * i + from) return "another number";
        }
        return "";
      } catch (const std::exception& error) {
        return error.what();
      }
    }));
  std::vector<std::string> texts;
  for (auto& each : running) texts.push_back(each.get());
  return texts;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

constexpr int kLongMs = 20000 * kSlowdown, kShortMs = 200;

class Groups : public testing::Test {
 protected:
  /// A port that is free now.
  static std::string free_address() {
    const detail::Descriptor probe(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(0, bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size));
    EXPECT_EQ(0, getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size));
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  Make tcp(int world_size, int timeout_ms) const {
    return [=, address = address_](int rank) {
      return std::make_unique<TcpGroup>(address, rank, world_size, timeout_ms);
    };
  }
  Make files(const std::string& name, int world_size, int timeout_ms) const {
    return [=, folder = meeting_.folder().string()](int rank) {
      return std::make_unique<FileGroup>(folder, name, rank, world_size, timeout_ms);
    };
  }

  const Meeting meeting_;
  const std::string address_ = free_address();
};

using Texts = std::vector<std::string>;

TEST_F(Groups, GatherTheBytesOfAllRanks) {
  EXPECT_EQ(run({0, 1, 2}, 3, tcp(3, kLongMs)), Texts(3));
  EXPECT_EQ(run({0, 1, 2}, 3, files("a", 3, kLongMs)), Texts(3));
  EXPECT_EQ(run({0}, 1, tcp(1, kLongMs)), Texts(1));
  EXPECT_EQ(run({0}, 1, files("b", 1, kLongMs)), Texts(1));
}

TEST_F(Groups, NameTheRankThatIsMissing) {
  const Texts over_tcp = run({0, 2}, 3, tcp(3, kShortMs));
  EXPECT_TRUE(has(over_tcp[0], "rank 1 did not connect within 200 ms")) << over_tcp[0];
  EXPECT_TRUE(has(over_tcp[1], "rank 0")) << over_tcp[1];
  const Texts without_first = run({1}, 2, tcp(2, kShortMs));
  EXPECT_TRUE(has(without_first[0], "rank 0 did not listen at 127.0.0.1")) << without_first[0];
  const Texts over_files = run({0, 2}, 3, files("a", 3, kShortMs));
  for (const std::string& text : over_files) EXPECT_TRUE(has(text, "rank 1 did not write")) << text;
}

/// The error of a call, or "" if the rank got the number of each rank: `number` and the rank.
std::string gather(Group& group, int number) {
  try {
    const int mine = number + group.rank();
    std::vector<int> all(static_cast<size_t>(group.world_size()), -1);
    group.all_gather(&mine, sizeof mine, all.data());
    for (int from = 0; from < group.world_size(); ++from)
      if (all[static_cast<size_t>(from)] != number + from) return "another number";
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string gather_both(Group& first, Group& second, int number) {
  auto other = std::async(std::launch::async, [&] { return gather(second, number); });
  const std::string text = gather(first, number);
  return text + other.get();
}

TEST_F(Groups, LateRankTakesNothingOfAnExchangeThatHasFailed) {
  constexpr int kOftenEnoughMs = 1000 * kSlowdown;
  for (const int early : {0, 1})
    for (const auto& make :
         {tcp(2, kOftenEnoughMs), files("a" + std::to_string(early), 2, kOftenEnoughMs)}) {
      auto second = std::async(std::launch::async, [&] { return make(1); });
      const std::unique_ptr<Group> first = make(0), other = second.get();
      EXPECT_EQ(gather_both(*first, *other, 100), "");
      Group& early_one = early == 0 ? *first : *other;
      Group& late_one = early == 0 ? *other : *first;
      const std::string given_up = gather(early_one, 200);
      EXPECT_TRUE(has(given_up, "rank " + std::to_string(1 - early) + " did not")) << given_up;
      const std::string alone = gather(late_one, 300);
      EXPECT_TRUE(has(alone, "rank " + std::to_string(early) + " ")) << alone;
      for (const int number : {400, 500}) EXPECT_EQ(gather_both(*first, *other, number), "");
    }
}

TEST_F(Groups, NameTheRankThatLeaves) {
  // Rank 1 takes part in two exchanges, the others in three.
  auto leaver = std::async(std::launch::async, [&] { return run({1}, 2, tcp(2, kLongMs), 2); });
  const Texts texts = run({0}, 2, tcp(2, kLongMs), 3);
  EXPECT_EQ(leaver.get(), Texts(1));
  EXPECT_TRUE(has(texts[0], "rank 1 has closed its connection")) << texts[0];
}

TEST_F(Groups, RefuseARankThatDoesNotBelong) {
  const Texts twice = run({0, 1, 1}, 3, tcp(3, kLongMs));
  EXPECT_TRUE(has(twice[0], "a second process says that it is rank 1")) << twice[0];

  auto first = std::async(std::launch::async, [&] { return run({0}, 2, tcp(2, kLongMs)); });
  const Texts other_size = run({1}, 2, tcp(5, kLongMs));
  EXPECT_TRUE(has(other_size[0], "rank 0 has a group of 2 ranks, not 5")) << other_size[0];
  const std::string text = first.get()[0];
  EXPECT_TRUE(has(text, "rank 1 has a group of 5 ranks, not 2")) << text;
}

TEST_F(Groups, RefuseAConnectionOfAnotherProgram) {
  auto first = std::async(std::launch::async, [&] { return run({0}, 2, tcp(2, kLongMs)); });
  const detail::Countdown countdown(kLongMs);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<uint16_t>(std::stoi(address_.substr(address_.find(':') + 1))));
  const detail::Descriptor stranger(socket(AF_INET, SOCK_STREAM, 0));
  while (connect(stranger.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    countdown.wait_a_moment("rank 0 did not listen");
  ASSERT_EQ(18, send(stranger.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL));
  const std::string text = first.get()[0];
  EXPECT_TRUE(has(text, "is no rank of amem")) << text;
}

TEST_F(Groups, RefuseAUsedNameAndAnotherSize) {
  EXPECT_EQ(run({0, 1}, 2, files("a", 2, kLongMs)), Texts(2));
  // The files of the last exchange are there.
  for (const std::string& text : run({0, 1}, 2, files("a", 2, kLongMs)))
    EXPECT_TRUE(has(text, "the name of a group is used once") || has(text, "another version"))
        << text;
  FileGroup one(meeting_.folder().string(), "sizes", 0, 2, kLongMs);
  auto other = std::async(std::launch::async, [&] {
    FileGroup two(meeting_.folder().string(), "sizes", 1, 2, kLongMs);
    char all[16];
    EXPECT_THROW(two.all_gather("12345678", 8, all), std::runtime_error);
  });
  char all[8];
  EXPECT_THROW(one.all_gather("1234", 4, all), std::runtime_error);
  other.get();
  EXPECT_THROW(TcpGroup("localhost", 0, 1), std::runtime_error);
}

}  // namespace
}  // namespace amem::symmetric
