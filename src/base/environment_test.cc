// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/environment.h"

#include <gtest/gtest.h>

namespace amem {
namespace {

Environment read(std::initializer_list<const char*> entries) {
  std::vector<const char*> block(entries);
  block.push_back(nullptr);
  return read_environment(block.data());
}

TEST(Environment, IsOffWithDefaultsWhenNothingIsSet) {
  const Environment env = read({"PATH=/bin"});
  EXPECT_FALSE(env.enable);
  EXPECT_EQ(env.timeout_ms, 60000);
  EXPECT_EQ(env.log_level, 3);
  EXPECT_EQ(env.cumem, CumemMode::force);
  EXPECT_EQ(env.slab, 1);
  EXPECT_EQ(env.trim_context, 0);
  EXPECT_EQ(env.multicast, 0);
  EXPECT_TRUE(env.complaints.empty());
}

TEST(Environment, ReadsEveryVariable) {
  const Environment env =
      read({"AMEM_ENABLE=1", "AMEM_GROUPID=170", "AMEM_GROUP=train", "AMEM_NCCL_OFFLOAD_FREE_TAG=7",
            "GMM_LOG=1", "AMEM_CUMEM=respect", "AMEM_SLAB=0", "AMEM_TRIM_CONTEXT=1",
            "AMEM_MULTICAST=1", "AMEM_NCCL_PATH=/x/libnccl.so.2", "AMEM_TIMEOUT_MS=250"});
  EXPECT_TRUE(env.enable);
  EXPECT_EQ(env.group.number, 170);
  EXPECT_EQ(env.group.name, "train");
  EXPECT_EQ(env.free_tag, 7);
  EXPECT_EQ(env.log_level, 1);
  EXPECT_EQ(env.cumem, CumemMode::respect);
  EXPECT_EQ(env.slab, 0);
  EXPECT_EQ(env.trim_context, 1);
  EXPECT_EQ(env.multicast, 1);
  EXPECT_EQ(env.nccl_path, "/x/libnccl.so.2");
  EXPECT_EQ(env.timeout_ms, 250);
  EXPECT_TRUE(env.complaints.empty());
}

TEST(Environment, AmemLogIsStrongerThanGmmLog) {
  EXPECT_EQ(read({"AMEM_LOG=5", "GMM_LOG=1"}).log_level, 5);
  EXPECT_EQ(read({"GMM_LOG=1", "AMEM_LOG=5"}).log_level, 5);
}

TEST(Environment, BadValuesGetOneSentenceAndTheDefault) {
  const Environment env = read({"AMEM_GROUPID=train", "GMM_LOG=9", "AMEM_CUMEM=yes",
                                "AMEM_TIMEOUT_MS=-1", "AMEM_GROUP=a b"});
  EXPECT_EQ(env.group.number, 0);
  EXPECT_EQ(env.log_level, 3);
  EXPECT_EQ(env.cumem, CumemMode::force);
  EXPECT_EQ(env.timeout_ms, 60000);
  EXPECT_EQ(env.group.name, "");
  ASSERT_EQ(env.complaints.size(), 5u);
  EXPECT_EQ(env.complaints[1], "AMEM_GROUPID=train is not a number from 0 to 2147483647; using 0");
}

TEST(Environment, GroupIsANameOrANumber) {
  const Environment number = read({"AMEM_GROUP=7", "AMEM_GROUPID=3"});
  EXPECT_EQ(number.group.number, 7);
  EXPECT_EQ(number.group.name, "");
  const Environment both = read({"AMEM_GROUP=train7", "AMEM_GROUPID=3"});
  EXPECT_EQ(both.group.number, 3);
  EXPECT_EQ(both.group.name, "train7");
  for (const char* entry : {"AMEM_GROUP=-1", "AMEM_GROUP=2147483648"}) {
    const Environment env = read({entry});
    ASSERT_EQ(env.complaints.size(), 1u) << entry;
    EXPECT_EQ(env.complaints[0],
              std::string(entry) + " is not a number from 0 to 2147483647; using 0");
  }
}

TEST(Environment, DeprecatedNameWorksAndSaysWhatTakesItsPlace) {
  const Environment env = read({"AMEM_TMS_NCCL=weights"});
  EXPECT_EQ(env.tms_nccl, "weights");
  EXPECT_EQ(env.complaints,
            (std::vector<std::string>{"AMEM_TMS_NCCL is deprecated: set AMEM_TMS to this tag"}));
  for (const char* entry : {"AMEM_TMS=1", "AMEM_TMS=no", "AMEM_TMS=weights"})
    EXPECT_TRUE(read({entry}).complaints.empty()) << entry;
  for (const char* entry : {"AMEM_TMS=nccl", "AMEM_TMS=a b", "AMEM_TMS=2"})
    EXPECT_EQ(read({entry}).complaints.size(), 1u) << entry;
}

TEST(Environment, FlagsAreReadAsPeopleWriteThem) {
  for (const char* text : {"1", "true", "True", "YES", "on"}) {
    EXPECT_TRUE(read({(std::string("AMEM_TRIM_CONTEXT=") + text).c_str()}).trim_context) << text;
    EXPECT_EQ(flag_of(text), std::optional(true)) << text;
  }
  for (const char* text : {"0", "false", "No", "OFF"}) {
    const Environment env = read({(std::string("AMEM_SLAB=") + text).c_str()});
    EXPECT_FALSE(env.slab) << text;
    EXPECT_TRUE(env.complaints.empty()) << text;
    EXPECT_EQ(flag_of(text), std::optional(false)) << text;
  }
  for (const char* text : {"2", "-1", "01", "maybe", "o", "trueish", ""})
    EXPECT_EQ(flag_of(text), std::nullopt) << text;
  EXPECT_EQ(flag_of(nullptr), std::nullopt);
}

TEST(Environment, FlagThatIsNotReadableHasTheDefaultAndSaysSo) {
  const Environment env = read({"AMEM_ENABLE=2", "AMEM_SLAB=maybe", "AMEM_MULTICAST="});
  EXPECT_FALSE(env.enable);
  EXPECT_TRUE(env.slab);
  const std::string words = " is neither 1, true, yes or on, nor 0, false, no or off; using ";
  EXPECT_EQ(env.complaints, (std::vector<std::string>{"AMEM_ENABLE=2" + words + "0",
                                                      "AMEM_SLAB=maybe" + words + "1"}));
}

TEST(Environment, ReservedTagsAreNotForMemoryOfTheApplication) {
  for (const char* entry :
       {"AMEM_TENSORS=nccl", "AMEM_TENSORS=symmetric", "AMEM_TENSORS=context"}) {
    const Environment env = read({entry});
    EXPECT_EQ(env.tensors, "");
    ASSERT_EQ(env.complaints.size(), 1u) << entry;
    EXPECT_EQ(env.complaints[0], std::string(entry) + " is a reserved tag; using none");
  }
  EXPECT_EQ(read({"AMEM_TENSORS=job"}).tensors, "job");
  EXPECT_EQ(read({"AMEM_TENSORS=a b"}).complaints.size(), 1u);
}

TEST(Environment, UnknownVariableIsOneWarning) {
  const Environment env = read({"AMEM_TIMEOUT=5", "AMEM_SIM_DEVICES=2"});
  ASSERT_EQ(env.complaints.size(), 1u);
  EXPECT_NE(env.complaints[0].find("AMEM_TIMEOUT"), std::string::npos);
}

TEST(Environment, NumbersAndFlagsAreFoundByTheirNames) {
  EXPECT_EQ(number_setting("AMEM_TIMEOUT_MS"), environment().timeout_ms);
  EXPECT_EQ(number_setting("AMEM_MULTICAST"), environment().multicast ? 1 : 0);
  for (const char* other : {"AMEM_TENSORS", "AMEM_CUMEM", "AMEM_TIMEOUT", ""})
    EXPECT_FALSE(number_setting(other).has_value()) << other;
}

}  // namespace
}  // namespace amem
