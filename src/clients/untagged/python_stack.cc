// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/untagged/python_stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string_view>

#include "base/unique_fd.h"
#include "interpose/image.h"

namespace amem {
namespace {

constexpr size_t kMaxFrames = 3;

/// A line of a stack is `  File "/path/train.py", line 12 in step`.
std::string frame_of(std::string_view line) {
  constexpr std::string_view kBegin = "  File \"", kLine = "\", line ";
  const size_t end = line.find(kLine);
  if (!line.starts_with(kBegin) || end == std::string_view::npos) return {};
  const std::string_view path = line.substr(kBegin.size(), end - kBegin.size());
  return std::string(path.substr(path.rfind('/') + 1)) + ":" +
         std::string(line.substr(end + kLine.size()));
}

}  // namespace

std::string python_stack() {
  static const auto thread_state =
      reinterpret_cast<void* (*)()>(first_definition("PyGILState_GetThisThreadState"));
  static const auto write_stack =
      reinterpret_cast<void (*)(int, void*)>(first_definition("_Py_DumpTraceback"));
  if (thread_state == nullptr || write_stack == nullptr) return {};
  void* const state = thread_state();
  const UniqueFd file(state != nullptr ? memfd_create("amem-stack", MFD_CLOEXEC) : -1);
  if (!file.valid()) return {};
  write_stack(file.get(), state);
  char text[2048];
  const ssize_t size = pread(file.get(), text, sizeof text, 0);
  std::string_view left(text, size > 0 ? static_cast<size_t>(size) : 0);
  std::string stack;
  for (size_t frames = 0; frames < kMaxFrames && left.find('\n') != std::string_view::npos;) {
    const std::string frame = frame_of(left.substr(0, left.find('\n')));
    left.remove_prefix(left.find('\n') + 1);
    if (frame.empty()) continue;
    stack += (stack.empty() ? "" : ", ") + frame;
    ++frames;
  }
  return stack;
}

}  // namespace amem
