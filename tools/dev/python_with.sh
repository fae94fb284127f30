#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# python_with.sh MODULE[,MODULE]: prints the Python that has these modules: the first on the PATH, or else the system's
# own, for which the system's packages are (pyenv and conda stand before it). Exit code 1 when neither has them all.
set -euo pipefail
for python in "$(command -v python3)" /usr/bin/python3; do
  if [[ -n $python ]] && "$python" -c "import ${1:?module}" 2>/dev/null; then
    echo "$python"
    exit 0
  fi
done
exit 1
