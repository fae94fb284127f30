// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// The main job, to be watched: ranks build communicators and use them, pause, another process takes
// the memory that became free, and after resume everything is used and checked again. Real GPUs
// where there are two and an NCCL, else simulated ones.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "demo/machine.h"
#include "jobs/job.h"

namespace {

using jobs::Job;
using jobs::RankProcess;

constexpr double kMiB = 1 << 20;

struct Options {
  int ranks = 0;
  int communicators = 3;
  int cycles = 3;
  bool simulate = false;
  std::string json_path;
};

/// One GPU's memory at the three moments, as its driver tells it.
struct GpuRow {
  double before_mib = 0, paused_mib = 0, resumed_mib = 0, pause_ms = 0, resume_ms = 0;
};

double used_mib(RankProcess& rank) {
  size_t free_bytes = 0, total_bytes = 0;
  sscanf(rank.ask("memory").c_str(), "%zu %zu", &free_bytes, &total_bytes);
  return static_cast<double>(total_bytes - free_bytes) / kMiB;
}

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
    for (int cycle = 0; cycle < options_.cycles; ++cycle) run_cycle(job, cycle);
    print_table(bare_mib);
    write_json();
    return verified_;
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

  void run_cycle(Job& job, int cycle) {
    rows_.assign(static_cast<size_t>(job.size()), {});
    for (int r = 0; r < job.size(); ++r) row(r).before_mib = used_mib(job[r]);
    say(fmt::format("cycle {}: pause", cycle + 1));
    pause_ms_ = milliseconds(job.all("pause"));
    for (int r = 0; r < job.size(); ++r) row(r).paused_mib = used_mib(job[r]);

    // The tenant is started anew each time: a process of its own that knows nothing of NCCL.
    {
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

    say(fmt::format("cycle {}: resume", cycle + 1));
    resume_ms_ = milliseconds(job.all("resume"));
    for (int r = 0; r < job.size(); ++r) {
      row(r).resumed_mib = used_mib(job[r]);
      row(r).pause_ms = pause_ms_[static_cast<size_t>(r)];
      row(r).resume_ms = resume_ms_[static_cast<size_t>(r)];
    }
    use_all(job);
    job.all("replay c0");
    verified_ = true;
    say(fmt::format(
        "cycle {}: six collectives on {} communicators and the graph's replay are bit-exact",
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
    fmt::print("\n");
  }

  void write_json() {
    const auto slowest = [](const std::vector<double>& values) {
      return *std::max_element(values.begin(), values.end());
    };
    std::vector<size_t> freed_bytes;
    for (const GpuRow& each : rows_)
      freed_bytes.push_back(static_cast<size_t>(std::lround((each.before_mib - each.paused_mib) * kMiB)));
    const nlohmann::json result = {{"gpu", machine_.gpu},
                                   {"ranks", options_.ranks},
                                   {"communicators", options_.communicators},
                                   {"nccl_bytes", nccl_bytes_},
                                   {"freed_bytes", freed_bytes},
                                   {"pause_ms", slowest(pause_ms_)},
                                   {"resume_ms", slowest(resume_ms_)},
                                   {"cycles", options_.cycles},
                                   {"verified", verified_}};
    std::ofstream(options_.json_path) << result.dump(2) << "\n";
    fmt::print("written: {}\n", options_.json_path);
  }

  Options options_;
  demo::Machine machine_;
  std::vector<GpuRow> rows_;
  std::vector<size_t> nccl_bytes_;
  std::vector<double> pause_ms_, resume_ms_;
  bool verified_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  options.json_path = (here.parent_path().parent_path() / "demo.json").string();
  CLI::App app{"Pauses and resumes a job's NCCL memory, and checks everything"};
  app.add_option("--ranks", options.ranks,
                 "ranks, one a GPU; 0: as many as the machine has, at most 4")
      ->check(CLI::Range(0, 16));
  app.add_option("--communicators", options.communicators, "communicators over all ranks")
      ->check(CLI::Range(1, 64));
  app.add_option("--cycles", options.cycles, "pauses and resumes")->check(CLI::Range(1, 1000));
  app.add_flag("--simulate", options.simulate, "simulated GPUs although there are real ones");
  app.add_option("--json", options.json_path, "where the result is written");
  CLI11_PARSE(app, argc, argv);
  try {
    return Demo(options, demo::find_machine(here.parent_path(), options.simulate)).run() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "demo failed: {}\n", error.what());
    return 1;
  }
}
