// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Feeds a decoder its corpus, and what is one step away from it: where there is no libFuzzer.
// usage: x_replay FOLDER
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes);

namespace {

using Bytes = std::vector<uint8_t>;

/// What is being fed, for the one who looks for the bug.
std::array<char, 256> g_current;
size_t g_fed = 0;

void on_abort(int) {
  constexpr char kText[] = "the target refused: ";
  if (write(STDERR_FILENO, kText, strlen(kText)) < 0) _exit(3);
  if (write(STDERR_FILENO, g_current.data(), strlen(g_current.data())) < 0) _exit(3);
  _exit(1);
}

/// In a block of exactly its size, so that AddressSanitizer sees a read beyond its end.
void feed(const Bytes& bytes, const std::string& name, const char* how, size_t at, unsigned value) {
  snprintf(g_current.data(), g_current.size(), "%s, %s %zu (%u)\n", name.c_str(), how, at, value);
  const auto exact = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), exact.get());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  ++g_fed;
}

void feed_around(const Bytes& whole, const std::string& name) {
  feed(whole, name, "whole", whole.size(), 0);
  for (size_t length = 0; length < whole.size(); ++length)
    feed({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length)}, name, "cut to", length,
         0);
  for (const unsigned value : {0u, 1u, 0xffu}) {
    Bytes longer = whole;
    longer.push_back(static_cast<uint8_t>(value));
    feed(longer, name, "with one more at", whole.size(), value);
  }
  for (size_t at = 0; at < whole.size(); ++at)
    for (unsigned value = 0; value < 256; ++value) {
      if (value == whole[at]) continue;
      Bytes changed = whole;
      changed[at] = static_cast<uint8_t>(value);
      feed(changed, name, "with another byte at", at, value);
    }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  signal(SIGABRT, on_abort);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    feed_around(Bytes(std::istreambuf_iterator<char>(in), {}), file.filename());
  }
  printf("%zu inputs from %zu files\n", g_fed, files.size());
  return files.empty() ? 2 : 0;
}
