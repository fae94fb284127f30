/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * A C program, linked with -lnccl -lamem_nccl: one communicator a GPU, pause, resume.
 *
 *   AMEM_ENABLE=1 ./c_pause [GPUs]
 */
#include <amem.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMaxDevices = 16 };

/* NCCL's own calls explain themselves with ncclGetErrorString(); pause and resume with
 * amemGetLastError(). */
static void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(result));
  exit(1);
}

static void check_amem(ncclResult_t result) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s\n", amemGetLastError());
  exit(1);
}

/* All devices (-1) and all kinds (-1) of this process. */
static amemTotals_t report(const char* moment) {
  amemTotals_t totals;
  if (amemGetTotals(-1, -1, &totals) != 0) {
    fprintf(stderr, "amem is off: set AMEM_ENABLE=1\n");
    exit(1);
  }
  printf(
      "%-7s %llu allocations, on the GPUs %llu MiB, released %llu MiB, saved on the host %llu "
      "MiB\n",
      moment, (unsigned long long)totals.objects, (unsigned long long)totals.resident_bytes >> 20,
      (unsigned long long)totals.released_bytes >> 20,
      (unsigned long long)totals.saved_bytes >> 20);
  return totals;
}

int main(int argc, char** argv) {
  const int devices = argc > 1 ? atoi(argv[1]) : 1;
  if (devices < 1 || devices > kMaxDevices) {
    fprintf(stderr, "from 1 to %d GPUs\n", kMaxDevices);
    return 2;
  }
  ncclComm_t comms[kMaxDevices];
  check_nccl(ncclCommInitAll(comms, devices, NULL), "ncclCommInitAll");

  const amemTotals_t before = report("active");
  check_amem(ncclPause(NULL));
  const amemTotals_t paused = report("paused");
  check_amem(ncclResume(NULL));
  const amemTotals_t after = report("resumed");

  for (int i = 0; i < devices; ++i) check_nccl(ncclCommDestroy(comms[i]), "ncclCommDestroy");
  /* What is left while paused can never be released: it is persistent. */
  return paused.resident_bytes == paused.fixed_bytes &&
                 after.resident_bytes == before.resident_bytes
             ? 0
             : 1;
}
