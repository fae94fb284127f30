/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * The functions that the library of torch_memory_saver 0.0.10 exports, for programs that look them up in the process, in the
 * library of LD_PRELOAD or with ctypes. amem.torch_memory_saver implements them in Python, except those that PyTorch calls as
 * an allocator, while it holds a lock. Before it is imported they do nothing. */
#include <amem.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define EXPORTED __attribute__((visibility("default")))

/* slime reads the file to find out whether the library knows a variable. */
EXPORTED const char amem_tms_variables[] =
    "TMS_INIT_ENABLE TMS_INIT_ENABLE_CPU_BACKUP TMS_INIT_ENABLE_DISK_BACKUP TMS_INIT_CPU_BACKUP_BACKEND "
    "TMS_DISK_BACKUP_DIR TMS_RETAIN_CPU_BACKUP";

typedef intptr_t (*Implementation)(const char* function, const void* pointer, uint64_t value);
static Implementation implementation;
static _Thread_local char tag_of_thread[65];  // "" outside regions
static _Thread_local amemKind_t kind_of_thread;

/* NULL: none. */
EXPORTED void amem_tms_implement(Implementation new_implementation) { implementation = new_implementation; }

/* What tms_torch_malloc() allocates in this thread; nothing if the tag is NULL. */
EXPORTED void amem_tms_set_memory(const char* tag, int kind) {
  strncpy(tag_of_thread, tag == NULL ? "" : tag, sizeof tag_of_thread - 1);
  kind_of_thread = (amemKind_t)kind;
}

EXPORTED void* tms_torch_malloc(ssize_t size, int device, void* stream) {
  (void)device, (void)stream; /* PyTorch has set the device */
  void* pointer = NULL;
  if (tag_of_thread[0] == '\0' || amemMalloc(&pointer, (size_t)size, tag_of_thread, kind_of_thread) != 0) return NULL;
  return pointer;
}

EXPORTED void tms_torch_free(void* pointer, ssize_t size, int device, void* stream) {
  (void)size, (void)device, (void)stream;
  amemFree(pointer);
}

#define TMS_FUNCTION(result, name, parameters, pointer, value)                        \
  EXPORTED result name parameters {                                                   \
    return (result)(implementation == NULL ? 0 : implementation(#name, pointer, value)); \
  }

TMS_FUNCTION(int, tms_pause, (const char* tag), tag, 0)
TMS_FUNCTION(int, tms_resume, (const char* tag), tag, 0)
TMS_FUNCTION(int, tms_set_current_tag, (const char* tag), tag, 0)
TMS_FUNCTION(const char*, tms_get_current_tag, (void), NULL, 0)
TMS_FUNCTION(int, tms_set_interesting_region, (bool value), NULL, value)
TMS_FUNCTION(bool, tms_get_interesting_region, (void), NULL, 0)
TMS_FUNCTION(int, tms_set_enable_cpu_backup, (bool value), NULL, value)
TMS_FUNCTION(bool, tms_get_enable_cpu_backup, (void), NULL, 0)
TMS_FUNCTION(int, tms_set_enable_disk_backup, (bool value), NULL, value)
TMS_FUNCTION(bool, tms_get_enable_disk_backup, (void), NULL, 0)
TMS_FUNCTION(int, tms_set_cpu_backup_backend, (const char* backend), backend, 0)
TMS_FUNCTION(const char*, tms_get_cpu_backup_backend, (void), NULL, 0)
TMS_FUNCTION(int, tms_set_retain_cpu_backup, (bool value), NULL, value)
TMS_FUNCTION(bool, tms_get_retain_cpu_backup, (void), NULL, 0)
TMS_FUNCTION(int, tms_set_disk_backup_dir, (const char* path), path, 0)
TMS_FUNCTION(int, set_memory_margin_bytes, (uint64_t value), NULL, value)
TMS_FUNCTION(const uint8_t*, tms_get_cpu_backup_pointer, (const uint8_t* pointer, uint64_t size), pointer, size)
