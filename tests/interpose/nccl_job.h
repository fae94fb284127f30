// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A job of one process on two simulated GPUs, for programs that differ in how they reach NCCL.
#pragma once

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amem_nccl_abi.h"

/// NCCL's functions as a program has them.
struct Nccl {
  ncclResult_t (*init_all)(ncclComm_t*, int, const int*);
  ncclResult_t (*all_reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                             amemStream_t);
  ncclResult_t (*group_start)();
  ncclResult_t (*group_end)();
  ncclResult_t (*destroy)(ncclComm_t);
};

inline void fail(const char* what) {
  printf("%s\n", what);
  exit(1);
}

template <typename Function>
void find(Function*& function, void* handle, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  if (function == nullptr) fail(name);
}

/// By dlsym, with `prefix` "" or "p".
inline Nccl nccl_of(void* handle, const char* prefix) {
  Nccl nccl{};
  char name[64];
  const auto named = [&](const char* rest) {
    snprintf(name, sizeof name, "%snccl%s", prefix, rest);
    return name;
  };
  find(nccl.init_all, handle, named("CommInitAll"));
  find(nccl.all_reduce, handle, named("AllReduce"));
  find(nccl.group_start, handle, named("GroupStart"));
  find(nccl.group_end, handle, named("GroupEnd"));
  find(nccl.destroy, handle, named("CommDestroy"));
  return nccl;
}

/// Memory of one device, by the driver's own calls.
class Floats {
 public:
  static constexpr size_t kCount = 20000;

  explicit Floats(int device) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) fail("no libcuda.so.1");
    int (*init)(unsigned);
    int (*retain)(void**, int);
    int (*allocate)(unsigned long long*, size_t);
    find(init, driver, "cuInit");
    find(retain, driver, "cuDevicePrimaryCtxRetain");
    find(set_current_, driver, "cuCtxSetCurrent");
    find(allocate, driver, "cuMemAlloc_v2");
    find(to_device_, driver, "cuMemcpyHtoD_v2");
    find(to_host_, driver, "cuMemcpyDtoH_v2");
    find(synchronize_, driver, "cuCtxSynchronize");
    if (init(0) != 0 || retain(&context_, device) != 0 || set_current_(context_) != 0 ||
        allocate(&address_, sizeof host_) != 0)
      fail("no device memory");
  }
  void* pointer() const { return reinterpret_cast<void*>(address_); }
  void set(float value) {
    for (float& each : host_) each = value;
    set_current_(context_);
    if (to_device_(address_, host_, sizeof host_) != 0) fail("cuMemcpyHtoD");
  }
  bool are(float value) {
    set_current_(context_);
    if (synchronize_() != 0 || to_host_(host_, address_, sizeof host_) != 0) return false;
    for (float each : host_)
      if (each != value) return false;
    return true;
  }

 private:
  int (*set_current_)(void*);
  int (*to_device_)(unsigned long long, const void*, size_t);
  int (*to_host_)(void*, unsigned long long, size_t);
  int (*synchronize_)();
  void* context_ = nullptr;
  unsigned long long address_ = 0;
  float host_[kCount];
};

/// Communicators of devices 0 and 1, and an all_reduce whose result is known.
class Job {
 public:
  explicit Job(const Nccl& nccl) : nccl_(nccl) {
    if (nccl_.init_all(comms_, 2, nullptr) != ncclSuccess) fail("ncclCommInitAll failed");
  }
  ncclResult_t all_reduce() {
    for (int i = 0; i < 2; ++i) data_[i].set(1 + static_cast<float>(i));
    nccl_.group_start();
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < 2; ++i) {
      const ncclResult_t called =
          nccl_.all_reduce(data_[i].pointer(), data_[i].pointer(), Floats::kCount, ncclFloat32,
                           ncclSum, comms_[i], nullptr);
      if (called != ncclSuccess) result = called;
    }
    const ncclResult_t ended = nccl_.group_end();
    return result != ncclSuccess ? result : ended;
  }
  void check(const char* moment) {
    const bool done = all_reduce() == ncclSuccess && data_[0].are(3) && data_[1].are(3);
    printf("%s: %s\n", moment, done ? "right" : "wrong");
  }
  ncclComm_t comm(int i) const { return comms_[i]; }
  void* buffer(int i) const { return data_[i].pointer(); }

 private:
  Nccl nccl_;
  ncclComm_t comms_[2];
  Floats data_[2] = {Floats(0), Floats(1)};
};

/// amem's functions: of this handle, or of the global scope.
class Amem {
 public:
  explicit Amem(void* nccl, void* amem) : amem_(amem != nullptr ? amem : RTLD_DEFAULT) {
    pause_ = find_added(nccl, "ncclPause");
    resume_ = find_added(nccl, "ncclResume");
  }
  static int (*find_added(void* nccl, const char* name))(void*) {
    int (*function)(void*);
    find(function, nccl, name);
    return function;
  }
  void pause() { say("pause", pause_(nullptr)); }
  void resume() { say("resume", resume_(nullptr)); }
  void say(const char* what, int result) {
    const char* (*last_error)();
    find(last_error, amem_, "amemGetLastError");
    printf("%s: %d%s%s\n", what, result, result == 0 ? "" : " ", result == 0 ? "" : last_error());
  }
  /// What is on the GPUs of NCCL's memory: "all", "some", "none".
  void print_resident(const char* moment) {
    struct {
      unsigned long long objects, allocated, resident, released, saved, fixed;
    } totals{};
    int (*get)(int, int, void*);
    find(get, amem_, "amemGetTotals");
    get(-1, -1, &totals);
    printf("%s: %s\n", moment,
           totals.allocated == 0                 ? "nothing is known"
           : totals.resident == 0                ? "none is on the GPUs"
           : totals.resident == totals.allocated ? "all is on the GPUs"
                                                 : "some is on the GPUs");
  }

 private:
  void* amem_;
  int (*pause_)(void*);
  int (*resume_)(void*);
};

/// What every program ends with: the job works, is paused, works again.
inline void pause_and_resume(Job& job, void* nccl, void* handle_of_amem) {
  job.check("before");
  Amem amem(nccl, handle_of_amem);
  amem.print_resident("active");
  amem.pause();
  amem.print_resident("paused");
  printf("call while paused: %d\n", job.all_reduce());
  amem.resume();
  job.check("after");
}
