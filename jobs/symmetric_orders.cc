// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/symmetric_orders.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "amem.h"
#include "jobs/symmetric_check.h"
#include "tests/slowdown.h"

namespace jobs {

namespace {

/// The ranks of a group meet through files of a folder: PREFIX.NUMBER.RANK.
struct FileGroup {
  std::string prefix;
  int rank, world_size;
  int number = 0;
  bool is_broken = false;  ///< announces another version
  int dies_at = -1;        ///< 2 N: this process is killed before exchange N; 2 N + 1: after it

  static int all_gather(void* context, const void* mine, size_t size_bytes, void* all) {
    auto& group = *static_cast<FileGroup*>(context);
    return group.gather(static_cast<const char*>(mine), size_bytes, static_cast<char*>(all));
  }

 private:
  std::string path(int of_rank) const {
    return prefix + "." + std::to_string(number) + "." + std::to_string(of_rank);
  }
  int gather(const char* mine, size_t size_bytes, char* all) {
    die_at(2 * number);
    std::string bytes(mine, size_bytes);
    if (is_broken) bytes[0] = static_cast<char>(bytes[0] + 1);
    const std::string unnamed = path(rank) + "." + std::to_string(getpid());
    std::ofstream(unnamed, std::ios::binary) << bytes;
    std::filesystem::rename(unnamed, path(rank));
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(60) * amem::kSlowdown;
    for (int from = 0; from < world_size; ++from) {
      while (!std::filesystem::exists(path(from))) {
        if (std::chrono::steady_clock::now() > deadline) return 1;
        // As a connection that ends.
        if (std::filesystem::exists(prefix + ".dead") && !std::filesystem::exists(path(from)))
          return 1;
        sched_yield();
      }
      std::ifstream file(path(from), std::ios::binary);
      file.read(all + static_cast<size_t>(from) * size_bytes,
                static_cast<std::streamsize>(size_bytes));
    }
    die_at(2 * number + 1);
    ++number;
    return 0;
  }
  void die_at(int moment) const {
    if (moment != dies_at) return;
    { const std::ofstream dead(prefix + ".dead"); }
    raise(SIGKILL);
  }
};

std::string word_of(Words& words) {
  std::string word;
  words >> word;
  return word;
}
template <typename T>
T number_of(Words& words) {
  T number{};
  words >> number;
  return number;
}

}  // namespace

Stream SymmetricOrders::stream() {
  if (stream_ == nullptr) JOB_CUDA(stream_create(&stream_, 1));
  return stream_;
}

amemSymmetric_t SymmetricOrders::handle_of(Words& words) { return handles_[word_of(words)]; }

void SymmetricOrders::finish(amemSymmetric_t handle) {
  JOB_CUDA(stream_synchronize(stream()));
  JOB_SYMMETRIC(GetError(handle));
}

/// sym_malloc NAME BYTES
std::string SymmetricOrders::allocate(Words& words) {
  Buffer& buffer = buffers_[word_of(words)];
  words >> buffer.size_bytes;
  JOB_SYMMETRIC(Malloc(&buffer.pointer, buffer.size_bytes));
  return std::to_string(reinterpret_cast<Address>(buffer.pointer));
}

/// sym_free NAME
std::string SymmetricOrders::free(Words& words) {
  JOB_SYMMETRIC(Free(buffers_[word_of(words)].pointer));
  return "";
}

/// sym_pad_size BYTES: of later handles
std::string SymmetricOrders::pad_size(Words& words) {
  JOB_SYMMETRIC(SetSignalPadSize(number_of<size_t>(words)));
  return "";
}

/// sym_meet HANDLE NAME PREFIX RANK WORLD_SIZE [broken | inside | dies MOMENT]
std::string SymmetricOrders::meet(Words& words) {
  const std::string name = word_of(words);
  const Buffer& buffer = buffers_[word_of(words)];
  FileGroup group{word_of(words), 0, 0};
  words >> group.rank >> group.world_size;
  const std::string how = word_of(words);
  group.is_broken = how == "broken";
  if (how == "dies") words >> group.dies_at;
  const amemGroup_t ranks{group.rank, group.world_size, FileGroup::all_gather, &group};
  amemSymmetric_t handle = nullptr;
  void* const inside = static_cast<unsigned char*>(buffer.pointer) + 4;
  JOB_SYMMETRIC(Rendezvous(&handle, how == "inside" ? inside : buffer.pointer, &ranks));
  handles_[name] = handle;
  return "";
}

/// sym_destroy HANDLE
std::string SymmetricOrders::destroy(Words& words) {
  JOB_SYMMETRIC(Destroy(handle_of(words)));
  return "";
}

/// sym_barrier HANDLE CHANNEL TIMEOUT_MS
std::string SymmetricOrders::barrier(Words& words) {
  const amemSymmetric_t handle = handle_of(words);
  const int channel = number_of<int>(words);
  JOB_SYMMETRIC(Barrier(handle, channel, stream(), number_of<uint64_t>(words)));
  finish(handle);
  return "";
}

/// sym_put HANDLE PEER CHANNEL TIMEOUT_MS; sym_wait
std::string SymmetricOrders::signal(Words& words, bool puts) {
  const amemSymmetric_t handle = handle_of(words);
  const int peer = number_of<int>(words), channel = number_of<int>(words);
  const auto timeout_ms = number_of<uint64_t>(words);
  if (puts)
    JOB_SYMMETRIC(PutSignal(handle, peer, channel, stream(), timeout_ms));
  else
    JOB_SYMMETRIC(WaitSignal(handle, peer, channel, stream(), timeout_ms));
  finish(handle);
  return "";
}

/// sym_write HANDLE PEER VALUE: the first word of the peer's buffer
std::string SymmetricOrders::write_word(Words& words) {
  const amemSymmetric_t handle = handle_of(words);
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle, &info));
  const int peer = number_of<int>(words);
  JOB_SYMMETRIC(WriteValue32(handle, info.buffers[peer], number_of<uint32_t>(words), stream()));
  finish(handle);
  return "";
}

/// sym_read NAME: the first word of the own buffer
std::string SymmetricOrders::read_word(Words& words) {
  uint32_t word = 0;
  JOB_CUDA(to_host(&word, reinterpret_cast<Address>(buffers_[word_of(words)].pointer), 4));
  return std::to_string(word);
}

/// sym_pad HANDLE [clear]: how many words of the own signal pad are not 0
std::string SymmetricOrders::pad(Words& words) {
  const amemSymmetric_t handle = handle_of(words);
  if (word_of(words) == "clear") {
    JOB_SYMMETRIC(ClearSignalPad(handle, stream()));
    finish(handle);
  }
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle, &info));
  std::vector<uint32_t> pad(info.signal_pad_bytes / sizeof(uint32_t));
  const auto address = reinterpret_cast<Address>(info.signal_pads[info.rank]);
  JOB_CUDA(to_host(pad.data(), address, info.signal_pad_bytes));
  int count = 0;
  for (const uint32_t word : pad) count += word != 0 ? 1 : 0;
  return std::to_string(count);
}

/// sym_error HANDLE: the error of the handle, or nothing
std::string SymmetricOrders::error(Words& words) {
  return amemSymmetricGetError(handle_of(words)) == 0 ? "" : amemGetLastError();
}

/// sym_multicast HANDLE: 1 if it has multicast, else 0
std::string SymmetricOrders::multicast(Words& words) {
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle_of(words), &info));
  return info.multicast != nullptr ? "1" : "0";
}

/// sym_collectives HANDLE BYTES...: the number of results that were compared
std::string SymmetricOrders::collectives(Words& words) {
  const amemSymmetric_t handle = handle_of(words);
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle, &info));
  int compared = 0;
  for (size_t size_bytes = 0; words >> size_bytes;) {
    const size_t needed = 2 * size_bytes * static_cast<size_t>(info.world_size);
    if (needed > stage_bytes_) {
      if (stage_ != 0) JOB_CUDA(mem_free(stage_));
      JOB_CUDA(mem_alloc(&stage_, needed));
      stage_bytes_ = needed;
    }
    compared += check_collectives(handle, size_bytes, stage_, stream());
  }
  return std::to_string(compared);
}

/// sym_enqueue HANDLE BYTES: an all-reduce in place that is not waited for
std::string SymmetricOrders::enqueue(Words& words) {
  const amemSymmetric_t handle = handle_of(words);
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle, &info));
  JOB_SYMMETRIC(AllReduce(handle, info.buffers[info.rank], 0, number_of<size_t>(words) / 4,
                          amemFloat32, amemAllReduceAuto, stream()));
  return "";
}

/// sym_capture NAME HANDLE BYTES: a barrier, and an all-reduce in place of the first half of the
/// buffer, each in its own size class
std::string SymmetricOrders::capture(Words& words) {
  constexpr int kThreadLocal = 1;
  const std::string name = word_of(words);
  const amemSymmetric_t handle = handle_of(words);
  Captured captured;
  words >> captured.size_bytes;
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle, &info));
  Graph graph = nullptr;
  JOB_CUDA(begin_capture(stream(), kThreadLocal));
  JOB_SYMMETRIC(Barrier(handle, 0, stream(), 0));
  JOB_SYMMETRIC(AllReduce(handle, info.buffers[info.rank], 0, captured.size_bytes / 4, amemFloat32,
                          amemAllReduceAuto, stream()));
  JOB_CUDA(end_capture(stream(), &graph));
  JOB_CUDA(graph_instantiate(&captured.graph, graph, 0));
  JOB_CUDA(graph_destroy(graph));
  graphs_[name] = captured;
  return "";
}

/// sym_replay NAME HANDLE TIMES: with new inputs each time
std::string SymmetricOrders::replay(Words& words) {
  const Captured captured = graphs_[word_of(words)];
  const amemSymmetric_t handle = handle_of(words);
  amemSymmetricInfo_t info{};
  JOB_SYMMETRIC(GetInfo(handle, &info));
  const auto buffer = reinterpret_cast<Address>(info.buffers[info.rank]);
  for (int left = number_of<int>(words); left > 0; --left) {
    const Elements elements(amemFloat32, false, static_cast<unsigned>(left));
    std::vector<unsigned char> bytes = elements.of_rank(info.rank, captured.size_bytes / 4);
    JOB_CUDA(to_device_async(buffer, bytes.data(), bytes.size(), stream()));
    JOB_CUDA(graph_launch(captured.graph, stream()));
    finish(handle);
    JOB_CUDA(to_host(bytes.data(), buffer, bytes.size()));
    elements.check_sums(bytes, 0, captured.size_bytes / 4, info.world_size,
                        "a replayed all-reduce");
  }
  return "";
}

/// sym_misuse KIND HANDLE NAME: a call that must fail
std::string SymmetricOrders::misuse(Words& words) {
  const std::string kind = word_of(words);
  const amemSymmetric_t handle = handle_of(words);
  const Buffer buffer = buffers_[word_of(words)];
  auto* const start = static_cast<unsigned char*>(buffer.pointer);
  void* const outside = reinterpret_cast<void*>(stage_);
  const auto reduce = [&](void* output, size_t offset_bytes, size_t count, int type = amemFloat32,
                          int algorithm = amemAllReduceAuto) {
    JOB_SYMMETRIC(AllReduce(handle, output, offset_bytes, count, static_cast<amemDataType_t>(type),
                            static_cast<amemAllReduce_t>(algorithm), stream()));
  };
  if (kind == "unaligned_offset") reduce(outside, 4, 16);
  if (kind == "unaligned_output") reduce(start + 8, 0, 4);
  if (kind == "unaligned_size") reduce(start, 0, 3);
  if (kind == "overlap") reduce(start + 16, 0, 64);
  if (kind == "too_large") reduce(start, 16, buffer.size_bytes / 4);
  if (kind == "type") reduce(start, 0, 16, 7);
  if (kind == "algorithm") reduce(start, 0, 16, amemFloat32, 7);
  if (kind == "null_output") reduce(nullptr, 0, 16);
  if (kind == "large_in_place") reduce(start, 0, 1 << 16, amemFloat32, amemAllReduceOneShot);
  if (kind == "multimem") reduce(start, 0, 16, amemFloat32, amemAllReduceMultimem);
  if (kind == "multimem_gather") JOB_SYMMETRIC(MultimemAllGather(handle, start, 0, 16, stream()));
  if (kind == "multimem_overlap")
    JOB_SYMMETRIC(MultimemAllGather(handle, start + 16, 0, 64, stream()));
  if (kind == "multimem_too_large")
    JOB_SYMMETRIC(MultimemAllGather(handle, start, 16, buffer.size_bytes / 2, stream()));
  if (kind == "multimem_null") JOB_SYMMETRIC(MultimemAllGather(handle, nullptr, 0, 16, stream()));
  if (kind == "channel") JOB_SYMMETRIC(Barrier(handle, 64, stream(), 100));
  if (kind == "peer") JOB_SYMMETRIC(PutSignal(handle, 16, 0, stream(), 100));
  if (kind == "signal_channel") JOB_SYMMETRIC(WaitSignal(handle, 0, 1 << 20, stream(), 100));
  if (kind == "address") JOB_SYMMETRIC(WriteValue32(handle, &words, 1, stream()));
  if (kind == "scratch")
    JOB_SYMMETRIC(ReduceScatter(handle, start + 4096, 0, 16, amemFloat32, amemCopyEngines, nullptr,
                                stream()));
  if (kind == "free") JOB_SYMMETRIC(Free(start));
  if (kind == "free_inner") JOB_SYMMETRIC(Free(start + 16));
  if (kind == "pad_size") JOB_SYMMETRIC(SetSignalPadSize(100));
  if (kind == "destroyed") JOB_SYMMETRIC(Barrier(nullptr, 0, stream(), 100));
  return "";
}

Orders SymmetricOrders::orders() {
  return {
      {"sym_malloc", [this](Words& words) { return allocate(words); }},
      {"sym_free", [this](Words& words) { return free(words); }},
      {"sym_pad_size", [](Words& words) { return pad_size(words); }},
      {"sym_meet", [this](Words& words) { return meet(words); }},
      {"sym_destroy", [this](Words& words) { return destroy(words); }},
      {"sym_barrier", [this](Words& words) { return barrier(words); }},
      {"sym_put", [this](Words& words) { return signal(words, true); }},
      {"sym_wait", [this](Words& words) { return signal(words, false); }},
      {"sym_write", [this](Words& words) { return write_word(words); }},
      {"sym_read", [this](Words& words) { return read_word(words); }},
      {"sym_pad", [this](Words& words) { return pad(words); }},
      {"sym_error", [this](Words& words) { return error(words); }},
      {"sym_multicast", [this](Words& words) { return multicast(words); }},
      {"sym_collectives", [this](Words& words) { return collectives(words); }},
      {"sym_enqueue", [this](Words& words) { return enqueue(words); }},
      {"sym_capture", [this](Words& words) { return capture(words); }},
      {"sym_replay", [this](Words& words) { return replay(words); }},
      {"sym_misuse", [this](Words& words) { return misuse(words); }},
  };
}

}  // namespace jobs
