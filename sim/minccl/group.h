// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <vector>

#include "sim/minccl/communicator.h"

namespace amem::minccl {

/// The calls of the calling thread since its outermost ncclGroupStart(). A call outside a group is
/// a group by itself.
class Group {
 public:
  /// The calling thread's.
  static Group& current();

  void begin() { ++depth_; }
  /// At the outermost level: initializes, connects and launches. Initializes and connects several
  /// communicators in parallel, because ranks of one communicator wait for each other.
  /// ncclInProgress if a communicator with blocking = 0 is being initialized.
  ncclResult_t end();
  /// The same, but launches nothing.
  ncclResult_t end_simulated();
  /// Ends a call that started the group and has this result so far. The group returns the first
  /// failure.
  ncclResult_t end_call(ncclResult_t result);

  /// `run` initializes `comm`, or makes it a child of `parent`; `*place` points to it. If it fails,
  /// `comm` is freed and `*place` is set to null.
  void add_initialization(ncclComm* parent, ncclComm* comm, ncclComm_t* place,
                          std::function<ncclResult_t()> run);
  void add_operation(ncclComm* comm, PendingOperation operation);

 private:
  struct Initialization {
    ncclComm* parent;  ///< null: none
    ncclComm* comm;    ///< null: a rank that does not take part
    ncclComm_t* place;
    std::function<ncclResult_t()> run;
  };

  ncclResult_t end(bool simulated);
  static ncclResult_t run_initialization(const Initialization& job);
  static void give_up(const Initialization& job);
  static ncclResult_t run_initializations(const std::vector<Initialization>& initializations);
  static ncclResult_t run_operations(const std::vector<ncclComm*>& comms);

  int depth_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::vector<Initialization> initializations_;
  std::vector<ncclComm*> comms_;
};

}  // namespace amem::minccl
