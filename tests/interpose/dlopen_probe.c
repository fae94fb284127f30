// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// dlopen_probe CALLER NAME [THREADS]: loads the library CALLER and has it load NAME ("-": NULL), in
// THREADS threads at once. Prints what came of it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* (*open_from_caller)(const char*);
static const char* name;

static void* open_in_thread(void* unused) {
  (void)unused;
  return open_from_caller(name);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* caller = dlopen(argv[1], RTLD_NOW);
  if (caller == NULL) return 3;
  open_from_caller = (void* (*)(const char*))dlsym(caller, "open_from_here");
  name = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
  const int threads = argc > 3 ? atoi(argv[3]) : 0;
  pthread_t ids[64];
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, open_in_thread, NULL);
  int opened = 0;
  for (int i = 0; i < threads; ++i) {
    void* handle = NULL;
    pthread_join(ids[i], &handle);
    opened += handle != NULL;
  }
  if (threads > 0) printf("%d of %d threads opened it\n", opened, threads);

  void* handle = open_from_caller(name);
  struct link_map* map = NULL;
  if (handle == NULL) {
    printf("error: %s\n", dlerror());
  } else if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
    printf("opened: %s\n", map->l_name);
    printf("dlerror afterwards: %s\n", dlerror() != NULL ? "set" : "none");
  }
  return 0;
}
