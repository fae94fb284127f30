# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
"""check_banned.py on one line for each rule, and on the lines that look like one."""

from sample_tree import CheckCase, Files

TODO = "TO" + "DO"


def in_library(line: str) -> Files:
    return {"src/engine/plan.cc": f"void f() {{\n  {line}\n}}\n"}


class Banned(CheckCase):
    check = "check_banned.py"
    clean = {
        "src/engine/plan.cc": "int plan() { return 1; }\n",
        "src/base/log.cc": 'void log() { write(STDERR_FILENO, "a", 1); }\n',
        "src/cli/main.cc": 'int main() { std::cout << 1; exit(2); }\n',
        "tests/sim/run_test.cc": "TEST(A, B) { wait_for(x); }\n",
    }
    harmless = {
        "in a comment": in_library("// never abort() here, nor throw"),
        "in a literal": in_library('g("exit(1) was called");'),
        "a leaked singleton": in_library("static Registry* const r =\n      new Registry();"),
        "given to its owner": in_library("auto p = std::unique_ptr<A>(new A(1));"),
        "placement new": in_library("new (room) Registry();"),
        "a deleted function": in_library("A(const A&) = delete;"),
        "methods and parts of names": in_library("s.abort(); ncclCommAbort(c); snprintf(a, 1, b);"),
        "a literal namespace": in_library("using namespace std::chrono_literals;"),
        "an issue is written": in_library(f"// {TODO}(#12) measure"),
        "an allowed line": in_library("abort();  // allow: the stack is gone"),
        "an allowance above": in_library("// allow: the stack is gone\n  abort();"),
        "an allowance that check_layers reads": in_library('getenv("A");  // allow: not ours'),
        "a document about allowances": {"docs/a.md": "write `// allow: <reason>`\n"},
        "exceptions of the command": {"src/cli/main.cc": "int main() { try {} catch (...) {} }\n"},
        "a sleep outside tests": in_library("usleep(1);"),
        "exported functions that cannot be cancelled": {
            "src/api/a.cc": "AMEM_API int f(int a,\n           int b) {\n"
            "  return with_process(a, b);\n}\n"
            "AMEM_API int g() { return result_of(h); }\n"
            "AMEM_API int k() {\n  const NoCancellation no_cancellation;\n\n  return 1;\n}\n"
        },
    }
    violations = {
        "exit": (in_library("exit(1);"), "src/engine/plan.cc:2: exit: ends the process"),
        "std::abort": (in_library("std::abort();"), "ends the process"),
        "_exit": (in_library("::_exit(1);"), "ends the process"),
        "throw": (in_library("throw 1;"), "without exceptions"),
        "catch": (in_library("try {} catch (...) {}"), "without exceptions"),
        "cerr": (in_library('std::cerr << "x";'), "log_line()"),
        "cout": (in_library('std::cout << "x";'), "log_line()"),
        "printf": (in_library('printf("x");'), "log_line()"),
        "fprintf": (in_library('fprintf(stderr, "x");'), "log_line()"),
        "write to a standard stream": (in_library('write(2, "x", 1);'), "log_line()"),
        "naked new": (in_library("auto* a = new Thing(1);"), "nobody owns it"),
        "new that may fail": (in_library("auto* a = new (std::nothrow) A;"), "nobody owns it"),
        "delete": (in_library("delete a;"), "nobody owns it"),
        "an exported function that can be cancelled": (
            {
                "src/api/a.cc": "AMEM_API int f() {\n  return 1;\n}\n"
                "AMEM_API int g() { return result_of(h); }\n"
            },
            "src/api/a.cc:1: AMEM_API int f() {: a thread that is cancelled",
        ),
        "another one, in one line": (
            {
                "src/api/a.cc": 'extern "C" [[gnu::visibility("default")]] int f() { return 1; }\n'
                "AMEM_API int g() { return result_of(h); }\n"
            },
            "a thread that is cancelled",
        ),
        "sleep in a test": (
            {"src/engine/plan_test.cc": "void f() { usleep(5); }\n"},
            "src/engine/plan_test.cc:1: usleep: a test that sleeps",
        ),
        "sleep_for in a test": (
            {"tests/sim/run_test.cc": "void f() { std::this_thread::sleep_for(t); }\n"},
            "a test that sleeps",
        ),
        "sleep in a Python test": ({"python/tests/test_a.py": "time.sleep(1)\n"}, "that sleeps"),
        "using namespace": ({"tests/a_test.cc": "using namespace std;\n"}, "write std::"),
        "unnumbered note": (in_library(f"// {TODO}: measure"), "nobody finds it again"),
        "unnumbered note in a document": ({"docs/a.md": f"{TODO} later\n"}, "docs/a.md:1"),
        "a name without meaning": ({"src/engine/plan_helper.h": ""}, "'helper' says nothing"),
        "a folder without meaning": ({"src/common/x.h": ""}, "'common' says nothing"),
        "a second version": ({"python/api_v2.py": ""}, "'v2' says nothing"),
        "an allowance without a reason": (in_library("abort();  // allow:"), "gives its reason"),
        "an allowance for nothing": (in_library("f();  // allow: why not"), "remove it"),
    }

    def test_cannot_run_on_no_code(self) -> None:
        code, output = self.run_on({"README.md": "x"})
        self.assertEqual(code, 2, output)
