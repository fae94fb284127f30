// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// The ranks of an MPI communicator as a group for amem/symmetric.hpp. Needs mpi.h.
#ifndef AMEM_MPI_GROUP_HPP_
#define AMEM_MPI_GROUP_HPP_

#include <mpi.h>

#include "amem/symmetric.hpp"

namespace amem::symmetric {

class MpiGroup : public Group {
 public:
  explicit MpiGroup(MPI_Comm communicator) : communicator_(communicator) {
    MPI_Comm_rank(communicator, &rank_);
    MPI_Comm_size(communicator, &world_size_);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  void all_gather(const void* mine, size_t size_bytes, void* all) override {
    const int count = static_cast<int>(size_bytes);
    if (MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, communicator_) != MPI_SUCCESS)
      throw std::runtime_error("MPI_Allgather() failed");
  }

 private:
  MPI_Comm communicator_;
  int rank_ = 0, world_size_ = 0;
};

}  // namespace amem::symmetric

#endif  // AMEM_MPI_GROUP_HPP_
