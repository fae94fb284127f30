// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/enable.h"

#include "amem.h"
#include "base/cancellation.h"
#include "base/environment.h"
#include "base/log.h"
#include "clients/graphs/graph_calls.h"
#include "clients/nccl/doors/nccl_copies.h"
#include "clients/nccl/driver_calls/registrations.h"
#include "clients/nccl/gate/capture_watch.h"
#include "clients/symmetric/nvshmem_calls.h"
#include "clients/symmetric/torch_calls.h"
#include "clients/tensors/access_debug.h"
#include "clients/tensors/memory_calls.h"

void amem::catch_calls() {
  note_standard_error();
  catch_runtime_calls();
  catch_memory_calls();
  catch_illegal_accesses();
  catch_torch_calls();
  catch_nvshmem_calls();
  catch_registrations();
  catch_graph_calls();
  catch_stream_ends();
  catch_nccl();
}

extern "C" [[gnu::visibility("default")]] void amemEnable(void) {
  const amem::NoCancellation no_cancellation;
  amem::set_up_entries();  // a constructor may call this function before the library's own
  amem::g_enabled.store(true, std::memory_order_relaxed);
  amem::catch_calls();
}
