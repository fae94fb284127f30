#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# check.sh BUILD_DIR FAST LONG: every check, one line each; exit code 1 when one fails.
# BUILD_DIR is built; FAST=1 leaves out what runs under sanitizers; LONG=1 gives every fuzzer 10 million executions, and adds
# every fault at every point and the soaks: hours.
set -euo pipefail
build=${1:?build folder}
fast=${2:-0}
long=${3:-0}
fuzz_runs=200000
[[ $long != 1 ]] || fuzz_runs=10000000
logs=build/check
mkdir -p "$logs"
failed=() skipped=()

# run_check NAME COMMAND...: the output stays in a file and is shown when the command fails. Exit code 77: what it needs cannot
# be installed.
run_check() {
  local name=$1 began=$SECONDS word=ok code=0
  shift
  "$@" >"$logs/$name.log" 2>&1 || code=$?
  case $code in
    0) ;;
    77) word=skip skipped+=("$name") ;;
    *) word=FAIL ;;
  esac
  printf '%-14s %-4s %4d s\n' "$name" "$word" $((SECONDS - began))
  if [[ $word == FAIL ]]; then
    failed+=("$name")
    tail -n 60 "$logs/$name.log" | sed 's/^/    /'
  fi
}

# The whole of our C++ and C; what the tests include is seen through them. A TEST is GoogleTest's macro, and so is not
# looked at without --system-headers; other people's headers are left out by .clang-tidy. Each file is compiled alone, as in
# preset dev, which shows a missing #include.
tidy() {
  cmake --preset dev || return 1
  mapfile -t sources < <(python3 tools/dev/tidy_sources.py build/dev/compile_commands.json)
  [[ ${#sources[@]} -gt 0 ]] || { echo "compile_commands.json names no source" && return 1; }
  printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet --system-headers -p build/dev
}

# The library with link-time optimization, in which the compiler compares the types of all files: a name has one
# definition.
one_definition() {
  cmake --preset odr && cmake --build build/odr --parallel "$(nproc)" --target amem_nccl amem_symmetric
}

# The tests that carry these labels, under a sanitizer; the checks themselves are not run again.
sanitized() {
  local kernel=()
  # ThreadSanitizer of GCC 12 needs its shadow where newer kernels may place the program.
  if [[ $1 == tsan ]] && setarch -R true 2>/dev/null; then kernel=(setarch -R); fi
  cmake --preset "$1" && "${kernel[@]}" cmake --build "build/$1" --parallel "$(nproc)" &&
    "${kernel[@]}" ctest --test-dir "build/$1" --output-on-failure --no-tests=error \
      -L '^(unit|process|sim|contract)$' -E '^checks\.' -j "$(($(nproc) + 3))" # many tests wait for deadlines
}

# Every order of leaving and returning, again and again: what depends on timing shows in one of many runs.
orders() {
  ctest --test-dir "$build" --output-on-failure --no-tests=error --repeat until-fail:20 -j "$(nproc)" \
    -R '^FirstIsRank/EveryOrder|^PauseAlone\.RanksLeaveAndReturn'
}

# Of the faults without slabs, ./dev test runs single ones of the driver's calls; of the processes, every second
# one with NCCL's memory.
without_slabs() {
  local -x AMEM_SLAB=0
  "$build/tests/fault_test" --gtest_brief=1 --gtest_filter='*DriverCall.*:*HostCall.*:*Death.*:*FileNumbers.*' &&
    "$build/tests/process_test" --gtest_brief=1 --gtest_filter='-Cycles.*:Descriptors.*:Orders.*'
}

# The same with fabric handles in place of descriptors.
with_fabric() {
  local -x AMEM_SIM_FABRIC=domain NCCL_MNNVL_ENABLE=1
  "$build/tests/fault_test" --gtest_brief=1 --gtest_filter='*DriverCall.*:*HostCall.*:*Death.*:*Stop.*:*FileNumbers.*' &&
    "$build/tests/process_test" --gtest_brief=1 --gtest_filter='PauseAlone.*:Splits.*:HalfResumed.*:ResumeOnCall.*:TagsTest.*:When/*:By/*'
}

# What ./dev test samples, whole: SIGSTOP at every point, every order of leaving and returning. The programs
# themselves: ctest knows only the sample that they named when they were built.
every_fault() {
  AMEM_TEST_LONG=1 "$build/tests/fault_test" &&
    AMEM_TEST_LONG=1 "$build/tests/process_test" --gtest_filter='*Order*:AskedWhile.*:InSignalHandler.*'
}

# All kinds of trainings, of which ./dev test pauses two from outside.
trainings() {
  AMEM_TEST_LONG=1 ctest --test-dir "$build" --output-on-failure --no-tests=error -R '^torch\.safe_points$'
}

# soak CYCLES TESTS: nothing grows, nothing is lost.
soak() {
  AMEM_TEST_CYCLES=$1 ctest --test-dir "$build" --verbose --no-tests=error --timeout 14400 -R "$2"
}

for check in tools/check_*.py; do
  name=${check##*/check_}
  run_check "${name%.py}" python3 "$check"
done
for tool in ruff mypy codespell; do
  run_check "$tool" bash tools/dev/lint.sh "$tool"
done
run_check headers cmake --build "$build" --parallel "$(nproc)" --target headers_alone
run_check selftest python3 tools/selftest/test_checks.py
run_check odr one_definition
run_check tidy tidy
run_check orders orders
run_check without_slabs without_slabs
run_check with_fabric with_fabric
if [[ $fast != 1 ]]; then
  run_check fuzz bash tools/dev/fuzz.sh "$fuzz_runs"
  run_check asan sanitized asan
  run_check tsan sanitized tsan
fi
if [[ $long == 1 ]]; then
  run_check every_fault every_fault
  run_check trainings trainings
  run_check two_jobs soak 1000 '^TwoJobs'
  run_check turns soak 1000 '^WaitingJobs\.TurnsWithFaults'
  run_check soak soak 10000 '^Soak'
fi
if [[ ${#skipped[@]} -gt 0 ]]; then echo "skipped without a package index: ${skipped[*]}"; fi
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "failed: ${failed[*]} (whole output in $logs/)"
  exit 1
fi
