// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem_rank: one rank that takes orders. A line on standard input is one order; the answer is one
// line on standard output: "ok ..." or "error ...". See the table at the end for the orders.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "amem.h"
#include "jobs/background_loop.h"
#include "jobs/collectives.h"
#include "jobs/process_counters.h"
#include "jobs/unique_id_text.h"

namespace {

using namespace std::string_literals;
using jobs::Communicator;
using Words = std::istringstream;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Throws with what amem said when one of its calls failed.
void check_amem(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(call) + " returned " + std::to_string(result) + ": " +
                             amemGetLastError());
}

class Rank {
 public:
  std::string use_device(Words& words) {
    int device = 0;
    words >> device;
    JOB_CUDA(init(0));
    jobs::Context context = nullptr;
    JOB_CUDA(retain_primary(&context, device));
    JOB_CUDA(set_current(context));
    context_ = context;
    constexpr unsigned kNonBlocking = 1;
    JOB_CUDA(stream_create(&stream_, kNonBlocking));
    return "";
  }

  std::string unique_id(Words&) {
    ncclUniqueId id;
    JOB_NCCL(ncclGetUniqueId(&id));
    return jobs::hex(id);
  }

  std::string make(Words& words) {
    std::string name, id;
    int ranks = 0, rank = 0;
    words >> name >> ranks >> rank >> id;
    ncclComm_t comm = nullptr;
    JOB_NCCL(ncclCommInitRank(&comm, ranks, jobs::unhex(id), rank));
    communicators_[name] = std::make_unique<Communicator>(comm, rank, ranks, stream_);
    return "";
  }

  std::string split(Words& words) {
    std::string parent, name;
    int color = 0, key = 0;
    words >> parent >> name >> color >> key;
    ncclComm_t comm = nullptr;
    JOB_NCCL(ncclCommSplit(find(parent).get(), color, key, &comm, nullptr));
    int ranks = 0, rank = 0;
    JOB_NCCL(ncclCommCount(comm, &ranks));
    JOB_NCCL(ncclCommUserRank(comm, &rank));
    communicators_[name] = std::make_unique<Communicator>(comm, rank, ranks, stream_);
    return "";
  }

  std::string check(Words& words) {
    std::string name;
    words >> name;
    std::vector<size_t> counts;
    for (size_t count; words >> count;) counts.push_back(count);
    find(name).check_all(counts);
    return "";
  }

  std::string all_reduce(Words& words) {
    std::string name;
    size_t count = 0;
    words >> name >> count;
    find(name).all_reduce(count);
    return "";
  }

  std::string broadcast(Words& words) {
    std::string name;
    size_t count = 0;
    int root = 0;
    words >> name >> count >> root;
    find(name).broadcast(count, root);
    return "";
  }

  std::string enqueue(Words& words) {
    std::string name;
    size_t count = 0;
    words >> name >> count;
    find(name).enqueue_all_reduce(count);
    return "";
  }

  std::string time(Words& words) {
    std::string name;
    size_t count = 0;
    int repeats = 0;
    words >> name >> count >> repeats;
    return std::to_string(find(name).time_all_reduce(count, repeats));
  }

  std::string capture(Words& words) {
    std::string name;
    size_t count = 0;
    words >> name >> count;
    find(name).capture(count);
    return "";
  }
  std::string replay(Words& words) { return on_communicator(words, &Communicator::replay); }
  std::string end_capture(Words& words) {
    return on_communicator(words, &Communicator::end_capture);
  }
  std::string begin_capture(Words& words) {
    std::string name;
    size_t count = 0;
    words >> name >> count;
    find(name).begin_capture(count);
    return "";
  }

  /// Checked all_reduces in the background, on every member of the communicator, until one of them
  /// gets "join"; the answer to it is the number of rounds, the same on all.
  std::string background(Words& words) {
    std::string name;
    size_t count = 0;
    words >> name >> count;
    loop_.start(find(name), context_, count);
    return "";
  }
  std::string loops(Words&) { return std::to_string(loop_.rounds()); }
  std::string join(Words&) { return std::to_string(loop_.finish()); }

  std::string pause(Words&) {
    return std::to_string(seconds_of([] { check_amem(ncclPause(NULL), "ncclPause"); }));
  }
  std::string resume(Words&) {
    return std::to_string(seconds_of([] { check_amem(ncclResume(NULL), "ncclResume"); }));
  }
  std::string state(Words&) { return std::to_string(amemGetState()); }
  std::string stats(Words&) {
    check_amem(ncclMemStats(), "ncclMemStats");
    return "";
  }
  std::string set_group(Words& words) {
    int id = 0;
    words >> id;
    check_amem(ncclSetGroupID(id), "ncclSetGroupID");
    return "";
  }
  std::string totals(Words&) {
    amemTotals_t own{}, imports{};
    amemGetTotals(-1, -1, &own);
    amemGetImports(&imports);
    return std::to_string(own.objects) + " " + std::to_string(own.allocated_bytes) + " " +
           std::to_string(own.resident_bytes) + " " + std::to_string(own.released_bytes) + " " +
           std::to_string(own.fixed_bytes) + " " + std::to_string(imports.objects) + " " +
           std::to_string(imports.resident_bytes);
  }
  std::string times(Words&) {
    amemTimes_t t{};
    amemGetTimes(&t);
    char text[256];
    snprintf(text, sizeof text, "%.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f", t.pause_ms,
             t.pause_wait_ms, t.pause_peers_ms, t.pause_copy_ms, t.pause_memory_ms, t.resume_ms,
             t.resume_memory_ms, t.resume_copy_ms, t.resume_peers_ms);
    return text;
  }

  std::string memory(Words&) {
    size_t free_bytes = 0, total_bytes = 0;
    JOB_CUDA(mem_info(&free_bytes, &total_bytes));
    return std::to_string(free_bytes) + " " + std::to_string(total_bytes);
  }
  /// Takes all free memory but a reserve, in pieces, and writes a pattern into it; "drain" checks
  /// the pattern and frees.
  std::string occupy(Words& words) {
    size_t spare_bytes = 0;
    unsigned pattern = 0;
    words >> spare_bytes >> pattern;
    pattern_ = pattern;
    size_t free_bytes = 0, total_bytes = 0, taken = 0;
    JOB_CUDA(mem_info(&free_bytes, &total_bytes));
    for (size_t piece = size_t{1} << 30; piece >= size_t{2} << 20;) {
      JOB_CUDA(mem_info(&free_bytes, &total_bytes));
      jobs::Address address = 0;
      if (free_bytes < spare_bytes + piece ||
          jobs::device_calls().mem_alloc(&address, piece) != 0) {
        piece /= 2;
        continue;
      }
      JOB_CUDA(fill32(address, pattern, piece / 4));
      pieces_.emplace_back(address, piece);
      taken += piece;
    }
    return std::to_string(taken);
  }
  std::string drain(Words&) {
    for (const auto& [address, size_bytes] : pieces_) {
      std::vector<unsigned> sample(std::min<size_t>(size_bytes / 4, 1 << 18));
      JOB_CUDA(to_host(sample.data(), address, sample.size() * 4));
      for (unsigned word : sample)
        if (word != pattern_) throw std::runtime_error("memory of another process was overwritten");
      JOB_CUDA(mem_free(address));
    }
    pieces_.clear();
    return "";
  }

  std::string resources(Words&) {
    std::ifstream statm("/proc/self/statm");
    size_t pages = 0, resident = 0;
    statm >> pages >> resident;
    return std::to_string(jobs::count_entries("/proc/self/fd")) + " " +
           std::to_string(jobs::count_lines("/proc/self/maps")) + " " +
           std::to_string(resident * 4096) + " " +
           std::to_string(jobs::count_entries("/proc/self/task"));
  }

  std::string destroy(Words& words) {
    std::string name;
    words >> name;
    const ncclComm_t comm = find(name).get();
    communicators_.erase(name);
    JOB_NCCL(ncclCommDestroy(comm));
    return "";
  }
  std::string abort(Words& words) {
    std::string name;
    words >> name;
    const ncclComm_t comm = find(name).get();
    communicators_.erase(name);
    JOB_NCCL(ncclCommAbort(comm));
    return "";
  }
  std::string group_start(Words&) {
    JOB_NCCL(ncclGroupStart());
    return "";
  }
  std::string group_end(Words&) {
    JOB_NCCL(ncclGroupEnd());
    return "";
  }
  /// In a forked child, which must only forward: the answer is the child's own of pause.
  std::string fork_pause(Words&) {
    const pid_t child = ::fork();
    if (child == 0) _exit(ncclPause(NULL));
    int status = 0;
    if (waitpid(child, &status, 0) != child) throw std::runtime_error("waitpid failed");
    return std::to_string(WEXITSTATUS(status));
  }

 private:
  std::string on_communicator(Words& words, void (Communicator::*method)()) {
    std::string name;
    words >> name;
    (find(name).*method)();
    return "";
  }
  Communicator& find(const std::string& name) {
    auto found = communicators_.find(name);
    if (found == communicators_.end()) throw std::runtime_error("no communicator " + name);
    return *found->second;
  }

  jobs::Context context_ = nullptr;
  jobs::Stream stream_ = nullptr;
  std::map<std::string, std::unique_ptr<Communicator>> communicators_;
  std::vector<std::pair<jobs::Address, size_t>> pieces_;
  unsigned pattern_ = 0;
  jobs::BackgroundLoop loop_;
};

using Order = std::string (Rank::*)(Words&);
const std::map<std::string, Order> kOrders = {
    {"device", &Rank::use_device},
    {"unique", &Rank::unique_id},
    {"make", &Rank::make},
    {"split", &Rank::split},
    {"check", &Rank::check},
    {"all_reduce", &Rank::all_reduce},
    {"broadcast", &Rank::broadcast},
    {"enqueue", &Rank::enqueue},
    {"time", &Rank::time},
    {"capture", &Rank::capture},
    {"replay", &Rank::replay},
    {"begin_capture", &Rank::begin_capture},
    {"end_capture", &Rank::end_capture},
    {"loops", &Rank::loops},
    {"background", &Rank::background},
    {"join", &Rank::join},
    {"pause", &Rank::pause},
    {"resume", &Rank::resume},
    {"state", &Rank::state},
    {"stats", &Rank::stats},
    {"set_group", &Rank::set_group},
    {"totals", &Rank::totals},
    {"times", &Rank::times},
    {"memory", &Rank::memory},
    {"occupy", &Rank::occupy},
    {"drain", &Rank::drain},
    {"resources", &Rank::resources},
    {"destroy", &Rank::destroy},
    {"abort", &Rank::abort},
    {"group_start", &Rank::group_start},
    {"group_end", &Rank::group_end},
    {"fork_pause", &Rank::fork_pause},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == "version"s) {
    int version = 0;
    if (ncclGetVersion(&version) != ncclSuccess) return 1;
    std::cout << version << "\n";
    return 0;
  }
  std::cout << std::unitbuf;
  // Orders and answers have the pipe for themselves: what NCCL prints goes to standard error.
  const int answers = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  FILE* const out = fdopen(answers, "w");
  Rank rank;
  for (std::string line; std::getline(std::cin, line);) {
    Words words(line);
    std::string order;
    words >> order;
    if (order == "exit") break;
    std::string answer;
    try {
      auto found = kOrders.find(order);
      if (found == kOrders.end()) throw std::runtime_error("unknown order " + order);
      answer = "ok " + (rank.*found->second)(words);
    } catch (const std::exception& error) {
      answer = "error "s + error.what();
    }
    for (char& c : answer)
      if (c == '\n') c = ' ';
    fprintf(out, "%s\n", answer.c_str());
    fflush(out);
  }
  _exit(0);
}
