// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// A CUDA runtime and driver with graphs: an executable graph is the address after that of its
// graph.
static int g_calls = 0;
int graph_calls(void) { return g_calls; }

#define DEFINE_LAUNCH(name)            \
  int name(void* exec, void* stream) { \
    (void)exec;                        \
    (void)stream;                      \
    return ++g_calls, 0;               \
  }
#define DEFINE_INSTANTIATE(name)                     \
  int name(void** exec, char* graph, void* others) { \
    (void)others;                                    \
    *exec = graph + 1;                               \
    return ++g_calls, 0;                             \
  }
#define DEFINE_DESTROY_GRAPH(name) \
  int name(void* object) {         \
    (void)object;                  \
    return ++g_calls, 0;           \
  }
#define DEFINE_DESTROY_EXEC DEFINE_DESTROY_GRAPH

#define GRAPH_FUNCTION(name, kind) DEFINE_##kind(name)
#include "graph_functions.def"
