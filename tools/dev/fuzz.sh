#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# fuzz.sh RUNS: every decoder of bytes that others wrote, under libFuzzer with ASan and UBSan, so many executions
# each. What it finds of interest stays in build/fuzz for the next time; what it finds wrong too, and the output
# names it. Exit code 77 where there is no clang++ with libFuzzer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
runs=${1:?executions}

mkdir -p build/fuzz
if ! clang++ -fsanitize=fuzzer -xc++ - -o build/fuzz/probe >build/fuzz/probe.log 2>&1 \
  <<<'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'; then
  echo "skipped: there is no clang++ that can build fuzzers (build/fuzz/probe.log)"
  exit 77
fi
cmake --preset fuzz
cmake --build build/fuzz --parallel "$(nproc)" --target fuzzers
export AMEM_LOG=0 # tokens of other versions are logged
found=0
for fuzzer in build/fuzz/fuzzers/*_fuzzer; do
  decoder=$(basename "${fuzzer%_fuzzer}")
  mkdir -p "build/fuzz/corpus/$decoder"
  echo "== $decoder"
  "$fuzzer" -runs="$runs" -max_len=1024 -print_final_stats=1 -artifact_prefix="build/fuzz/$decoder-" \
    "build/fuzz/corpus/$decoder" "tests/fuzz/corpus/$decoder"
  found=$((found + 1))
done
[[ $found -gt 0 ]] || { echo "no fuzzer was built" && exit 1; }
