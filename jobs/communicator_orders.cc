// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/communicator_orders.h"

#include <stdexcept>

#include "jobs/by_name.h"
#include "jobs/native_suspend.h"
#include "jobs/non_blocking_config.h"
#include "jobs/unique_id_text.h"

namespace jobs {

namespace {

std::vector<size_t> rest_of(Words& words) {
  std::vector<size_t> counts;
  for (size_t count; words >> count;) counts.push_back(count);
  return counts;
}

}  // namespace

Orders CommunicatorOrders::orders() {
  using Method = std::string (CommunicatorOrders::*)(Words&);
  static constexpr std::pair<const char*, Method> kMethods[] = {
      {"device", &CommunicatorOrders::use_device},
      {"own_context", &CommunicatorOrders::use_own_context},
      {"reset_device", &CommunicatorOrders::reset_device},
      {"new_stream", &CommunicatorOrders::new_stream},
      {"version", &CommunicatorOrders::version},
      {"unique", &CommunicatorOrders::unique_id},
      {"make", &CommunicatorOrders::make},
      {"make_async", &CommunicatorOrders::make_async},
      {"settle", &CommunicatorOrders::settle},
      {"split", &CommunicatorOrders::split},
      {"split_async", &CommunicatorOrders::split_async},
      {"shrink", &CommunicatorOrders::shrink},
      {"take", &CommunicatorOrders::take},
      {"finalize", &CommunicatorOrders::finalize},
      {"destroy", &CommunicatorOrders::destroy},
      {"abort", &CommunicatorOrders::abort},
      {"check", &CommunicatorOrders::check},
      {"connect", &CommunicatorOrders::connect},
      {"all_reduce", &CommunicatorOrders::all_reduce},
      {"broadcast", &CommunicatorOrders::broadcast},
      {"send", &CommunicatorOrders::send},
      {"receive", &CommunicatorOrders::receive},
      {"enqueue", &CommunicatorOrders::enqueue},
      {"time", &CommunicatorOrders::time},
      {"capture", &CommunicatorOrders::capture},
      {"replay", &CommunicatorOrders::replay},
      {"begin_capture", &CommunicatorOrders::begin_capture},
      {"end_capture", &CommunicatorOrders::end_capture},
      {"replace_stream", &CommunicatorOrders::replace_stream},
      {"background", &CommunicatorOrders::background},
      {"loops", &CommunicatorOrders::loops},
      {"join", &CommunicatorOrders::join},
      {"group_start", &CommunicatorOrders::group_start},
      {"group_end", &CommunicatorOrders::group_end},
      {"nccl_suspend", &CommunicatorOrders::nccl_suspend},
      {"nccl_resume", &CommunicatorOrders::nccl_resume},
  };
  Orders orders;
  for (const auto& [name, method] : kMethods)
    orders[name] = [this, method = method](Words& words) { return (this->*method)(words); };
  orders["exports"] = [](Words& words) {
    std::string function;
    words >> function;
    return std::string(nccl_exports(function) ? "1" : "0");
  };
  return orders;
}

std::string CommunicatorOrders::use_device(Words& words) {
  int device = 0;
  words >> device;
  JOB_CUDA(init(0));
  JOB_CUDA(retain_primary(&context_, device));
  JOB_CUDA(set_current(context_));
  return new_stream(words);
}

/// The same in a context that is not the device's primary one.
std::string CommunicatorOrders::use_own_context(Words& words) {
  int device = 0;
  words >> device;
  JOB_CUDA(init(0));
  JOB_CUDA(create_context(&context_, 0, device));
  JOB_CUDA(set_current(context_));
  return new_stream(words);
}

/// As cudaDeviceReset(): the primary context ends, and with it everything in it. `device` makes it
/// active again.
std::string CommunicatorOrders::reset_device(Words& words) {
  int device = 0;
  words >> device;
  JOB_CUDA(reset_primary(device));
  return "";
}

/// Communicators that are made from now on work on a stream of their own.
std::string CommunicatorOrders::new_stream(Words&) {
  constexpr unsigned kNonBlocking = 1;
  JOB_CUDA(stream_create(&stream_, kNonBlocking));
  return "";
}

std::string CommunicatorOrders::version(Words&) {
  int version = 0;
  JOB_NCCL(ncclGetVersion(&version));
  return std::to_string(version);
}

std::string CommunicatorOrders::unique_id(Words&) {
  ncclUniqueId id;
  JOB_NCCL(ncclGetUniqueId(&id));
  return hex(id);
}

std::string CommunicatorOrders::make(Words& words) {
  std::string name, id;
  int ranks = 0, rank = 0;
  words >> name >> ranks >> rank >> id;
  ncclComm_t comm = nullptr;
  JOB_NCCL(ncclCommInitRank(&comm, ranks, unhex(id), rank));
  communicators_[name] = std::make_unique<Communicator>(comm, rank, ranks, stream_);
  return "";
}

/// A communicator with ncclConfig_t.blocking = 0, which NCCL creates in the background; it can be
/// used after `settle`.
std::string CommunicatorOrders::make_async(Words& words) {
  std::string name, id;
  int ranks = 0, rank = 0;
  words >> name >> ranks >> rank >> id;
  ncclComm_t comm = nullptr;
  NonBlockingConfig config;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, ranks, unhex(id), rank,
                                                     reinterpret_cast<ncclConfig_t*>(&config));
  if (result != ncclInProgress) check_nccl(result, "ncclCommInitRankConfig");
  communicators_[name] = std::make_unique<Communicator>(comm, rank, ranks, stream_);
  return "";
}

/// Waits until NCCL has ended what it does in the background; answers with the number of questions.
std::string CommunicatorOrders::settle(Words& words) {
  std::string name;
  words >> name;
  ncclResult_t state = ncclInProgress;
  long questions = 0;
  for (; state == ncclInProgress; ++questions)
    JOB_NCCL(ncclCommGetAsyncError(find(name).get(), &state));
  check_nccl(state, "the work of a non-blocking communicator");
  return std::to_string(questions);
}

std::string CommunicatorOrders::split(Words& words) {
  std::string parent, name;
  int color = 0, key = 0;
  words >> parent >> name >> color >> key;
  ncclComm_t comm = nullptr;
  JOB_NCCL(ncclCommSplit(find(parent).get(), color, key, &comm, nullptr));
  add(name, comm);
  return "";
}

/// A child of a communicator with blocking = 0, which NCCL creates in the background; it can be
/// used after `settle` of the parent and `take`.
std::string CommunicatorOrders::split_async(Words& words) {
  std::string parent, name;
  int color = 0, key = 0;
  words >> parent >> name >> color >> key;
  const ncclResult_t result =
      ncclCommSplit(find(parent).get(), color, key, &children_[name], nullptr);
  if (result != ncclInProgress) check_nccl(result, "ncclCommSplit");
  return "";
}

/// A child without one of the ranks.
std::string CommunicatorOrders::shrink(Words& words) {
  std::string parent, name;
  int excluded = 0;
  words >> parent >> name >> excluded;
  ncclComm_t comm = nullptr;
  void* const config = nullptr;
  check_nccl(by_name("ncclCommShrink", find(parent).get(), &excluded, 1, &comm, config, 0),
             "ncclCommShrink");
  add(name, comm);
  return "";
}

std::string CommunicatorOrders::take(Words& words) {
  std::string name;
  words >> name;
  add(name, children_.at(name));
  children_.erase(name);
  return "";
}

void CommunicatorOrders::add(const std::string& name, ncclComm_t comm) {
  int ranks = 0, rank = 0;
  JOB_NCCL(ncclCommCount(comm, &ranks));
  JOB_NCCL(ncclCommUserRank(comm, &rank));
  communicators_[name] = std::make_unique<Communicator>(comm, rank, ranks, stream_);
}

std::string CommunicatorOrders::finalize(Words& words) {
  std::string name;
  words >> name;
  JOB_NCCL(ncclCommFinalize(find(name).get()));
  return "";
}

std::string CommunicatorOrders::destroy(Words& words) {
  std::string name;
  words >> name;
  const ncclComm_t comm = find(name).get();
  communicators_.erase(name);
  JOB_NCCL(ncclCommDestroy(comm));
  return "";
}

std::string CommunicatorOrders::abort(Words& words) {
  std::string name;
  words >> name;
  const ncclComm_t comm = handle(name);
  {
    const std::lock_guard lock(mutex_);
    communicators_.erase(name);
  }
  JOB_NCCL(ncclCommAbort(comm));
  return "";
}

std::string CommunicatorOrders::check(Words& words) {
  std::string name;
  words >> name;
  find(name).check_all(rest_of(words));
  return "";
}

/// All collectives once with each count, unchecked: connections and memory are then as after a
/// check, but the time is NCCL's.
std::string CommunicatorOrders::connect(Words& words) {
  std::string name;
  words >> name;
  const std::vector<size_t> counts = rest_of(words);
  if (counts.empty()) throw std::runtime_error("connect NAME COUNT...: no count");
  return std::to_string(seconds_of([&] { find(name).use_all(counts); }));
}

std::string CommunicatorOrders::all_reduce(Words& words) {
  std::string name;
  size_t count = 0;
  words >> name >> count;
  find(name).all_reduce(count);
  return "";
}

/// broadcast NAME COUNT ROOT
std::string CommunicatorOrders::broadcast(Words& words) {
  return with_rank(words, &Communicator::broadcast);
}

/// send NAME COUNT RECEIVER: returns when the kernel has ended, received or not.
std::string CommunicatorOrders::send(Words& words) { return with_rank(words, &Communicator::send); }

/// receive NAME COUNT SENDER
std::string CommunicatorOrders::receive(Words& words) {
  return with_rank(words, &Communicator::receive);
}

std::string CommunicatorOrders::with_rank(Words& words, void (Communicator::*method)(size_t, int)) {
  std::string name;
  size_t count = 0;
  int rank = 0;
  words >> name >> count >> rank;
  (find(name).*method)(count, rank);
  return "";
}

std::string CommunicatorOrders::enqueue(Words& words) {
  std::string name;
  size_t count = 0;
  words >> name >> count;
  find(name).enqueue_all_reduce(count);
  return "";
}

/// time NAME COLLECTIVE COUNT REPEATS [WARM_UPS]
std::string CommunicatorOrders::time(Words& words) {
  std::string name, collective;
  size_t count = 0;
  int repeats = 0, warm_ups = 0;
  words >> name >> collective >> count >> repeats >> warm_ups;
  return std::to_string(find(name).time(collective, count, repeats, warm_ups));
}

std::string CommunicatorOrders::capture(Words& words) {
  std::string name;
  size_t count = 0;
  words >> name >> count;
  find(name).capture(count);
  return "";
}

std::string CommunicatorOrders::replay(Words& words) {
  return on_communicator(words, &Communicator::replay);
}

std::string CommunicatorOrders::begin_capture(Words& words) {
  std::string name;
  size_t count = 0;
  words >> name >> count;
  find(name).begin_capture(count);
  return "";
}

std::string CommunicatorOrders::end_capture(Words& words) {
  return on_communicator(words, &Communicator::end_capture);
}

std::string CommunicatorOrders::replace_stream(Words& words) {
  return on_communicator(words, &Communicator::replace_stream);
}

/// Checked all_reduces in the background, on every member of the communicator, until one of them
/// gets "join"; the answer to it is the number of rounds, the same on all.
std::string CommunicatorOrders::background(Words& words) {
  std::string name;
  size_t count = 0;
  words >> name >> count;
  loop_.start(find(name), context_, count);
  return "";
}
std::string CommunicatorOrders::loops(Words&) { return std::to_string(loop_.rounds()); }
std::string CommunicatorOrders::join(Words&) { return std::to_string(loop_.finish()); }

std::string CommunicatorOrders::group_start(Words&) {
  JOB_NCCL(ncclGroupStart());
  return "";
}
std::string CommunicatorOrders::group_end(Words&) {
  JOB_NCCL(ncclGroupEnd());
  return "";
}

std::string CommunicatorOrders::nccl_suspend(Words& words) {
  const std::vector<ncclComm_t> communicators = named_or_all(words);
  return std::to_string(seconds_of([&] { suspend_natively(communicators); }));
}
std::string CommunicatorOrders::nccl_resume(Words& words) {
  const std::vector<ncclComm_t> communicators = named_or_all(words);
  return std::to_string(seconds_of([&] { resume_natively(communicators); }));
}

std::string CommunicatorOrders::on_communicator(Words& words, void (Communicator::*method)()) {
  std::string name;
  words >> name;
  (find(name).*method)();
  return "";
}

Communicator& CommunicatorOrders::find(const std::string& name) {
  auto found = communicators_.find(name);
  if (found == communicators_.end()) throw std::runtime_error("no communicator " + name);
  return *found->second;
}

ncclComm_t CommunicatorOrders::handle(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return find(name).get();
}

std::vector<ncclComm_t> CommunicatorOrders::named_or_all(Words& words) {
  if (std::string one; words >> one) return {find(one).get()};
  std::vector<ncclComm_t> comms;
  for (const auto& [name, communicator] : communicators_) comms.push_back(communicator->get());
  return comms;
}

}  // namespace jobs
