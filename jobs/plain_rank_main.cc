// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem_rank_plain: the same rank without amem. It has no search path of its own: whoever starts it
// says which libnccl.so.2 it runs on.
#include "jobs/communicator_orders.h"
#include "jobs/gap_loop.h"
#include "jobs/memory_orders.h"
#include "jobs/memory_sampler.h"
#include "jobs/order_loop.h"

int main() {
  jobs::CommunicatorOrders communicators;
  jobs::MemoryOrders memory;
  jobs::GapLoop gaps(communicators);
  jobs::MemorySampler sampler;
  jobs::Orders orders = communicators.orders();
  orders.merge(memory.orders());
  orders.merge(gaps.orders());
  orders.merge(sampler.orders());
  jobs::follow_orders(orders);
}
