// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A library that calls the graph functions through slots of its own.
#include <string.h>

#define GRAPH_FUNCTION(name, kind) int name(void*, void*, void*);
#include "graph_functions.def"
#undef GRAPH_FUNCTION

int call_graph_function(const char* which, void* first, void* second) {
#define GRAPH_FUNCTION(name, kind) \
  if (strcmp(which, #name) == 0) return name(first, second, NULL);
#include "graph_functions.def"
  return -1;
}
