/* SPDX-License-Identifier: Apache-2.0
 * SPDX-FileCopyrightText: 2026 The amem authors
 *
 * What minccl's libnccl.so.2 offers besides NCCL's API: where a connection keeps its counters, so
 * that tests can damage them and read them. A program finds it with dlsym; NCCL does not have it.
 */
#ifndef AMEM_SIM_MINCCL_MINCCL_H_
#define AMEM_SIM_MINCCL_MINCCL_H_

#include "amem_nccl_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { mincclRing = 0, mincclPair = 1 };
enum { mincclSendEnd = 0, mincclRecvEnd = 1 };
enum { mincclLL = 0, mincclLL128 = 1, mincclSimple = 2 };

/* Addresses in this process. fifo[protocol] is the first of 8 slots of slot_bytes[protocol] each;
 * the slot of a step is step % 8. head, tail and fifo lie in the sender's or the receiver's
 * buffers (P2P: device memory), step in the communicator's. */
typedef struct {
  unsigned long long* step;
  unsigned long long* head;
  unsigned long long* tail;
  void* fifo[3];
  unsigned long long slot_bytes[3];
} mincclConnection;

/* The end of the connection with `peer` that belongs to this rank. ncclInvalidArgument when it was
 * not made yet. No kernel of the communicator may be running. */
ncclResult_t mincclFindConnection(ncclComm_t comm, int channel, int peer, int index, int end,
                                  mincclConnection* connection);

/* An all_reduce of floats in place, by a name that amem does not know: a function of a future NCCL.
 */
ncclResult_t mincclUnknownAllReduce(void* buffer, size_t count, ncclComm_t comm,
                                    amemStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* AMEM_SIM_MINCCL_MINCCL_H_ */
