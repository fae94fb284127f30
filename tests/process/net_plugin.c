/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: 2026 The amem authors */
/* A network plugin that registers memory of the simulated GPU by its physical address, which is its
   place in the file of the GPU's memory, as a NIC does. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifndef TABLE
#define TABLE ncclNetPlugin_v12
#endif

enum { kMax = 256, kMembers = 22, kRegMr = 7 };

struct place {
  unsigned long inode, offset;
};
static struct {
  uintptr_t address;
  struct place place;
} registered[kMax];
static int count;

static struct place place_of(uintptr_t address) {
  struct place found = {0, 0};
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    uintptr_t from = 0, to = 0;
    unsigned long offset = 0, inode = 0;
    if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &from, &to, &offset, &inode) != 4) continue;
    if (address < from || address >= to) continue;
    found.inode = inode;
    found.offset = offset + (address - from);
  }
  if (maps != NULL) fclose(maps);
  return found;
}

static int reg_mr(void* comm, void* data, size_t size, int type, void** handle) {
  (void)comm, (void)size, (void)type;
  if (count == kMax) return 3; /* ncclInternalError */
  registered[count].address = (uintptr_t)data;
  registered[count].place = place_of((uintptr_t)data);
  *handle = &registered[count++];
  return 0;
}

/* How many registered addresses have other memory now, or none. Negative: nothing was registered.
 */
__attribute__((visibility("default"))) int amem_test_plugin_moved(void) {
  int moved = 0;
  for (int i = 0; i < count; ++i) {
    const struct place now = place_of(registered[i].address);
    moved += now.inode == 0 || now.inode != registered[i].place.inode ||
             now.offset != registered[i].place.offset;
  }
  return count == 0 ? -1 : moved;
}

__attribute__((visibility("default"))) void* TABLE[kMembers] = {
    [0] = "places", [kRegMr] = (void*)reg_mr};
/* The same by a name that amem does not know. */
__attribute__((visibility("default"))) void* amem_test_table[kMembers] = {
    [0] = "places", [kRegMr] = (void*)reg_mr};
