#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# prepare.sh demo|wheel|build|style|aarch64: looks for what the demo, the wheel, the whole build or the style checks need, and installs
# on Debian exactly what is missing. Elsewhere it goes on when nothing is missing and says what is.
set -euo pipefail
tools=$(dirname "${BASH_SOURCE[0]}")

# Package, and what shows that it is there however it came: a command, a header, a Python with modules.
demo_needs=(
  "cmake cmd cmake" "ninja-build cmd ninja" "g++ cmd g++" "python3 cmd python3"
  "libcli11-dev header CLI/CLI.hpp" "libfmt-dev header fmt/format.h"
  "nlohmann-json3-dev header nlohmann/json.hpp"
)
# For connections between hosts, linked statically.
bearssl="libbearssl-dev header bearssl/bearssl_hmac.h"
wheel_needs=("${demo_needs[@]}" "$bearssl" "python3-venv modules venv,ensurepip")
build_needs=(
  "${demo_needs[@]}" "$bearssl" "binutils cmd nm" "pkg-config cmd pkg-config" "libgtest-dev header gtest/gtest.h"
  "python3-pytest modules pytest,elftools" "python3-pyelftools modules pytest,elftools"
  "python3-pip modules pip" "python3-cffi test_module cffi" "python3-prometheus-client test_module prometheus_client"
  "python3-jsonschema test_module jsonschema" "tmux test_cmd tmux"
  "iproute2 test_cmd ip"
  "clang-format style clang-format" "clang style clang++"
  "libclang-rt-14-dev fuzzer /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"
)
aarch64_needs=(
  "${build_needs[@]}" "g++-aarch64-linux-gnu cmd aarch64-linux-gnu-g++" "qemu-user-static cmd qemu-aarch64-static"
  "googletest file /usr/src/googletest/CMakeLists.txt"
)
style_needs=(
  "python3-venv modules venv,ensurepip"
  "clang cmd clang++" "clang-format cmd clang-format" "clang-tidy cmd clang-tidy"
  "libclang-rt-14-dev file /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"
)

# NVTX's headers, where no CUDA toolkit has them: ranges for profilers.
nvtx_wheel=nvidia-nvtx-cu12==12.9.79
nvtx_folder=build/needs/nvtx

say() { printf '%s\n' "dev: $*" >&2; }

header_is_there() {
  local folder
  for folder in /usr/include /usr/local/include ${CPATH:+${CPATH//:/ }} \
    ${CPLUS_INCLUDE_PATH:+${CPLUS_INCLUDE_PATH//:/ }}; do
    [[ -e $folder/$1 ]] && return 0
  done
  return 1
}

is_there() {
  case $1 in
    cmd | test_cmd) command -v "$2" >/dev/null ;;
    style) command -v "$2" >/dev/null || command -v "$2-14" >/dev/null ;;
    header) header_is_there "$2" ;;
    modules) bash "$tools/python_with.sh" "$2" >/dev/null ;;
    # In the Python that runs the tests, where Debian's packages are for it.
    test_module)
      local python
      python=$(bash "$tools/python_with.sh" pytest,elftools) || python=/usr/bin/python3
      [[ $python != /usr/bin/python3 ]] || "$python" -c "import $2" 2>/dev/null
      ;;
    file | fuzzer) compgen -G "$2" >/dev/null ;;
  esac
}

# Tried once: without them amem is built all the same, so that whatever fails here only says so.
bring_nvtx() {
  [[ -e $nvtx_folder || -e ${CUDA_HOME:-/usr/local/cuda}/include/nvtx3/nvToolsExt.h ]] && return
  mkdir -p "$nvtx_folder"
  local python
  if ! { python=$(bash "$tools/python_with.sh" pip) &&
    "$python" -m pip download --retries 1 --no-deps --only-binary :all: --dest "$nvtx_folder" "$nvtx_wheel" &&
    "$python" -m zipfile -e "$nvtx_folder"/*.whl "$nvtx_folder"; } >"$nvtx_folder/log" 2>&1; then
    say "NVTX's headers could not be had ($nvtx_folder/log): profilers will see no ranges of amem"
  fi
}

# Tried once: without it the tests of amem top are skipped.
bring_textual() {
  local folder=build/needs/top python
  [[ -e $folder ]] && return
  mkdir -p "$folder"
  if ! { python=$(bash "$tools/python_with.sh" pip) &&
    "$python" -m pip install --retries 1 --target "$folder" textual==8.2.8; } >"$folder/log" 2>&1; then
    say "Textual could not be had ($folder/log): the tests of amem top are skipped"
  fi
}

case ${1:?demo, wheel, build, style or aarch64} in
  demo) needs=("${demo_needs[@]}") ;;
  wheel) needs=("${wheel_needs[@]}") ;;
  build) needs=("${build_needs[@]}") ;;
  style) needs=("${style_needs[@]}") ;;
  aarch64) needs=("${aarch64_needs[@]}") ;;
  *) say "prepare.sh knows demo, wheel, build, style and aarch64, not '$1'" && exit 2 ;;
esac
missing=() optional=()
for need in "${needs[@]}"; do
  read -r package kind name <<<"$need"
  is_there "$kind" "$name" && continue
  if [[ $kind =~ ^(style|fuzzer|test_module|test_cmd)$ ]]; then optional+=("$package"); else missing+=("$package"); fi
done
if [[ $1 == build && ! " ${missing[*]} " =~ " python3-pip " ]]; then bring_nvtx && bring_textual; fi
[[ ${#missing[@]} -gt 0 || ${#optional[@]} -gt 0 ]] || exit 0

# shellcheck source=/dev/null
system=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown}") || system=unknown
if [[ $system != debian ]]; then
  if [[ ${#missing[@]} -gt 0 ]]; then
    say "missing: ${missing[*]} (names as in Debian); install them and run this again"
    exit 1
  fi
  say "missing: ${optional[*]}; going on without what they check: the code's format, the decoders under libFuzzer, NCCL by cffi, or amem top"
  exit 0
fi

missing+=("${optional[@]}")
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    say "missing: ${missing[*]}; installing them needs root, and there is no sudo. As root, run:"
    say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    exit 1
  fi
  as_root=(sudo)
fi
say "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  say "apt-get could not install ${missing[*]}"
  exit 1
fi
if [[ $1 == build ]]; then bring_nvtx && bring_textual; fi
