// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/order_loop.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "nccl.h"

namespace jobs {

namespace {

std::string answer_to(const Orders& orders, const std::string& name, Words& words) {
  try {
    const auto found = orders.find(name);
    if (found == orders.end()) throw std::runtime_error("unknown order " + name);
    return "ok " + found->second(words);
  } catch (const std::exception& error) {
    return std::string("error ") + error.what();
  }
}

}  // namespace

void follow_orders(const Orders& orders) {
  // Orders and answers have the pipe for themselves: what NCCL prints goes to standard error.
  const int answers = dup(STDOUT_FILENO);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  FILE* const out = fdopen(answers, "w");
  for (std::string line; std::getline(std::cin, line);) {
    Words words(line);
    std::string name;
    words >> name;
    if (name == "exit") break;
    std::string answer = answer_to(orders, name, words);
    for (char& c : answer)
      if (c == '\n') c = ' ';
    fprintf(out, "%s\n", answer.c_str());
    fflush(out);
  }
  _exit(0);
}

int print_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return 1;
  std::cout << version << "\n";
  return 0;
}

}  // namespace jobs
