// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// What amem/mpi_group.hpp uses of MPI, as the MPI standard declares it (MPI 4.1, chapters 6.8 and
// 7.4). cpp_symmetric_test.cc implements it: it is a test without an MPI.
#pragma once

typedef struct MpiCommunicator* MPI_Comm;
typedef int MPI_Datatype;

#define MPI_SUCCESS 0
#define MPI_ERR_COMM 5
#define MPI_BYTE ((MPI_Datatype)1)

extern "C" {
int MPI_Comm_rank(MPI_Comm comm, int* rank);
int MPI_Comm_size(MPI_Comm comm, int* size);
int MPI_Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                  int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
}
