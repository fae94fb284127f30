#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# check_aarch64.sh [--sample]: builds preset aarch64 and runs its tests under qemu-user. tests/aarch64_left_out.txt names what
# qemu-user cannot run. --sample: whether all of src compiles, and entries, relocations and the demo work; ./dev test runs it where
# AMEM_TEST_AARCH64 is set.
# Exit code 77: the cross compiler or qemu-user cannot be installed, or programs for aarch64 cannot be started.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly left_out=tests/aarch64_left_out.txt build=build/aarch64 aarch64=tools/dev/aarch64.sh
readonly sample='^(Trampolines|InterceptNames|ScanImages|Probes|Image|Hooks|CallGate)'
jobs=$(nproc)

if [[ ${1:-} == --sample && -z ${AMEM_TEST_AARCH64:-} ]]; then
  echo "skipped: set AMEM_TEST_AARCH64=1 to build a sample of the tests for aarch64 and run it under qemu-user"
  exit 77
fi
bash $aarch64 prepare
if ! bash $aarch64 run true; then
  echo "skipped: this kernel or container gives a user namespace no binfmt_misc (Linux 6.7 and newer do)"
  exit 77
fi
python=$(bash tools/dev/python_with.sh pytest,elftools)
settings=("-DPython3_EXECUTABLE=$python")
targets=() options=(-L '^(unit|contract|sim|process)$') tests=()
if [[ ${1:-} == --sample ]]; then
  targets=(--target interpose_unit_test trampoline_test nccl_client_test amem amem_demo)
  tests=(-R "$sample")
else
  bash $aarch64 python
  settings+=("-DAMEM_TEST_PYTHON=$PWD/build/needs/aarch64/sysroot/usr/bin/python3.11")
fi
cmake --preset aarch64 "${settings[@]}" >/dev/null
cmake --build $build --parallel "$jobs" "${targets[@]}"
pattern=$(sed -E '/^(#|$)/d; s/:.*//' $left_out | paste -sd'|')
count=$(ctest --test-dir $build -N "${options[@]}" -R "$pattern" | sed -nE 's/^Total Tests: //p')
echo "$count tests are left out, which qemu-user cannot run ($left_out)"
# Tests of the Python package compile libraries with cc.
PATH=$PWD/build/needs/aarch64/bin:$PATH bash $aarch64 run ctest --test-dir $build --output-on-failure --no-label-summary \
  -j "$((jobs + 2))" --no-tests=error "${options[@]}" "${tests[@]}" -E "$pattern"
if [[ ${1:-} == --sample ]]; then
  bash $aarch64 run $build/bin/amem_demo --simulate --ranks 2 --communicators 1 --cycles 1 --json $build/demo.json
fi
