// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/fault_orders.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <stdexcept>

namespace jobs {

namespace {

/// variable NAME [VALUE]: sets it, without a value removes it.
std::string variable(Words& words) {
  std::string name, value;
  words >> name >> value;
  if (value.empty())
    unsetenv(name.c_str());
  else
    setenv(name.c_str(), value.c_str(), 1);
  return "";
}

/// A function that only the simulated driver has.
template <typename Function>
Function simulator(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) throw std::runtime_error("this is no simulated driver");
  return reinterpret_cast<Function>(found);
}

/// driver_fault [FAULTS]: as amemSimSetFault (sim/sim.h); none removes them.
std::string driver_fault(Words& words) {
  std::string faults;
  words >> faults;
  if (simulator<int (*)(const char*)>("amemSimSetFault")(faults.c_str()) != 0)
    throw std::runtime_error("'" + faults + "' is no list of faults");
  return "";
}

/// leftover WORD: as amemSimSetLeftover.
std::string leftover(Words& words) {
  unsigned word = 0;
  words >> word;
  simulator<void (*)(unsigned)>("amemSimSetLeftover")(word);
  return "";
}

/// calls_of NAME...: calls of these driver functions by this process so far, together.
std::string calls_of(Words& words) {
  const auto count = simulator<long long (*)(const char*)>("amemSimCallCount");
  long long sum = 0;
  for (std::string name; words >> name;) {
    const long long calls = count(name.c_str());
    if (calls < 0) throw std::runtime_error("the simulated driver has no " + name);
    sum += calls;
  }
  return std::to_string(sum);
}

/// A function of the program that a test has built around this rank (tests/faults/host_calls.cc).
template <typename Function>
Function own_program(const char* name) {
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) throw std::runtime_error("this rank has no host faults");
  return reinterpret_cast<Function>(found);
}

/// host_fault [FAULT]: a call of the C library by amem fails; none removes it.
std::string host_fault(Words& words) {
  std::string fault;
  words >> fault;
  if (own_program<int (*)(const char*)>("amem_test_set_host_fault")(fault.c_str()) != 0)
    throw std::runtime_error("'" + fault + "' is no fault");
  return "";
}

/// host_calls_of NAME: calls of a function of the C library by amem so far.
std::string host_calls_of(Words& words) {
  std::string name;
  words >> name;
  return std::to_string(own_program<long (*)(const char*)>("amem_test_host_calls")(name.c_str()));
}

/// open_files LIMIT: this process may have no file number from LIMIT on; 0 for as many as allowed.
std::string open_files(Words& words) {
  rlim_t limit = 0;
  words >> limit;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = limit == 0 ? files.rlim_max : limit;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) throw std::runtime_error("setrlimit");
  return "";
}

/// free_files COUNT: this process may open so many more files, and cannot raise the limit.
std::string free_files(Words& words) {
  rlim_t count = 0;
  words >> count;
  rlim_t limit = 0;
  for (rlim_t found = 0; found < count; ++limit)
    if (fcntl(static_cast<int>(limit), F_GETFD) < 0) ++found;
  const rlimit files{limit, limit};
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) throw std::runtime_error("setrlimit");
  return "";
}

}  // namespace

Orders fault_orders() {
  return {{"variable", variable},     {"driver_fault", driver_fault},  {"leftover", leftover},
          {"calls_of", calls_of},     {"host_fault", host_fault},      {"open_files", open_files},
          {"free_files", free_files}, {"host_calls_of", host_calls_of}};
}

}  // namespace jobs
