// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The libnccl.so.2 that was built, in front of the fake NCCL of testdata/. Each test in a process
// of its own, as the real NCCL is loaded once a process.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "api/testdata/child.h"
#include "clients/nccl/forwarder/exports/testdata/fake_nccl.h"
#include "interpose/image.h"

extern "C" uint64_t call_with_registers(Registers* registers, void* function);

namespace amem {
namespace {

constexpr int kInvalidUsage = 5, kSystemError = 2;

/// Runs `body` in a child in front of the NCCL at `nccl_path`. `body` gets a look-up of our
/// functions and returns the number of its failures.
template <typename Body>
Ended in_front_of(const std::string& nccl_path, Body body) {
  return run_in_child([&] {
    setenv("AMEM_NCCL_PATH", nccl_path.c_str(), 1);
    void* shim = dlopen(AMEM_TEST_SHIM, RTLD_NOW);
    if (shim == nullptr) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    return body([shim](const char* name) { return dlsym(shim, name); });
  });
}

template <typename Function, typename Lookup>
Function* as(Lookup lookup, const char* name) {
  return reinterpret_cast<Function*>(lookup(name));
}

/// Prints what failed; 1 when it did.
int expect(bool holds, const char* what) {
  if (!holds) fprintf(stderr, "not so: %s\n", what);
  return holds ? 0 : 1;
}
#define AMEM_EXPECT(condition) failures += expect(condition, #condition)

Registers patterns() {
  Registers registers{};
  auto* words = reinterpret_cast<uint64_t*>(&registers);
  for (size_t i = 0; i < sizeof registers / sizeof *words; ++i)
    words[i] = 0x0101010101010101u * (i + 1) + 0x80;
  return registers;
}

TEST(Trampolines, KeepEveryRegisterAndTheStackOnTheFirstCallAndLater) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    int failures = 0;
    for (int call = 0; call < 3; ++call) {
      Registers sent = patterns();
      const auto* seen =
          reinterpret_cast<Registers*>(call_with_registers(&sent, lookup("ncclGroupStart")));
      for (size_t i = 0; i < std::size(sent.general); ++i)
        AMEM_EXPECT(seen->general[i] == sent.general[i]);
      for (size_t i = 0; i < std::size(sent.vector); ++i)
        AMEM_EXPECT(seen->vector[i] == sent.vector[i]);
      for (size_t i = 0; i < std::size(sent.stack); ++i)
        AMEM_EXPECT(seen->stack[i] == sent.stack[i]);
      AMEM_EXPECT(seen->stack_pointer == sent.stack_pointer);
    }
    return failures;
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
}

TEST(Trampolines, PassAStructOf128BytesByValue) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    int failures = 0;
    auto* init = as<int(void**, int, UniqueId, int)>(lookup, "ncclCommInitRank");
    UniqueId id;
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof id.bytes; ++i) {
      id.bytes[i] = static_cast<char>(i * 7 + 3);
      sum = sum * 31 + static_cast<unsigned char>(id.bytes[i]);
    }
    for (int call = 0; call < 2; ++call) {
      void* comm = nullptr;
      AMEM_EXPECT(init(&comm, 8, id, 5) == 8005);
      AMEM_EXPECT(comm == reinterpret_cast<void*>(sum));
    }
    return failures;
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
}

TEST(Trampolines, PassArgumentsAndResultsOfEveryKind) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    int failures = 0;
    using AllReduce = int(size_t, size_t, uint64_t, int, int, size_t, size_t);
    auto* reduce = as<double(double, float, int, double)>(lookup, "ncclReduce");
    auto* text = as<const char*(int)>(lookup, "ncclGetErrorString");
    auto* count_void = as<void()>(lookup, "ncclRedOpDestroy");
    for (int call = 0; call < 2; ++call) {
      AMEM_EXPECT(as<AllReduce>(lookup, "ncclAllReduce")(1, 2, 3, 4, 5, 6, 7) == 140);
      AMEM_EXPECT(reduce(0.5, 0.25f, 3, 1.5) == 16.0);
      const Team team = as<Team(int, int, int)>(lookup, "ncclCommCount")(8, 3, 2);
      AMEM_EXPECT(team.ranks == 8 && team.rank == 3 && team.stride == 2);
      const Large large = as<Large(uint64_t)>(lookup, "ncclCommUserRank")(40);
      AMEM_EXPECT(large.words[0] == 40 && large.words[7] == 47);
      AMEM_EXPECT(strcmp(text(0), "fake success") == 0);
      count_void();
    }
    void* fake = dlopen(AMEM_TEST_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
    AMEM_EXPECT(static_cast<FakeState*>(dlsym(fake, "fake_state"))->void_calls == 2);
    return failures;
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
}

TEST(Trampolines, PlainAndProfilingNamesAreTwoFunctions) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    int failures = 0;
    AMEM_EXPECT(as<int(int)>(lookup, "ncclSend")(1) == 8);
    AMEM_EXPECT(as<int(int)>(lookup, "pncclSend")(1) == 9);
    return failures;
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
}

TEST(Trampolines, ManyThreadsMayRaceTheFirstCall) {
  for (int round = 0; round < 5; ++round) {
    const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
      constexpr int kThreads = 16;
      std::atomic<int> wrong{0};
      std::barrier start(kThreads);
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
          int version = 0;
          start.arrive_and_wait();
          if (as<int(int)>(lookup, "ncclSend")(i) != i + 7) ++wrong;
          if (as<int(int*)>(lookup, "ncclGetVersion")(&version) != 0 || version != 12345) ++wrong;
          as<void()>(lookup, "ncclRedOpDestroy")();
        });
      for (std::thread& thread : threads) thread.join();
      void* fake = dlopen(AMEM_TEST_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
      const int calls = static_cast<FakeState*>(dlsym(fake, "fake_state"))->void_calls;
      return wrong + expect(calls == kThreads, "every thread's call arrived once");
    });

    EXPECT_EQ(ended.status, 0) << ended.errors;
  }
}

TEST(Trampolines, MayBeCalledWhileNcclIsBeingLoaded) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    alarm(10);
    as<int(int)>(lookup, "ncclSend")(1);
    void* fake = dlopen(AMEM_TEST_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
    const auto* state = static_cast<FakeState*>(dlsym(fake, "fake_state"));
    return expect(state->version_while_loading == 12345, "NCCL's constructor could call NCCL");
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
}

TEST(Trampolines, CanBeUnwoundWhileTheyResolve) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    int version = 0;
    as<int(int*)>(lookup, "ncclGetVersion")(&version);
    void* fake = dlopen(AMEM_TEST_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
    const auto* state = static_cast<FakeState*>(dlsym(fake, "fake_state"));
    // The fake library's constructor looked up the stack: through the loader, amemForward and the
    // resolver to this program, and on to its end.
    int frames_here = 0;
    for (int i = 0; i < state->load_frame_count; ++i)
      frames_here += is_in_this_library(reinterpret_cast<uintptr_t>(state->load_frames[i]));
    return expect(frames_here >= 3, "the frames of this program are on the stack");
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
}

TEST(Trampolines, FunctionThatNcclLacksReturnsInvalidUsageAndIsHiddenFromThenOn) {
  const Ended ended = in_front_of(AMEM_TEST_FAKE_NCCL, [](auto lookup) {
    int failures = 0;
    auto* receive = as<int()>(lookup, "ncclRecv");
    for (int call = 0; call < 3; ++call) AMEM_EXPECT(receive() == kInvalidUsage);
    AMEM_EXPECT(lookup("ncclRecv") == nullptr);
    AMEM_EXPECT(lookup("ncclSend") != nullptr);
    AMEM_EXPECT(lookup("ncclPause") != nullptr);
    return failures;
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(count_of("has no ncclRecv", ended.errors), 1);
  EXPECT_EQ(count_of("\n", ended.errors), 1) << ended.errors;
}

TEST(Trampolines, WithoutAnyNcclEveryCallFailsAfterOneErrorLine) {
  const Ended ended = in_front_of("/nonexistent/libnccl.so.2", [](auto lookup) {
    int failures = 0;
    int version = 0;
    AMEM_EXPECT(as<int(int*)>(lookup, "ncclGetVersion")(&version) == kSystemError);
    AMEM_EXPECT(as<int()>(lookup, "ncclRecv")() == kSystemError);
    AMEM_EXPECT(as<int()>(lookup, "pncclAllReduce")() == kSystemError);
    for (const char* name : {"ncclGetErrorString", "pncclGetErrorString", "ncclGetLastError"}) {
      const char* text = as<const char*(int)>(lookup, name)(2);
      AMEM_EXPECT(strstr(text, "no usable NCCL") != nullptr);
    }
    return failures;
  });

  EXPECT_EQ(ended.status, 0) << ended.errors;
  EXPECT_EQ(count_of("AMEM ERROR", ended.errors), 1) << ended.errors;
  EXPECT_EQ(count_of("\n", ended.errors), 1) << ended.errors;
  EXPECT_NE(ended.errors.find("AMEM_NCCL_PATH=/nonexistent/libnccl.so.2"), std::string::npos);
}

}  // namespace
}  // namespace amem
