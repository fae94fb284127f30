// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Look-ups of an image whose dlsym and dlvsym were redirected to ours.
#include "clients/nccl/driver_calls/lookup.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "clients/nccl/driver_calls/testdata/hooked_calls.h"
#include "interpose/slots.h"
#include "tests/support/nccl_objects.h"
#include "tests/support/no_exchange.h"

namespace amem {
namespace {

constexpr const char* kUnversioned = nullptr;
constexpr const char* kVersion = "LOOKUP_1";

/// A library that wraps a function of the one below it. Neither is in the global scope.
class RedirectedLookUp : public testing::Test {
 protected:
  RedirectedLookUp() {
    objects_.activate();
    probe_ = open_library("probe");
    below_ = open_library("below");
  }
  ~RedirectedLookUp() override {
    for (void* handle : {below_, probe_})
      if (handle != nullptr) dlclose(handle);
  }

  static std::string path_of(const std::string& name) {
    return std::string(AMEM_TEST_LIBRARIES) + "/liblookup_" + name + ".so";
  }
  static void* open_library(const std::string& name) {
    void* handle = dlopen(path_of(name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) ADD_FAILURE() << dlerror();
    return handle;
  }
  static void redirect_both() {
    int redirected = 0;
    visit_images([&](const Image& image) {
      if (image.path != path_of("probe")) return;
      visit_slots(image, [&](const Slot& slot) {
        if (std::string_view(slot.symbol) == "dlsym")
          redirected += set_slot(image, slot, reinterpret_cast<void*>(&amem_nccl_dlsym_entry));
        if (std::string_view(slot.symbol) == "dlvsym")
          redirected += set_slot(image, slot, reinterpret_cast<void*>(&amem_nccl_dlvsym_entry));
      });
    });
    EXPECT_EQ(redirected, 2);
  }
  /// As the probe asks.
  void* look_up(void* handle, const char* name, const char* version) {
    using LookUp = void* (*)(void*, const char*, const char*);
    return reinterpret_cast<LookUp>(dlsym(probe_, "look_up"))(handle, name, version);
  }

  Driver driver_{};
  Registry registry_;
  NoExchange exchange_;
  PeerTable peers_;
  NcclObjects objects_{driver_, registry_, exchange_, peers_};
  void* probe_ = nullptr;
  void* below_ = nullptr;
};

TEST_F(RedirectedLookUp, IsAnsweredForTheSakeOfItsCaller) {
  ASSERT_TRUE(probe_ != nullptr && below_ != nullptr);
  const auto answers = [&] {
    std::vector<void*> all;
    for (const char* version : {kUnversioned, kVersion}) {
      all.push_back(look_up(RTLD_NEXT, "lookup_wrapped", version));
      all.push_back(look_up(RTLD_NEXT, "ibv_reg_mr", version));
      all.push_back(look_up(RTLD_DEFAULT, "lookup_below", version));
      all.push_back(look_up(below_, "lookup_below", version));
    }
    return all;
  };
  const std::vector<void*> without = answers();
  for (void* answer : without) ASSERT_NE(answer, nullptr);
  ASSERT_EQ(without.front(), dlsym(below_, "lookup_wrapped"));

  redirect_both();

  EXPECT_EQ(answers(), without);
  EXPECT_EQ(look_up(RTLD_NEXT, "lookup_no_such", kUnversioned), nullptr);
}

TEST_F(RedirectedLookUp, IsOursForNamesThatConcernUs) {
  ASSERT_TRUE(probe_ != nullptr && below_ != nullptr);
  void* const create = dlsym(below_, "cuMemCreate");
  driver_.cuMemCreate = reinterpret_cast<decltype(driver_.cuMemCreate)>(create);

  redirect_both();

  EXPECT_EQ(look_up(below_, "cuMemCreate", kUnversioned),
            reinterpret_cast<void*>(hooked_cuMemCreate));
  for (const char* version : {kUnversioned, kVersion}) {
    void* const answer = look_up(below_, "ibv_reg_mr", version);
    EXPECT_NE(answer, nullptr);
    EXPECT_NE(answer, dlsym(below_, "ibv_reg_mr"));
  }
}

}  // namespace
}  // namespace amem
