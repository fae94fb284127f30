// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/message_samples.h"

namespace amem {
namespace {

std::vector<uint8_t> sample_of(size_t index) {
  std::vector<uint8_t> sample = from_hex(message_samples()[index].golden);
  EXPECT_TRUE(decode(sample).ok());
  return sample;
}

/// The sample of a type with the 16-bit count at `offset` replaced and enough bytes behind it.
std::vector<uint8_t> with_count(size_t index, size_t offset, size_t count) {
  std::vector<uint8_t> bytes = sample_of(index);
  bytes[offset] = static_cast<uint8_t>(count & 0xff);
  bytes[offset + 1] = static_cast<uint8_t>(count >> 8);
  bytes.resize(kMaxMessageBytes);
  return bytes;
}

TEST(Message, HasTheBytesOfTheWireDocument) {
  for (const MessageSample& sample : message_samples()) {
    const auto bytes = encode(sample.request_id, sample.message);

    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_EQ(bytes.value(), from_hex(sample.golden)) << name_of(sample.message);
  }
}

TEST(Message, EveryTypeHasASample) {
  const auto samples = message_samples();
  ASSERT_EQ(samples.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i].message.index(), i);
}

TEST(Message, IsReadAsItWasWritten) {
  for (const MessageSample& sample : message_samples()) {
    const auto envelope = decode(from_hex(sample.golden));

    ASSERT_TRUE(envelope.ok()) << envelope.error().message;
    EXPECT_EQ(envelope.value().request_id, sample.request_id);
    EXPECT_TRUE(envelope.value().message == sample.message) << name_of(sample.message);
  }
}

TEST(Message, IsRefusedWhenCutAnywhereOrTooLong) {
  for (const MessageSample& sample : message_samples()) {
    const std::vector<uint8_t> whole = from_hex(sample.golden);
    ASSERT_TRUE(decode(whole).ok());
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto cut = decode(std::span(whole).first(length));
      ASSERT_FALSE(cut.ok()) << name_of(sample.message) << " cut to " << length;
      EXPECT_EQ(cut.error().kind, ErrorKind::protocol);
    }
    std::vector<uint8_t> longer = whole;
    longer.push_back(0);
    EXPECT_FALSE(decode(longer).ok()) << name_of(sample.message);
  }
}

TEST(Message, WithAnyByteChangedIsRefusedOrReadWithoutLoss) {
  size_t refused = 0;
  for (const MessageSample& sample : message_samples()) {
    const std::vector<uint8_t> whole = from_hex(sample.golden);
    ASSERT_TRUE(decode(whole).ok());
    for (size_t at = 0; at < whole.size(); ++at)
      for (int value = 0; value < 256; ++value) {
        std::vector<uint8_t> changed = whole;
        changed[at] = static_cast<uint8_t>(value);
        auto envelope = decode(changed);
        if (!envelope.ok()) {
          ++refused;
          continue;
        }
        const auto again = encode(envelope.value().request_id, envelope.value().message);
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(again.value(), changed);
      }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Message, CountsOverTheirLimitsAreRefused) {
  constexpr size_t kBody = 12;
  EXPECT_FALSE(decode(with_count(1, kBody, kMaxFds + 1)).ok());              // Fetch items
  EXPECT_FALSE(decode(with_count(2, kBody, kMaxFds + 1)).ok());              // outcomes
  EXPECT_FALSE(decode(with_count(2, kBody + 5, kMaxScope + 1)).ok());        // paused_scope
  EXPECT_FALSE(decode(with_count(3, kBody + 4, kMaxScope + 1)).ok());        // Revoke
  EXPECT_FALSE(decode(with_count(4, kBody + 1, kMaxReasonBytes + 1)).ok());  // Revoked
  EXPECT_FALSE(decode(with_count(4, kBody + 7, kMaxScope + 1)).ok());        // its communicators
  EXPECT_FALSE(decode(with_count(5, kBody, kMaxFds + 1)).ok());              // Restore
  EXPECT_FALSE(decode(with_count(7, kBody, kMaxDrops + 1)).ok());            // Drop
  EXPECT_FALSE(decode(with_count(9, kBody, kMaxJsonBytes + 1)).ok());        // StatusReply
  EXPECT_FALSE(decode(std::vector<uint8_t>(kMaxMessageBytes + 1, 1)).ok());
}

TEST(Message, TheLargestOfEachTypeFitsInAPacket) {
  Fetched fetched;
  fetched.outcomes.resize(kMaxFds);
  fetched.paused_scope.resize(kMaxScope);
  Revoke revoke;
  revoke.scope.resize(kMaxScope);
  revoke.tags.resize(kMaxTags, Tag(64, 'x'));
  revoke.staying.resize(kMaxStaying);
  Drop drop;
  drop.allocations.resize(kMaxDrops);
  Fetch fetch;
  fetch.items.resize(kMaxFds);
  Revoked revoked{true, std::string(kMaxReasonBytes, 'x')};
  revoked.scope.resize(kMaxScope);
  const std::vector<std::pair<uint64_t, Message>> largest = {
      {1, fetched},
      {1, revoke},
      {0, drop},
      {1, fetch},
      {1, StatusReply{std::string(kMaxJsonBytes, ' ')}},
      {1, revoked}};

  for (const auto& [request_id, message] : largest) {
    const auto bytes = encode(request_id, message);
    ASSERT_TRUE(bytes.ok()) << bytes.error().message;
    EXPECT_LE(bytes.value().size(), kMaxMessageBytes) << name_of(message);
    EXPECT_TRUE(decode(bytes.value()).ok()) << name_of(message);
  }
}

TEST(Message, OverItsLimitsIsNotWritten) {
  Fetch fetch;
  fetch.items.resize(kMaxFds + 1);
  Drop drop;
  drop.allocations.resize(kMaxDrops + 1);
  Revoked revoked;
  revoked.scope.resize(kMaxScope + 1);

  EXPECT_EQ(encode(1, fetch).error().kind, ErrorKind::misuse);
  EXPECT_EQ(encode(0, drop).error().kind, ErrorKind::misuse);
  EXPECT_EQ(encode(1, revoked).error().kind, ErrorKind::misuse);
  EXPECT_EQ(encode(1, StatusReply{std::string(kMaxJsonBytes + 1, ' ')}).error().kind,
            ErrorKind::misuse);
}

TEST(Message, ReasonsAreCutAndCleanedNotRefused) {
  const auto bytes = encode(1, Revoked{false, "a\nb\x1b" + std::string(2000, 'x')});
  ASSERT_TRUE(bytes.ok());
  const auto envelope = decode(bytes.value());
  ASSERT_TRUE(envelope.ok());
  EXPECT_EQ(std::get<Revoked>(envelope.value().message).reason,
            "a b " + std::string(kMaxReasonBytes - 4, 'x'));
}

TEST(Message, ReasonsWithControlCharactersAreRefused) {
  std::vector<uint8_t> bytes = sample_of(4);
  constexpr size_t kFirstOfReason = 15;
  bytes[kFirstOfReason] = '\n';
  EXPECT_FALSE(decode(bytes).ok());
}

TEST(Message, RequestIdsAreWhereTheyBelong) {
  EXPECT_EQ(encode(0, StatusQuery{}).error().kind, ErrorKind::misuse);
  EXPECT_EQ(encode(5, Drop{}).error().kind, ErrorKind::misuse);

  std::vector<uint8_t> query = sample_of(8), drop = sample_of(7);
  query[4] = 0;
  drop[4] = 1;
  EXPECT_FALSE(decode(query).ok());
  EXPECT_FALSE(decode(drop).ok());
}

TEST(Message, FdsFollowFromTheContent) {
  const auto samples = message_samples();
  std::vector<size_t> fds;
  for (const MessageSample& sample : samples) fds.push_back(fds_of(sample.message));
  EXPECT_EQ(fds, (std::vector<size_t>{0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0}));
}

TEST(Message, EachRequestHasOneTypeOfReply) {
  const auto samples = message_samples();
  for (const MessageSample& request : samples) {
    const auto fitting = std::count_if(samples.begin(), samples.end(), [&](const auto& reply) {
      return answers(reply.message, request.message.index());
    });
    EXPECT_EQ(fitting, role_of(request.message) == Role::request ? 1 : 0);
  }
  EXPECT_TRUE(answers(Fetched{}, Message(Fetch{}).index()));
  EXPECT_TRUE(answers(Revoked{}, Message(Revoke{}).index()));
  EXPECT_TRUE(answers(Restored{}, Message(Restore{}).index()));
  EXPECT_TRUE(answers(StatusReply{}, Message(StatusQuery{}).index()));
}

}  // namespace
}  // namespace amem
