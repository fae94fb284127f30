// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <functional>
#include <vector>

#include "sim/minccl/communicator.h"

namespace amem::minccl {

/// What the calling thread has called since its outermost ncclGroupStart(). A call outside a group
/// is a group of its own.
class Group {
 public:
  /// The calling thread's.
  static Group& current();

  void begin() { ++depth_; }
  /// At the outermost level: initializes, connects and launches. Initializations and connections of
  /// several communicators go side by side, because they wait for each other when they are ranks of
  /// one communicator. ncclInProgress when a communicator with blocking = 0 is being initialized.
  ncclResult_t end();
  /// The same, but at the outermost level launches nothing.
  ncclResult_t end_simulated();
  /// Ends a call that began the group and had this result so far; the group fails with the first
  /// failure in it.
  ncclResult_t end_call(ncclResult_t result);

  /// `run` initializes `comm`, which `*place` points to. When it fails, `comm` is freed and
  /// `*place` becomes null.
  void add_initialization(ncclComm* comm, ncclComm_t* place, std::function<ncclResult_t()> run);
  void add_operation(ncclComm* comm, PendingOperation operation);

 private:
  struct Initialization {
    ncclComm* comm;
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
