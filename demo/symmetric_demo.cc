// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "demo/symmetric_demo.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "demo/json_file.h"

namespace demo {
namespace {

constexpr int kMib = 64;

/// A port that other programs of this machine hardly use at the same time, below those that the
/// kernel gives to outgoing connections (32768 and above).
int port() { return 20000 + getpid() % 12000; }

struct Rank {
  FILE* output = nullptr;
  size_t freed_bytes = 0;
  bool verified = false;
};

Rank start(const std::filesystem::path& build, int rank, int ranks) {
  const std::string command =
      fmt::format("{} {} {} 127.0.0.1:{} {}", (build / "examples/symmetric").string(), rank, ranks,
                  port(), kMib);
  return {popen(command.c_str(), "r")};
}

void finish(Rank& rank) {
  if (rank.output == nullptr) return;
  char word[16] = "";
  const bool said = fscanf(rank.output, "freed_bytes %zu %15s", &rank.freed_bytes, word) == 2;
  rank.verified = pclose(rank.output) == 0 && said && std::string(word) == "verified";
}

}  // namespace

bool run_symmetric(const std::filesystem::path& build, const Machine& machine, int ranks,
                   const std::string& json_path) {
  if (ranks == 0) ranks = machine.default_ranks;
  fmt::print("{}\n{} ranks, one a GPU, {} MiB of symmetric memory each\n", machine.description,
             ranks, kMib);
  fflush(stdout);
  for (const auto& [name, value] : machine.setup.environment)
    setenv(name.c_str(), value.c_str(), 1);
  std::vector<Rank> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(start(build, rank, ranks));
  std::vector<size_t> freed;
  for (Rank& rank : all) {
    finish(rank);
    freed.push_back(rank.freed_bytes);
    fmt::print("  rank {}: pull, push, direct; the pause released {} MiB; the same again: {}\n",
               freed.size() - 1, rank.freed_bytes >> 20, rank.verified ? "all verified" : "FAILED");
  }
  const bool verified =
      std::all_of(all.begin(), all.end(), [](const Rank& rank) { return rank.verified; });
  if (json_path.empty()) return verified;
  const nlohmann::json result = {
      {"gpu", machine.gpu}, {"ranks", ranks}, {"freed_bytes", freed}, {"verified", verified}};
  write_json(json_path, result);
  return verified;
}

}  // namespace demo
