// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem_rank: one rank that takes orders, on the libnccl.so.2 that amem puts before NCCL. `amem_rank
// version` prints the version of the NCCL that this one finds.
#include <string_view>

#include "jobs/amem_orders.h"
#include "jobs/busy_device.h"
#include "jobs/call_orders.h"
#include "jobs/call_timing.h"
#include "jobs/child_orders.h"
#include "jobs/communicator_orders.h"
#include "jobs/ending_orders.h"
#include "jobs/fault_orders.h"
#include "jobs/gap_loop.h"
#include "jobs/ipc_orders.h"
#include "jobs/memory_orders.h"
#include "jobs/memory_sampler.h"
#include "jobs/order_loop.h"
#include "jobs/several_devices.h"
#include "jobs/step_orders.h"
#include "jobs/symmetric_orders.h"
#include "jobs/tag_orders.h"
#include "jobs/thread_orders.h"

#ifdef __SANITIZE_THREAD__
// A test sets AMEM_TEST_STEP_POINT while other threads look it up (base/test_seam.h).
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_suppressions() {
  return "race:amem::step_point\n";
}
#endif

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "version") return jobs::print_version();
  jobs::CommunicatorOrders communicators;
  jobs::MemoryOrders memory;
  jobs::BusyDevice busy;
  jobs::CallOrders calls(communicators);
  jobs::CallTiming timing(communicators);
  jobs::GapLoop gaps(communicators);
  jobs::MemorySampler sampler;
  jobs::SeveralDevices devices;
  jobs::SymmetricOrders symmetric;
  jobs::TagOrders tags;
  jobs::Orders orders;
  jobs::ThreadOrders threads(orders);
  orders.merge(jobs::ending_orders(orders));
  orders.merge(jobs::amem_orders());
  orders.merge(jobs::child_orders());
  orders.merge(jobs::fault_orders());
  orders.merge(jobs::ipc_orders());
  orders.merge(jobs::step_orders());
  orders.merge(busy.orders());
  orders.merge(calls.orders());
  orders.merge(communicators.orders());
  orders.merge(devices.orders());
  orders.merge(gaps.orders());
  orders.merge(memory.orders());
  orders.merge(sampler.orders());
  orders.merge(symmetric.orders());
  orders.merge(tags.orders());
  orders.merge(threads.orders());
  orders.merge(timing.orders());
  jobs::follow_orders(orders);
}
