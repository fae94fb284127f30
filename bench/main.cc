// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem_bench: what a pause and a resume cost, what amem costs while nothing is paused, and what the
// alternatives cost, on real GPUs where there are two and an NCCL, else on simulated ones.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/bandwidth_bench.h"
#include "bench/bystander_bench.h"
#include "bench/call_bench.h"
#include "bench/options.h"
#include "bench/pause_bench.h"
#include "bench/report.h"
#include "bench/rivals.h"
#include "bench/run_facts.h"
#include "bench/summary.h"
#include "bench/timeline_bench.h"

namespace {

using bench::Contender;
using bench::Way;
using bench::Workload;

class Bench {
 public:
  Bench(bench::Options options, const demo::Machine& machine)
      : options_(std::move(options)),
        machine_(machine),
        contenders_(bench::find_contenders(machine, options_.gpus)),
        report_(bench::run_facts(machine, contenders_, options_.gpus), options_.json_path) {}

  bool run() {
    for (int communicators : options_.communicators) run_communicators(communicators);
    if (options_.wants("timeline")) run_timelines();
    if (options_.wants("bandwidth")) {
      say("collectives in turns");
      bench::BandwidthBench bandwidth(contenders_, options_.gpus);
      for (const std::string& collective : options_.collectives)
        report_.add(bandwidth.measure(collective, options_.bandwidth));
    }
    if (options_.wants("calls")) {
      say("calls through amem and past it, in turns");
      report_.add(bench::measure_calls(contenders_, options_.gpus, options_.calls));
    }
    fmt::print("{}\n", options_.json_path);
    return report_.verified();
  }

 private:
  static void say(const std::string& text) { fmt::print(stderr, "{}\n", text); }

  bench::WorkloadSize size_of(int communicators) const {
    return {options_.gpus, communicators, options_.counts_text};
  }

  /// A workload that is set up; its set-up time and memory are kept for record_setups().
  std::unique_ptr<Workload> set_up(const Contender& contender, int communicators) {
    say(fmt::format("{} communicators, {}: setting up", communicators, contender.name));
    auto workload = std::make_unique<Workload>(contender, size_of(communicators));
    setup_s_[contender.name].push_back(workload->set_up());
    memory_bytes_[contender.name] = workload->used_since_start_bytes();
    return workload;
  }

  void run_communicators(int communicators) {
    setup_s_.clear();
    const bool setup = options_.wants("setup"), rivals = options_.wants("rivals");
    if (setup || options_.wants("pause")) {
      auto workload = set_up(contenders_.amem, communicators);
      if (options_.wants("pause")) {
        say(fmt::format("{} communicators, amem: {} cycles", communicators, options_.cycles));
        report_.add(bench::measure_pause(*workload, options_.cycles));
      }
    }
    if (setup) set_up(contenders_.forwarding, communicators);
    if (setup || rivals) {
      auto workload = set_up(contenders_.plain, communicators);
      if (rivals) {
        say(fmt::format("{} communicators: destroy and recreate", communicators));
        report_.add(bench::measure_rival(bench::recreate_way(), *workload, options_.rival_cycles));
      }
    }
    if (rivals)
      with_native_suspend("rival", communicators, [&](const Contender& contender) {
        Workload workload(contender, size_of(communicators));
        workload.set_up();
        return bench::measure_rival(bench::suspend_way(), workload, options_.rival_cycles);
      });
    if (setup) record_setups(communicators);
    if (options_.wants("bystander")) run_bystander(communicators);
  }

  void record_setups(int communicators) {
    const Contender* all[] = {&contenders_.amem, &contenders_.forwarding, &contenders_.plain};
    for (int i = 1; i < options_.setups; ++i)
      for (const Contender* contender : all) set_up(*contender, communicators);
    for (const Contender* contender : all)
      report_.add({{"figures", "setup"},
                   {"contender", contender->name},
                   {"communicators", communicators},
                   {"counts", options_.counts_text},
                   {"setup_s", bench::summary(setup_s_[contender->name])},
                   {"memory_bytes", memory_bytes_[contender->name]}});
  }

  /// A workload of its own, so that the first pause in it is the first of the bystanders' lives.
  void run_bystander(int communicators) {
    say(fmt::format("{} communicators, amem: bystanders of {} cycles", communicators,
                    options_.cycles));
    Workload workload(contenders_.amem, size_of(communicators));
    workload.set_up();
    report_.add(bench::measure_bystander(workload, options_.cycles));
  }

  void run_timelines() {
    const int communicators =
        *std::max_element(options_.communicators.begin(), options_.communicators.end());
    const auto timeline = [&](const Contender& contender, const Way& way) {
      say(fmt::format("{} communicators, {}: timeline", communicators, way.contender));
      return bench::measure_timeline(contenders_.plain, contender, size_of(communicators), way,
                                     options_.timeline);
    };
    report_.add(timeline(contenders_.amem, bench::amem_way()));
    report_.add(timeline(contenders_.plain, bench::recreate_way()));
    with_native_suspend("timeline", communicators, [&](const Contender& contender) {
      return timeline(contender, bench::suspend_way());
    });
  }

  /// Records what `measure` finds out about NCCL's own suspend, or why it was not measured. A rival
  /// that fails is an entry of the record, and the run continues.
  void with_native_suspend(const char* figures, int communicators,
                           const std::function<nlohmann::json(const Contender&)>& measure) {
    nlohmann::json record = {
        {"figures", figures}, {"contender", "suspend"}, {"communicators", communicators}};
    try {
      if (communicators > options_.suspend_up_to) {
        record["note"] = "not run: more than --suspend-up-to";
      } else if (const Contender contender = native_contender();
                 !bench::has_native_suspend(contender)) {
        record["note"] = "not in this NCCL (AMEM_BENCH_NCCL names one of 2.29.7 or later)";
      } else {
        say(fmt::format("{} communicators: NCCL's own suspend", communicators));
        record.update(measure(contender));
        jobs::RankProcess probe(contender.setup, {});
        record["nccl"] = bench::version_text(std::stoi(probe.ask("version")));
      }
    } catch (const std::exception& error) {
      record["note"] = fmt::format("failed: {}", error.what());
    }
    report_.add(record);
  }

  /// Ranks on the NCCL whose own suspend is measured.
  Contender native_contender() const {
    const std::string& file =
        options_.suspend_nccl.empty() ? contenders_.nccl_file : options_.suspend_nccl;
    return bench::without_amem(machine_, "suspend", file);
  }

  const bench::Options options_;
  const demo::Machine& machine_;
  const bench::Contenders contenders_;
  bench::Report report_;
  std::map<std::string, std::vector<double>> setup_s_;
  std::map<std::string, std::vector<uint64_t>> memory_bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::filesystem::path build =
        std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
    CLI::App app{"Measures pause, resume and what amem costs, beside the alternatives"};
    bench::Options options;
    options.json_path = (build.parent_path() / "bench.jsonl").string();
    options.add_to(app);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : 2;
    }
    if (const char* named = getenv("AMEM_BENCH_NCCL")) options.suspend_nccl = named;
    if (!options.suspend_nccl.empty() && !std::filesystem::exists(options.suspend_nccl))
      throw std::runtime_error("AMEM_BENCH_NCCL: there is no file " + options.suspend_nccl);
    unsetenv("AMEM_BENCH_NCCL");  // a variable of this program; the library would warn about it

    demo::Machine machine = demo::find_machine(build, options.simulate, 0);
    if (machine.gpu == "simulated") {
      constexpr int kLeastDevices = 4;
      machine.setup.environment["AMEM_SIM_MEMORY_MB"] = "8192";
      machine.setup.environment["AMEM_SIM_DEVICES"] =
          std::to_string(std::max(kLeastDevices, options.gpus));
    }
    options.fill_in(machine);
    fmt::print(stderr, "{}\n", machine.description);
    return Bench(std::move(options), machine).run() ? 0 : 1;
  } catch (const std::exception& error) {
    fprintf(stderr, "bench failed: %s\n", error.what());
    return 1;
  }
}
