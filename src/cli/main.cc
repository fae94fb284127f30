// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/attribution.h"
#include "cli/completion.h"
#include "cli/doctor/doctor.h"
#include "cli/environment_listing.h"
#include "cli/failure.h"
#include "cli/job_variables.h"
#include "cli/preload.h"
#include "cli/remote_control.h"
#include "cli/status_report.h"

namespace amem {
namespace {

constexpr long kStatusTimeoutMs = 2000;

/// The parsed command line.
struct Request {
  JobOptions job;
  bool as_json = false;
  bool as_list = false;
  bool as_csv = false;
  double watch_s = 0;  ///< 0: once
  pid_t pid = 0;       ///< 0: all processes
  std::string user;    ///< empty: the one who calls
  std::string shell;   ///< of a completion script
  RemoteOptions remote;
};

void add_job_options(CLI::App& command, JobOptions& job) {
  struct Option {
    const char *name, *variable, *type, *help;
  };
  constexpr Option kOptions[] = {
      {"--cumem", "AMEM_CUMEM", "force|respect",
       "force: set NCCL_CUMEM_ENABLE=1 before NCCL reads it; respect: do not change it"},
      {"--group", "AMEM_GROUP", "NAME|N",
       "logical group of the processes: a name (train, infer) or a number"},
      {"--log", "AMEM_LOG", "N", "0 silent to 5 every call"},
      {"--timeout-ms", "AMEM_TIMEOUT_MS", "N", "maximum wait of a pause or resume"},
      {"--tensors", "AMEM_TENSORS", "TAG",
       "all memory that cudaMalloc() allocates in the processes has this tag"},
      {"--safe-point", "AMEM_SAFE_POINT", "optimizer",
       "where amem pause can pause the processes: after each step of an optimizer of PyTorch"},
      {"--simulate", kSimulatedGpus, "N", "simulated GPUs in place of the machine's"}};
  for (const Option& option : kOptions) {
    JobOption& read = job[option.variable];
    read.name = option.name;
    command.add_option(option.name, read.value, option.help)->type_name(option.type);
  }
}

/// For --help: take_command() has removed it before CLI11 reads the arguments.
void add_command(CLI::App& app) {
  app.add_option("COMMAND",
                 "the command to run and its arguments, after -- if it begins with a dash")
      ->type_name(" ")
      ->expected(0, -1);
}

/// Removes the command from `run [options] [--] command`, or from `doctor` in the place of `run`.
std::vector<std::string> take_command(const CLI::App& run, std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != run.get_name()) return {};
  const size_t at = begin_of_command(run, arguments);
  const bool is_marked = at < arguments.size() && arguments[at] == "--";
  std::vector<std::string> command(arguments.begin() + static_cast<long>(at) + is_marked,
                                   arguments.end());
  arguments.resize(at);
  return command;
}

bool has_subcommand(const CLI::App& app, const std::string& name) {
  const auto has_name = [&](const CLI::App* each) { return each->get_name() == name; };
  return !app.get_subcommands(has_name).empty();
}

/// What CLI11 accepts, or does not name in its error: an empty argument, an unknown subcommand, and
/// an unknown option before it.
void check_arguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool is_of_option = i > 0 && arguments[i - 1].starts_with("--");
    if (word.empty())
      throw Failure(kWrongUse, is_of_option ? arguments[i - 1] + " needs a value"
                                            : "an argument is empty: see amem --help");
    if (word.starts_with("--") && word.ends_with('='))
      throw Failure(kWrongUse, word.substr(0, word.size() - 1) + " needs a value");
  }
  if (arguments.front().starts_with('-')) {
    if (app.get_option_no_throw(arguments.front()) != nullptr) return;
    throw Failure(kWrongUse,
                  fmt::format("there is no option {}: see amem --help", arguments.front()));
  }
  if (has_subcommand(app, arguments.front())) return;
  throw Failure(kWrongUse,
                fmt::format("there is no subcommand {}: see amem --help", arguments.front()));
}

int print_environment(const Request& request) {
  const Variables variables = job_variables(request.job, variables_of_this_process());
  fmt::print("{}", request.as_list   ? variable_table()
                   : request.as_json ? runtime_env_json(variables)
                                     : shell_exports(variables));
  return 0;
}

/// From now on, what this process opens and asks is that user's. `user`: a name or a number.
void become_user(const std::string& user) {
  const passwd* const found = getpwnam(user.c_str());
  uid_t uid = 0;
  const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), uid);
  if (found == nullptr && (error != std::errc() || end != user.data() + user.size()))
    throw Failure(kWrongUse, fmt::format("there is no user {}", user));
  if (found != nullptr) uid = found->pw_uid;
  if (uid != geteuid() && (setgroups(0, nullptr) != 0 ||
                           (found != nullptr && setegid(found->pw_gid) != 0) || seteuid(uid) != 0))
    throw Failure(kFailed, fmt::format("the processes of user {} cannot be seen: {}", user,
                                       geteuid() == 0 ? strerror(errno) : "only root can"));
}

int print_status(const Request& request) {
  using enum StatusFormat;
  const StatusFormat as_json = request.watch_s > 0 ? json_line : json;
  const StatusFormat format = request.as_csv ? csv : request.as_json ? as_json : table;
  for (;;) {
    auto processes = ask_status(kStatusTimeoutMs);
    if (request.pid > 0)
      std::erase_if(processes, [&](const Answer& each) { return each.pid != request.pid; });
    if (request.pid > 0 && processes.empty()) throw Failure(kFailed, why_unknown(request.pid));
    const auto [text, all_answered] = status_text(processes, format);
    // ECMA-48: cursor to the first position, erase the page.
    if (request.watch_s > 0 && isatty(STDOUT_FILENO)) fmt::print("\x1b[H\x1b[2J");
    fmt::print("{}", text);
    if (fflush(stdout) != 0 || request.watch_s <= 0) return all_answered ? 0 : kNoReply;
    std::this_thread::sleep_for(std::chrono::duration<double>(request.watch_s));
  }
}

/// `amem demo [options]` is the program amem_demo of this installation.
[[noreturn]] void become_demo(std::vector<std::string> arguments) {
  const std::string program = program_folder() + "/amem_demo";
  arguments.front() = program;
  execv(program.c_str(), pointers_to(arguments).data());
  throw Failure(kNotFound, fmt::format("{} cannot be run: {}; the wheel and the build tree have it",
                                       program, strerror(errno)));
}

/// What is wrong with an argument of --watch, or "". CLI::PositiveNumber prints the greatest
/// double.
std::string seconds_problem(const std::string& text) {
  char* end = nullptr;
  const double seconds = strtod(text.c_str(), &end);
  constexpr double kMaxSeconds = 86400;
  if (!text.empty() && *end == '\0' && seconds > 0 && seconds <= kMaxSeconds) return {};
  return fmt::format("{} is not a number of seconds greater than 0 and at most {}", text,
                     kMaxSeconds);
}

/// The same for --pid.
std::string pid_problem(const std::string& text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error == std::errc() && end == text.data() + text.size() && pid > 0) return {};
  return fmt::format("{} is not the number of a process", text);
}

/// `amem pause` or `amem resume`.
CLI::App* add_remote(CLI::App& app, Request& request, const char* name, const char* help,
                     const char* wait) {
  CLI::App* const command = app.add_subcommand(name, help);
  CLI::Option_group* const which = command->add_option_group("Processes");
  which->add_option("--pid", request.remote.pid, "the job of this process")->check(pid_problem);
  which->add_option("--group", request.remote.group, "the job with this logical group")
      ->type_name("NAME|N");
  which->add_flag("--all", request.remote.all, "all jobs of this user on this host");
  which->require_option(1);
  command->add_option("--wait", request.remote.wait_s, wait)
      ->type_name("SECONDS")
      ->check(seconds_problem)
      ->capture_default_str();
  command->add_option("--user", request.user, "the processes of this user, for root")
      ->type_name("NAME|UID");
  return command;
}

std::string tag_problem(const std::string& text) {
  return is_valid_tag(text) ? "" : text + " is not a tag";
}

std::pair<CLI::App*, CLI::App*> add_pause_and_resume(CLI::App& app, Request& request) {
  CLI::App* const pause =
      add_remote(app, request, "pause", "pause jobs from outside: all processes of a job, or none",
                 "how long a job may take to its next safe point");
  pause->footer(
      "--tag nccl: at any time; for --pid of this process alone; its calls resume it. Other tags: "
      "at a safe point, and the processes wait there for amem resume. A job is the processes of a "
      "group (AMEM_GROUP) or with the same parent.");
  pause
      ->add_option("--tag", request.remote.tags,
                   "memory with this tag; may be repeated; without it, memory of all tags")
      ->check(tag_problem);
  CLI::App* const resume = add_remote(app, request, "resume", "resume what amem pause has paused",
                                      "how long it waits for GPU memory");
  return {pause, resume};
}

void add_status(CLI::App& app, Request& request) {
  CLI::App* const status =
      app.add_subcommand("status", "show all amem processes of this user on this host");
  status->footer("Exit code 3: a process has not answered.");
  CLI::Option* const json = status->add_flag("--json", request.as_json,
                                             "as one JSON object, with --watch one in each line");
  status->add_flag("--csv", request.as_csv, "as comma-separated values, sizes in bytes")
      ->excludes(json);
  status->add_option("--user", request.user, "the processes of this user, for root")
      ->type_name("NAME|UID");
  status->add_option("--pid", request.pid, "only this process")->check(pid_problem);
  status->add_option("--watch", request.watch_s, "again every so many seconds, until interrupted")
      ->type_name("SECONDS")
      ->expected(0, 1)
      ->default_str("2")
      ->check(seconds_problem);
}

struct Subcommands {
  CLI::App *run, *env, *doctor, *pause, *resume, *why;
};

Subcommands add_subcommands(CLI::App& app, Request& request) {
  app.set_version_flag("-V,--version", "amem " AMEM_VERSION, "print the version");
  app.require_subcommand(1);
  app.add_subcommand(
      "demo", "show pause and resume by tag, on GPUs or a simulated GPU: amem demo --simulate");
  app.add_subcommand("exporter", "serve what status shows as metrics for Prometheus");
  app.add_subcommand("help", "print this, or the options of a subcommand: amem help run");
  app.add_subcommand("top", "show what status shows, live, with keys that pause and resume");
  app.add_subcommand("version", "print the version");
  app.add_subcommand("completion", "print a completion script: amem completion bash, zsh or fish")
      ->add_option("SHELL", request.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  CLI::App* const run = app.add_subcommand("run", "run a command with amem: amem run command");
  run->footer("amem replaces itself with the command: same pid, signals and exit code.");
  add_job_options(*run, request.job);
  add_command(*run);

  CLI::App* const env = app.add_subcommand(
      "env", "print what amem run sets: eval \"$(amem env)\", or --json for Ray");
  env->footer([] {
    return "Variables (0, 1: also false, no, off and true, yes, on. Empty: as if unset. Another "
           "value that is not valid: the default, with a warning; for AMEM_ENABLE: 0):\n" +
           variable_table();
  });
  add_job_options(*env, request.job);
  CLI::Option* const list = env->add_flag("--list", request.as_list, "print all variables of amem");
  env->add_flag("--json", request.as_json, "as Ray's runtime_env")->excludes(list);

  add_status(app, request);
  const auto [pause, resume] = add_pause_and_resume(app, request);
  CLI::App* const doctor = app.add_subcommand(
      "doctor", "say what will work here, or with a command, and what to change");
  doctor->footer("Exit code 0: a pause would work.");
  add_command(*doctor);
  doctor->add_flag("--json", request.as_json, "as one JSON object");

  CLI::App* const why = app.add_subcommand("why", "show the owners of GPU memory");
  why->footer(
      "Libraries that allocate without a tag are named if the process is started with "
      "AMEM_ATTRIBUTION=1. Exit code 3: a process has not answered.");
  why->add_option("PID", request.pid, "only this process")->check(pid_problem);
  why->add_flag("--json", request.as_json, "as one JSON object");
  why->add_option("--user", request.user, "the processes of this user, for root")
      ->type_name("NAME|UID");

  return {run, env, doctor, pause, resume, why};
}

int run_main(int argc, char** argv) {
  Request request;
  CLI::App app("Pauses and resumes GPU memory: of an unmodified NCCL, and with a tag.", "amem");
  const auto [run, env, doctor, pause, resume, why] = add_subcommands(app, request);

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() > 2 && arguments[0] == "completion" && arguments[1] == "for") {
    fmt::print("{}\n", completions(app, {arguments.begin() + 2, arguments.end()}));
    return 0;
  }
  if (arguments.size() == 2 && arguments.front() == "help") arguments = {arguments[1], "--help"};
  std::vector<std::string> command = take_command(*run, arguments);
  if (command.empty()) command = take_command(*doctor, arguments);
  const std::string name = arguments.empty() ? "help" : arguments.front();
  const bool is_run = name == "run";
  try {
    check_arguments(app, arguments);
    if (name == "demo") become_demo(std::move(arguments));
    if (name == "exporter" || name == "top")
      throw Failure(kNotFound, fmt::format("amem {0} is in the wheel: pip install 'amem[{0}]', "
                                           "then amem {0} or python -m amem {0}",
                                           name));
    if (arguments.empty() || (arguments.size() == 1 && (name == "help" || name == "version")))
      arguments = {"--" + name};
    std::reverse(arguments.begin(), arguments.end());  // in the order that CLI11 expects
    app.parse(arguments);
    if (command.empty() && *run)
      throw Failure(kWrongUse, "no command to run: write amem run [options] command [arguments]");
    if (!request.shell.empty()) {
      fmt::print("{}", completion_script(request.shell));
      return 0;
    }
    if (*doctor) return diagnose(command, request.as_json);
    if (*run) launch(request.job, std::move(command));
    if (*env) return print_environment(request);
    if (!request.user.empty()) become_user(request.user);
    if (*why) return print_attribution(request.pid, request.as_json);
    if (!*pause && !*resume) return print_status(request);
    return *pause ? pause_jobs(request.remote) : resume_jobs(request.remote);
  } catch (const CLI::Success& wanted) {
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "amem: {} (see amem {}--help)\n", error.what(),
               has_subcommand(app, name) ? name + " " : "");
    return kWrongUse;
  } catch (const Failure& failure) {
    fmt::print(stderr, "amem: {}\n", failure.what());
    return is_run || failure.exit_code != kRefused ? failure.exit_code : kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "amem: {}\n", error.what());
    return is_run ? kRefused : kFailed;
  }
}

}  // namespace
}  // namespace amem

int main(int argc, char** argv) { return amem::run_main(argc, argv); }
