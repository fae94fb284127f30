// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/ending_orders.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "jobs/order_loop.h"

namespace jobs {

namespace {

/// What the handlers find; never destroyed, as they run at the very end.
struct Ending {
  const Orders* all = nullptr;
  std::vector<std::string> first, last;
};
Ending& ending() {
  static Ending* const instance = new Ending;
  return *instance;
}

void follow(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::string text = "at exit: " + answer_to(*ending().all, line) + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  }
}

std::string at_exit(Words& words) {
  std::string when, line;
  words >> when >> std::ws;
  std::getline(words, line);
  if (when != "first" && when != "last") throw std::runtime_error("at_exit first|last ORDER...");
  (when == "first" ? ending().first : ending().last).push_back(line);
  return "";
}

std::string exit_with(Words& words) {
  int code = 0;
  words >> code;
  atexit([] { follow(ending().first); });
  exit(code);
}

std::string quick_exit_with(Words& words) {
  int code = 0;
  words >> code;
  at_quick_exit([] { follow(ending().first); });
  quick_exit(code);
}

std::string next_line(Words&) {
  std::cerr << "waiting for a line\n";
  std::string line;
  std::getline(std::cin, line);
  return line;
}

}  // namespace

Orders ending_orders(const Orders& all) {
  ending().all = &all;
  atexit([] { follow(ending().last); });
  return {{"at_exit", at_exit},
          {"exit_with", exit_with},
          {"quick_exit_with", quick_exit_with},
          {"next_line", next_line}};
}

}  // namespace jobs
