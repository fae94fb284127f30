// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The main job, to be watched: ranks build communicators and allocate weights and a KV cache, use
// them, and pause one tag after another. Another process takes the memory that became free. After
// the resume everything is used and checked again. Real GPUs where there are two and an NCCL, else
// simulated ones.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "demo/json_file.h"
#include "demo/machine.h"
#include "demo/symmetric_demo.h"
#include "jobs/job.h"

namespace {

using jobs::Job;
using jobs::RankProcess;

constexpr double kMiB = 1 << 20;
// Of each rank: whole 2 MiB pages.
constexpr size_t kWeightsBytes = size_t{48} << 20;
constexpr size_t kCacheBytes = size_t{96} << 20;

struct Options {
  int ranks = 0;
  int communicators = 3;
  int cycles = 2;
  bool simulate = false;
  std::string what = "tags";
  std::string json_path;
};

/// One GPU's memory at the three moments, as its driver tells it.
struct GpuRow {
  double before_mib = 0, paused_mib = 0, resumed_mib = 0, pause_ms = 0, resume_ms = 0;
};

/// What the demo pauses by name, over all GPUs.
struct TagRow {
  std::string tag;
  bool kept;
  size_t bytes = 0;
  size_t freed_bytes = 0;  ///< as the driver says
  size_t saved_bytes = 0;
  bool verified = false;
};

size_t used_bytes(RankProcess& rank) {
  size_t free_bytes = 0, total_bytes = 0;
  sscanf(rank.ask("memory").c_str(), "%zu %zu", &free_bytes, &total_bytes);
  return total_bytes - free_bytes;
}

double used_mib(RankProcess& rank) { return static_cast<double>(used_bytes(rank)) / kMiB; }

std::vector<double> milliseconds(const std::vector<std::string>& answers) {
  std::vector<double> values;
  for (const std::string& answer : answers) values.push_back(std::stod(answer) * 1e3);
  return values;
}

class Demo {
 public:
  Demo(const Options& options, demo::Machine machine)
      : options_(options), machine_(std::move(machine)) {
    if (options_.ranks == 0) options_.ranks = machine_.default_ranks;
  }

  bool run() {
    fmt::print("{}\n{} ranks, one a GPU, {} communicators, {} cycles\n\n", machine_.description,
               options_.ranks, options_.communicators, options_.cycles);
    Job job(machine_.setup, options_.ranks);
    std::vector<int> devices(static_cast<size_t>(options_.ranks));
    for (size_t i = 0; i < devices.size(); ++i) devices[i] = static_cast<int>(i);
    job.use_devices(devices);
    std::vector<double> bare_mib;
    for (int r = 0; r < job.size(); ++r) bare_mib.push_back(used_mib(job[r]));

    say("making communicators and connecting them");
    for (int c = 0; c < options_.communicators; ++c) job.make(name(c));
    use_all(job);
    job.all("capture c0 16384");
    job.all("replay c0");
    read_sizes(job);
    job.all(fmt::format("tag_malloc weights keep {}", kWeightsBytes));
    job.all(fmt::format("tag_malloc kv_cache discard {}", kCacheBytes));
    for (int cycle = 0; cycle < options_.cycles; ++cycle) run_cycle(job, cycle);
    print_table(bare_mib);
    write_json();
    return verified();
  }

 private:
  static std::string name(int communicator) { return "c" + std::to_string(communicator); }
  static void say(const std::string& text) {
    fmt::print("  {}\n", text);
    fflush(stdout);
  }

  void use_all(Job& job) {
    for (int c = 0; c < options_.communicators; ++c) job.all("check " + name(c) + machine_.counts);
  }

  void read_sizes(Job& job) {
    for (const std::string& answer : job.all("totals")) {
      size_t driver_bytes = 0;
      sscanf(answer.c_str(), "%*u %*u %*u %*u %*u %*u %*u %*u %zu", &driver_bytes);
      nccl_bytes_.push_back(driver_bytes);
    }
  }

  /// Pauses a tag on all ranks by `order`. What it frees is what the driver then has more of.
  std::vector<double> pause_tag(Job& job, TagRow& row, const std::string& order) {
    std::vector<size_t> before;
    for (int r = 0; r < job.size(); ++r) before.push_back(used_bytes(job[r]));
    const std::vector<double> ms = milliseconds(job.all(order));
    row.bytes = row.freed_bytes = row.saved_bytes = 0;
    nccl_freed_.clear();
    for (int r = 0; r < job.size(); ++r) {
      size_t allocated = 0, saved = 0;
      sscanf(job[r].ask("tag_totals " + row.tag).c_str(), "%*d %zu %*u %*u %zu", &allocated,
             &saved);
      const size_t freed = before[static_cast<size_t>(r)] - used_bytes(job[r]);
      row.bytes += allocated;
      row.saved_bytes += saved;
      row.freed_bytes += freed;
      nccl_freed_.push_back(freed);
    }
    return ms;
  }

  void pause_all(Job& job, int cycle) {
    say(fmt::format("cycle {}: pause the KV cache; weights and NCCL are in use", cycle + 1));
    pause_tag(job, tags_[2], "tag_pause kv_cache");
    job.all("tag_check weights");
    job.all("check c0" + machine_.counts);
    say(fmt::format("cycle {}: pause the weights, then NCCL", cycle + 1));
    pause_tag(job, tags_[1], "tag_pause weights");
    pause_ms_ = pause_tag(job, tags_[0], "pause");
  }

  /// The tenant is started anew each time: a process of its own that knows nothing of NCCL.
  void fill_with_others(Job& job, int cycle) {
    Job tenant(machine_.setup, job.size());
    std::vector<int> devices(static_cast<size_t>(job.size()));
    for (size_t i = 0; i < devices.size(); ++i) devices[i] = static_cast<int>(i);
    tenant.use_devices(devices);
    double taken = 0;
    for (const std::string& bytes :
         tenant.all(fmt::format("occupy {} 2779096485", size_t{64} << 20)))
      taken += std::stod(bytes);
    tenant.all("drain");
    say(fmt::format("cycle {}: another process filled and checked {:.0f} MiB", cycle + 1,
                    taken / kMiB));
  }

  void resume_all(Job& job, int cycle) {
    say(fmt::format("cycle {}: resume NCCL and the weights; the KV cache stays away", cycle + 1));
    resume_ms_ = milliseconds(job.all("resume"));
    job.all("tag_resume weights");
    job.all("tag_check weights");
    use_all(job);
    job.all("tag_resume kv_cache");
  }

  void run_cycle(Job& job, int cycle) {
    job.all("tag_write weights");
    job.all("tag_write kv_cache");
    rows_.assign(static_cast<size_t>(job.size()), {});
    for (int r = 0; r < job.size(); ++r) row(r).before_mib = used_mib(job[r]);
    pause_all(job, cycle);
    for (int r = 0; r < job.size(); ++r) row(r).paused_mib = used_mib(job[r]);
    fill_with_others(job, cycle);
    resume_all(job, cycle);
    for (int r = 0; r < job.size(); ++r) {
      row(r).resumed_mib = used_mib(job[r]);
      row(r).pause_ms = pause_ms_[static_cast<size_t>(r)];
      row(r).resume_ms = resume_ms_[static_cast<size_t>(r)];
    }
    use_all(job);
    job.all("replay c0");
    job.all("tag_check weights");
    job.all("tag_write kv_cache");
    job.all("tag_check kv_cache");
    for (TagRow& each : tags_) each.verified = true;
    say(
        fmt::format("cycle {}: six collectives on {} communicators, the graph's replay and the "
                    "weights are bit-exact",
                    cycle + 1, options_.communicators));
  }

  GpuRow& row(int rank) { return rows_[static_cast<size_t>(rank)]; }

  void print_table(const std::vector<double>& bare_mib) {
    fmt::print("\nMemory used on each GPU, in MiB, as the driver says (last cycle)\n\n");
    fmt::print("  {:>3} | {:>10} | {:>8} {:>8} {:>8} | {:>8} | {:>8} {:>8}\n", "GPU", "no NCCL",
               "before", "paused", "resumed", "freed", "pause s", "resume s");
    fmt::print("  {:->4}+{:->12}+{:->28}+{:->10}+{:->18}\n", "", "", "", "", "");
    for (size_t r = 0; r < rows_.size(); ++r)
      fmt::print(
          "  {:>3} | {:>10.0f} | {:>8.0f} {:>8.0f} {:>8.0f} | {:>8.0f} | {:>8.3f} {:>8.3f}\n", r,
          bare_mib[r], rows_[r].before_mib, rows_[r].paused_mib, rows_[r].resumed_mib,
          rows_[r].before_mib - rows_[r].paused_mib, rows_[r].pause_ms / 1e3,
          rows_[r].resume_ms / 1e3);
    fmt::print("\nBy tag, in MiB over all GPUs (last cycle)\n\n");
    fmt::print("  {:<8} | {:>8} | {:>8} | {:>8} | {}\n", "tag", "bytes", "freed", "on host",
               "afterwards");
    fmt::print("  {:->9}+{:->10}+{:->10}+{:->10}+{:->12}\n", "", "", "", "", "");
    for (const TagRow& each : tags_)
      fmt::print(
          "  {:<8} | {:>8.0f} | {:>8.0f} | {:>8.0f} | {}\n", each.tag,
          static_cast<double>(each.bytes) / kMiB, static_cast<double>(each.freed_bytes) / kMiB,
          static_cast<double>(each.saved_bytes) / kMiB, each.kept ? "bit-exact" : "discarded");
    fmt::print("\n");
  }

  bool verified() const {
    return std::all_of(tags_.begin(), tags_.end(), [](const TagRow& row) { return row.verified; });
  }

  void write_json() {
    if (options_.json_path.empty()) return;
    const auto slowest = [](const std::vector<double>& values) {
      return *std::max_element(values.begin(), values.end());
    };
    nlohmann::json tags;
    for (const TagRow& each : tags_)
      tags[each.tag] = {{"bytes", each.bytes},
                        {"freed_bytes", each.freed_bytes},
                        {"kept", each.kept},
                        {"verified", each.verified}};
    const nlohmann::json result = {{"gpu", machine_.gpu},
                                   {"ranks", options_.ranks},
                                   {"communicators", options_.communicators},
                                   {"nccl_bytes", nccl_bytes_},
                                   {"freed_bytes", nccl_freed_},
                                   {"pause_ms", slowest(pause_ms_)},
                                   {"resume_ms", slowest(resume_ms_)},
                                   {"cycles", options_.cycles},
                                   {"tags", tags},
                                   {"verified", verified()}};
    demo::write_json(options_.json_path, result);
  }

  Options options_;
  demo::Machine machine_;
  std::vector<GpuRow> rows_;
  std::vector<size_t> nccl_bytes_, nccl_freed_;
  std::vector<double> pause_ms_, resume_ms_;
  std::vector<TagRow> tags_{{"nccl", true}, {"weights", true}, {"kv_cache", false}};
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  CLI::App app{"Pauses and resumes a job's GPU memory by tag, and checks everything", "amem demo"};
  app.set_version_flag("-V,--version", "amem " AMEM_VERSION, "print the version");
  app.add_option("--ranks", options.ranks,
                 "ranks, one a GPU; 0: as many as the machine has, at most 4")
      ->check(CLI::Range(0, 16));
  app.add_option("--communicators", options.communicators, "communicators over all ranks")
      ->check(CLI::Range(1, 64));
  app.add_option("--cycles", options.cycles, "pauses and resumes")->check(CLI::Range(1, 1000));
  app.add_flag("--simulate", options.simulate, "simulated GPUs although there are real ones");
  app.add_option("--what", options.what,
                 "tags: NCCL, weights and a KV cache; symmetric: symmetric memory of amem")
      ->check(CLI::IsMember({"tags", "symmetric"}));
  app.add_option("--json", options.json_path, "file for the result as JSON")->take_last();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& wanted) {
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "amem: {} (see amem demo --help)\n", error.what());
    return 2;
  }
  if (!options.json_path.empty() && !std::ofstream(options.json_path)) {
    fmt::print(stderr, "amem: --json: {} cannot be written: {} (see amem demo --help)\n",
               options.json_path, strerror(errno));
    return 2;
  }
  try {
    const std::filesystem::path build = here.parent_path();
    demo::Machine machine = demo::find_machine(build, options.simulate, options.ranks);
    const bool simulated = machine.gpu == "simulated";
    const bool verified =
        options.what == "symmetric"
            ? demo::run_symmetric(build, machine, options.ranks, options.json_path)
            : Demo(options, std::move(machine)).run();
    fmt::print("{}{}\n",
               verified ? "All is right: what was kept is bit-exact after each pause."
                        : "Not all is right.",
               simulated ? " The GPUs are simulated: times mean nothing." : "");
    return verified ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "demo failed: {}\n", error.what());
    return 1;
  }
}
