// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// An NVML whose GPUs have 80 GiB, of which the processes in AMEM_TEST_NVML_PIDS hold 2 GiB each.
#include <stdio.h>
#include <stdlib.h>

static int g_device;

struct memory {
  unsigned long long total, free, used;
};
struct process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

static unsigned read_pids(unsigned most, struct process* processes) {
  unsigned count = 0;
  char* text = getenv("AMEM_TEST_NVML_PIDS");
  while (text != NULL && *text != 0 && count < most) {
    const struct process one = {(unsigned)strtol(text, &text, 10), 2ULL << 30, ~0U, ~0U};
    processes[count++] = one;
    if (*text == ',') ++text;
  }
  return count;
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  *device = &g_device;
  return uuid == NULL;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
  *index = 7;
  return device == NULL;
}
int nvmlDeviceGetName(void* device, char* name, unsigned capacity) {
  snprintf(name, capacity, "NVIDIA H200");
  return device == NULL;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                            struct process* processes) {
  *count = read_pids(*count, processes);
  return device == NULL;
}
int nvmlDeviceGetMemoryInfo(void* device, struct memory* memory) {
  struct process processes[16];
  memory->total = 80ULL << 30;
  memory->used = (unsigned long long)read_pids(16, processes) * (2ULL << 30);
  memory->free = memory->total - memory->used;
  return device == NULL;
}
