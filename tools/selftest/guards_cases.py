# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_guards.py on members that nobody says how to guard, and on a mutex that guards nothing."""

from sample_tree import CheckCase, Files

HEADER = """#pragma once
class Queue {
 public:
  explicit Queue(int limit) : limit_(limit) {}
  void push(int value) AMEM_EXCLUDES(mutex_);
  bool empty() const {
    return orders_.empty();
  }

 private:
  struct Order {
    int value = 0;
  };
  static constexpr int kMost = 3;
  const int limit_;
  Log& log_;
  mutable Mutex mutex_;
  Condition changed_;
  std::atomic<bool> any_{false};
  std::function<void(int)> done_ AMEM_GUARDED_BY(mutex_);
  std::map<int, Order> orders_ AMEM_GUARDED_BY(mutex_);
  bool stopped_ AMEM_GUARDED_BY(mutex_) = false;
};
"""


def header(old: str, new: str) -> Files:
    assert old in HEADER
    return {"src/transport/queue.h": HEADER.replace(old, new)}


class Guards(CheckCase):
    check = "check_guards.py"
    clean = {"src/transport/queue.h": HEADER}
    needed = ("src/transport/queue.h",)
    harmless = {
        "a class without a mutex": {"src/transport/plain.h": "struct A {\n  int a = 0;\n};\n"},
        "a reason": header("  Log& log_;", "  int log_;  // allow: of one thread"),
        "a test": {"src/transport/queue_test.cc": "struct A {\n  Mutex m;\n  int a;\n};\n"},
        "a mutex for turns": header("  Log& log_;", "  Mutex turns_;  // allow: one at a time"),
    }
    violations = {
        "a member": (
            header("stopped_ AMEM_GUARDED_BY(mutex_) =", "stopped_ ="),
            "queue.h:22: 'bool stopped_' stands beside a Mutex",
        ),
        "a member whose type has parentheses": (
            header("done_ AMEM_GUARDED_BY(mutex_)", "done_"),
            "queue.h:20: 'std::function done_' stands beside a Mutex",
        ),
        "a member with a value in braces": (
            header("  std::atomic<bool> any_{false};", "  bool any_{false};"),
            "queue.h:19: 'bool any_' stands beside a Mutex",
        ),
        "a pointer to what is constant": (
            header("  const int limit_;", "  const int* limit_;"),
            "queue.h:15: 'const int* limit_' stands beside a Mutex",
        ),
        "the first after a label": (
            header(" private:\n", " private:\n  int first_;\n"),
            "queue.h:11: 'int first_' stands beside a Mutex",
        ),
        "a mutex that guards nothing": (
            header("  Log& log_;", "  Mutex other_;"),
            "queue.h:16: other_ guards no member",
        ),
        "a struct of a source file": (
            {"src/transport/queue.cc": "namespace {\nstruct Wait {\n  Mutex mutex;\n  int n = 0;\n};\n}\n"},
            "queue.cc:4: 'int n' stands beside a Mutex",
        ),
    }
