// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "jobs/background_loop.h"
#include "jobs/collectives.h"
#include "jobs/orders.h"

namespace jobs {

/// The communicators of a rank, by name, and the commands that create, use and destroy them.
class CommunicatorOrders {
 public:
  /// The commands refer to this object.
  Orders orders();

  /// Throws std::runtime_error for an unknown name.
  Communicator& find(const std::string& name);
  /// For a thread beside which the communicator may be aborted.
  ncclComm_t handle(const std::string& name);
  Stream stream() const { return stream_; }

 private:
  std::string use_device(Words& words);
  std::string use_own_context(Words&);
  std::string reset_device(Words&);
  std::string new_stream(Words&);
  std::string version(Words&);
  std::string unique_id(Words&);
  std::string make(Words& words);
  std::string make_async(Words& words);
  std::string settle(Words& words);
  std::string split(Words& words);
  std::string split_async(Words& words);
  std::string shrink(Words& words);
  std::string take(Words& words);
  std::string finalize(Words& words);
  std::string destroy(Words& words);
  std::string abort(Words& words);

  std::string check(Words& words);
  std::string connect(Words& words);
  std::string all_reduce(Words& words);
  std::string broadcast(Words& words);
  std::string send(Words& words);
  std::string receive(Words& words);
  std::string enqueue(Words& words);
  std::string time(Words& words);
  std::string capture(Words& words);
  std::string replay(Words& words);
  std::string begin_capture(Words& words);
  std::string end_capture(Words& words);
  std::string replace_stream(Words& words);
  std::string background(Words& words);
  std::string loops(Words&);
  std::string join(Words&);
  std::string group_start(Words&);
  std::string group_end(Words&);

  std::string nccl_suspend(Words&);
  std::string nccl_resume(Words&);

  void add(const std::string& name, ncclComm_t comm);
  std::string on_communicator(Words& words, void (Communicator::*method)());
  std::string with_rank(Words& words, void (Communicator::*method)(size_t, int));
  /// The communicator that the next word names; without a word all, sorted by name, which is the
  /// same order on every rank.
  std::vector<ncclComm_t> named_or_all(Words& words);

  Context context_ = nullptr;
  Stream stream_ = nullptr;
  std::mutex mutex_;  ///< of the end of a communicator
  std::map<std::string, std::unique_ptr<Communicator>> communicators_;
  std::map<std::string, ncclComm_t> children_;  ///< that NCCL is creating
  BackgroundLoop loop_;
};

}  // namespace jobs
