// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem_rank: one rank that takes orders, on the libnccl.so.2 that amem puts before NCCL. `amem_rank
// version` prints the version of the NCCL that this one finds.
#include <string_view>

#include "jobs/amem_orders.h"
#include "jobs/communicator_orders.h"
#include "jobs/fault_orders.h"
#include "jobs/memory_orders.h"
#include "jobs/order_loop.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "version") return jobs::print_version();
  jobs::CommunicatorOrders communicators;
  jobs::MemoryOrders memory;
  jobs::Orders orders = jobs::amem_orders();
  orders.merge(communicators.orders());
  orders.merge(memory.orders());
  orders.merge(jobs::fault_orders());
  jobs::follow_orders(orders);
}
