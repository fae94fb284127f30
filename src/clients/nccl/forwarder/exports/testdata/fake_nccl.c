// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Stands for the real NCCL in the tests of the trampolines. It has NCCL's names with signatures
// that suit the tests: trampolines know no prototypes. ncclRecv is missing on purpose;
// ncclGroupStart is in register_probe.S.
#include "fake_nccl.h"

#include <dlfcn.h>
#include <execinfo.h>

FakeState fake_state;
// More than a library may have that is loaded late (check_symbols_selftest.py).
_Thread_local char fake_thread_locals[257];

int ncclGetVersion(int* version) {
  *version = 12345;
  return 0;
}

// Runs inside the first forwarded call, below amem's resolver.
__attribute__((constructor)) static void note_who_loads(void) {
  fake_state.load_frame_count = backtrace(fake_state.load_frames, 64);
  // A library that NCCL was linked with may call amem's libnccl.so.2 meanwhile.
  void* amem = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  int (*get_version)(int*) = (int (*)(int*))dlsym(amem, "ncclGetVersion");
  if (get_version != ncclGetVersion) get_version(&fake_state.version_while_loading);
}

const char* ncclGetErrorString(int result) { return result == 0 ? "fake success" : "fake failure"; }

/// The sum of everything it was passed, each weighted so that an exchange shows.
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank) {
  uint64_t sum = 0;
  for (int i = 0; i < 128; ++i) sum = sum * 31 + (unsigned char)id.bytes[i];
  *comm = (void*)(uintptr_t)sum;
  return ranks * 1000 + rank;
}

int ncclAllReduce(const void* send, void* recv, uint64_t count, int type, int op, void* comm,
                  void* stream) {
  return (int)((uintptr_t)send + 2 * (uintptr_t)recv + 3 * count + 4 * (unsigned)type +
               5 * (unsigned)op + 6 * (uintptr_t)comm + 7 * (uintptr_t)stream);
}

double ncclReduce(double a, float b, int c, double d) { return a + 2 * b + 3 * c + 4 * d; }

Team ncclCommCount(int ranks, int rank, int stride) { return (Team){ranks, rank, stride}; }

Large ncclCommUserRank(uint64_t seed) {
  Large large;
  for (int i = 0; i < 8; ++i) large.words[i] = seed + (unsigned)i;
  return large;
}

void ncclRedOpDestroy(void) { __atomic_fetch_add(&fake_state.void_calls, 1, __ATOMIC_RELAXED); }

int ncclSend(int x) { return x + 7; }
int pncclSend(int x) { return x + 8; }
