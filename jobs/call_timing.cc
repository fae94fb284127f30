// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/call_timing.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "amem.h"

namespace jobs {

namespace {

struct NcclCalls {
  decltype(&ncclAllReduce) all_reduce = ncclAllReduce;
  decltype(&ncclGroupStart) group_start = ncclGroupStart;
  decltype(&ncclGroupEnd) group_end = ncclGroupEnd;
};

/// The symbols of a library's file. Those in memory mean amem's functions.
class SymbolFile {
 public:
  explicit SymbolFile(const char* path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (bytes_.size() < sizeof(ElfW(Ehdr)))
      throw std::runtime_error(std::string("no ELF file: ") + path);
    const auto* header = at<ElfW(Ehdr)>(0);
    sections_ = {at<ElfW(Shdr)>(header->e_shoff), header->e_shnum};
  }

  /// Relative to the load address; 0 if the library does not define it.
  uintptr_t find(const char* name) const {
    for (const ElfW(Shdr) & section : sections_) {
      if (section.sh_type != SHT_DYNSYM) continue;
      const char* const names = at<char>(sections_[section.sh_link].sh_offset);
      const auto* const symbols = at<ElfW(Sym)>(section.sh_offset);
      for (const ElfW(Sym) & symbol : std::span(symbols, section.sh_size / sizeof *symbols))
        if (strcmp(names + symbol.st_name, name) == 0) return symbol.st_value;
    }
    return 0;
  }

 private:
  template <typename T>
  const T* at(size_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }

  std::vector<char> bytes_;
  std::span<const ElfW(Shdr)> sections_;
};

/// The NCCL of this process, whose functions it gives without amem's.
class OwnNccl {
 public:
  explicit OwnNccl(const std::string& path) : symbols_(path.c_str()) {
    void* const nccl = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (nccl == nullptr || dlinfo(nccl, RTLD_DI_LINKMAP, &loaded_) != 0)
      throw std::runtime_error(path + " is not the NCCL of this process");
  }

  /// Replaces a function that this program is linked with by NCCL's own.
  template <typename Function>
  void replace(Function& linked, const char* name) const {
    const uintptr_t offset = symbols_.find(name);
    if (offset == 0) throw std::runtime_error(std::string(name) + " is not in NCCL");
    const auto own = reinterpret_cast<Function>(loaded_->l_addr + offset);
    if (own == linked) throw std::runtime_error("calls reach NCCL without amem");
    linked = own;
  }

 private:
  SymbolFile symbols_;
  const link_map* loaded_ = nullptr;
};

NcclCalls nccls_own(const std::string& nccl_file) {
  const OwnNccl nccl(nccl_file);
  NcclCalls calls;
  nccl.replace(calls.all_reduce, "ncclAllReduce");
  nccl.replace(calls.group_start, "ncclGroupStart");
  nccl.replace(calls.group_end, "ncclGroupEnd");
  return calls;
}

double nanoseconds(const NcclCalls& calls, ncclComm_t comm, int repeats, bool grouped) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    if (grouped) JOB_NCCL(calls.group_start());
    JOB_NCCL(calls.all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, nullptr));
    if (grouped) JOB_NCCL(calls.group_end());
  }
  const std::chrono::duration<double, std::nano> all = std::chrono::steady_clock::now() - start;
  return all.count() / repeats;
}

}  // namespace

Orders CallTiming::orders() {
  return {{"time_calls", [this](Words& words) { return time_calls(words); }}};
}

namespace {

/// The all_reduces of this process that have passed amem.
long long calls_through_amem() {
  constexpr std::string_view kName = "\"ncclAllReduce\": ";
  const std::string report = amemGetInterposition();
  const size_t at = report.find(kName);
  return at == std::string::npos ? 0 : std::stoll(report.substr(at + kName.size()));
}

}  // namespace

std::string CallTiming::time_calls(Words& words) {
  std::string name, nccl_file;
  int repeats = 0, rounds = 0;
  bool grouped = false;
  words >> name >> repeats >> rounds >> grouped >> nccl_file;
  ncclComm_t const comm = communicators_.find(name).get();
  const std::array<NcclCalls, 2> ways = {nccls_own(nccl_file), NcclCalls()};
  const long long through_before = calls_through_amem();
  std::string answer;
  for (int round = 0; round < rounds; ++round) {
    std::array<double, 2> found{};
    // Each is first in every other round.
    for (int turn = 0; turn < 2; ++turn) {
      const auto way = static_cast<size_t>((round + turn) % 2);
      found[way] = nanoseconds(ways[way], comm, repeats, grouped);
    }
    for (const double of_way : found) answer += std::to_string(of_way) + " ";
  }
  const long long through = calls_through_amem() - through_before;
  if (const long long wanted = static_cast<long long>(rounds) * repeats; through != wanted)
    throw std::runtime_error(std::to_string(through) + " calls passed amem instead of " +
                             std::to_string(wanted));
  return answer;
}

}  // namespace jobs
