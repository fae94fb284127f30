#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# bench.sh BUILD_DIR [options]: runs every program of the build whose name ends in _bench.
set -euo pipefail
build=${1:?build folder}
shift

mapfile -t programs < <(find "$build" -type f -executable -name '*_bench' | sort)
if [[ ${#programs[@]} -eq 0 ]]; then
  echo "dev: no benchmark (*_bench) in $build" >&2
  exit 1
fi
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u)
echo "machine: $(uname -srm), $(nproc) cores, ${processor:-processor not named}"
failed=0
for program in "${programs[@]}"; do
  echo "== ${program##*/}"
  "$program" "$@" || failed=1
done
exit "$failed"
