// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/support/message_equality.h"
#include "tests/support/message_samples.h"

namespace amem {
namespace {

std::vector<uint8_t> sample_of(size_t index) {
  std::vector<uint8_t> sample = from_hex(message_samples()[index].golden);
  EXPECT_TRUE(decode(sample).ok());
  return sample;
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

/// A list or text of a message, with so many elements of so many bytes.
struct Limited {
  size_t most, count_at, element_bytes;
  std::function<Message(size_t)> with;
};

const std::vector<Limited>& all_limited() {
  static const std::vector<Limited> all = {
      {kMaxFds, 12, 17, [](size_t n) { return Fetch{std::vector<Fetch::Item>(n)}; }},
      {kMaxFds, 12, 1,
       [](size_t n) {
         return Fetched{std::vector<Fetched::Outcome>(n), {}, ""};
       }},
      {kMaxScope, 14, 16,
       [](size_t n) {
         return Fetched{{}, std::vector<ScopeId>(n), ""};
       }},
      {kMaxTags, 16, 3,
       [](size_t n) {
         return Revoke{1, std::vector<Tag>(n, "a"), {}};
       }},
      {kMaxTagBytes, 18, 1,
       [](size_t n) {
         return Revoke{1, {Tag(n, 'a')}, {}};
       }},
      {kMaxScope, 18, 16,
       [](size_t n) {
         return Revoke{1, {}, std::vector<ScopeId>(n)};
       }},
      {kMaxStaying, 20, 8,
       [](size_t n) {
         return Revoke{1, {}, {}, std::vector<uint64_t>(n)};
       }},
      {kMaxReasonBytes, 13, 1,
       [](size_t n) {
         return Revoked{false, std::string(n, 'x')};
       }},
      {kMaxScope, 15, 16,
       [](size_t n) {
         return Revoked{true, "", std::vector<ScopeId>(n)};
       }},
      {kMaxTagBytes, 12, 1, [](size_t n) { return Restore{Tag(n, 'a')}; }},
      {kMaxDrops, 12, 8, [](size_t n) { return Drop{std::vector<AllocationId>(n)}; }},
      {kMaxJsonBytes, 12, 1, [](size_t n) { return StatusReply{std::string(n, ' ')}; }},
      {kMaxTagBytes, 12, 1, [](size_t n) { return ResumeRequest{Tag(n, 'a')}; }},
      {kMaxTags, 33, 3,
       [](size_t n) {
         return Control{Control::Action::pause, 0, 0, 0, std::vector<Tag>(n, "a")};
       }},
      {kMaxReasonBytes, 33, 1, [](size_t n) {
         return ControlReply{false, false, ControlReply::State::running, 0,
                             0,     "",    std::string(n, 'x')};
       }}};
  return all;
}

uint64_t id_for(const Message& message) { return role_of(message) == Role::notice ? 0 : 1; }

TEST(Message, IsReadUpToItsLimitsAndNoFurther) {
  for (const Limited& limited : all_limited()) {
    const Message at = limited.with(limited.most);
    std::vector<uint8_t> bytes = encode(id_for(at), at).value();
    ASSERT_TRUE(decode(bytes).ok()) << name_of(at) << " " << limited.most;
    ASSERT_EQ(bytes[limited.count_at] | bytes[limited.count_at + 1] << 8,
              static_cast<int>(limited.most));
    bytes[limited.count_at] = (limited.most + 1) & 0xff;
    bytes[limited.count_at + 1] = static_cast<uint8_t>((limited.most + 1) >> 8);
    const auto first = bytes.begin() + static_cast<ptrdiff_t>(limited.count_at) + 2;
    const std::vector<uint8_t> element(first,
                                       first + static_cast<ptrdiff_t>(limited.element_bytes));
    bytes.insert(first, element.begin(), element.end());

    const auto past = decode(bytes);

    ASSERT_FALSE(past.ok()) << name_of(at) << " " << limited.most;
    EXPECT_NE(past.error().message.find("over its limits"), std::string::npos)
        << past.error().message;
  }
  EXPECT_FALSE(decode(std::vector<uint8_t>(kMaxMessageBytes + 1, 1)).ok());
}

// But a reason, which is cut.
TEST(Message, IsWrittenUpToItsLimitsAndNoFurther) {
  for (const Limited& limited : all_limited()) {
    if (limited.most == kMaxReasonBytes) continue;
    const Message past = limited.with(limited.most + 1);

    const auto refused = encode(id_for(past), past);

    ASSERT_FALSE(refused.ok()) << name_of(past) << " " << limited.most;
    EXPECT_EQ(refused.error().kind, ErrorKind::misuse);
  }
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
  EXPECT_EQ(fds, (std::vector<size_t>{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0}));
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
