// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/fault_orders.h"

#include <dlfcn.h>

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

/// calls_of NAME: calls of a driver function by this process so far.
std::string calls_of(Words& words) {
  std::string name;
  words >> name;
  return std::to_string(simulator<long long (*)(const char*)>("amemSimCallCount")(name.c_str()));
}

}  // namespace

Orders fault_orders() {
  return {{"variable", variable}, {"driver_fault", driver_fault}, {"calls_of", calls_of}};
}

}  // namespace jobs
