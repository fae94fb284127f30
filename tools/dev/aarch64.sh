#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# aarch64.sh prepare|python|run COMMAND...: the cross build for aarch64 (cmake/aarch64.cmake, preset aarch64).
# prepare: installs the cross compiler and qemu-user, and fills build/needs/aarch64 with what the build needs for the target.
#   Exit code 77: they cannot be installed here.
# python: brings Debian's Python for aarch64 into build/needs/aarch64/sysroot, with its libraries. Nothing is installed.
# run: runs a command in which programs for aarch64 can be started, by qemu-user, also by their path. It registers qemu with
#   binfmt_misc of a user namespace of its own: nothing of the machine changes. Needs Linux 6.7.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly self=$PWD/tools/dev/aarch64.sh libraries=/usr/aarch64-linux-gnu target=$PWD/build/needs/aarch64 googletest=/usr/src/googletest

# config NAME TARGET [FIELD VALUE]: a CMake package of headers alone.
config() {
  mkdir -p "$target/lib/cmake/$1"
  {
    echo "if(TARGET $2)"
    echo "  return()"
    echo "endif()"
    echo "add_library($2 INTERFACE IMPORTED)"
    echo "set_target_properties($2 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES $target/include ${*:3})"
  } >"$target/lib/cmake/$1/$1Config.cmake"
}

# unpack FOLDER PACKAGE...: unpacks Debian's packages for aarch64. Nothing is installed. Exit code 77: they cannot be had.
unpack() {
  local root=$1 apt=$target/apt
  shift
  rm -rf "$apt"
  mkdir -p "$root" "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/packages"
  touch "$apt/status"
  cat >"$apt/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
Dir::State "$apt";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
END
  (
    cd "$apt/packages"
    export APT_CONFIG=$apt/apt.conf
    apt-get update && apt-get download "$@"
  ) >"$apt/log" 2>&1 || exit 77
  for package in "$apt"/packages/*.deb; do dpkg -x "$package" "$root"; done
}

# The headers of this machine that have no machine code in them; GoogleTest from its sources.
prepare() {
  bash tools/dev/prepare.sh aarch64 || exit 77
  [[ -e $target/complete && -e $target/lib/libbearssl.a ]] && return
  rm -rf "$target"
  mkdir -p "$target/include" "$target/bin"
  ln -sfn "$(command -v aarch64-linux-gnu-gcc)" "$target/bin/cc"
  local folder place
  for folder in CLI fmt nlohmann nvtx3; do
    for place in "$PWD/build/needs/nvtx/nvidia/nvtx/include" /usr/include /usr/local/include ${CPATH:+${CPATH//:/ }}; do
      if [[ -d $place/$folder ]]; then ln -sfn "$place/$folder" "$target/include/$folder"; fi
    done
  done
  unpack "$target/bearssl" libbearssl-dev
  ln -sfn "$target/bearssl/usr/include/bearssl" "$target/include/bearssl"
  mkdir -p "$target/lib"
  ln -sfn "$target/bearssl/usr/lib/aarch64-linux-gnu/libbearssl.a" "$target/lib/libbearssl.a"
  config CLI11 CLI11::CLI11
  config fmt fmt::fmt-header-only INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1
  config nlohmann_json nlohmann_json::nlohmann_json
  cmake -S $googletest -B "$target/googletest" -G Ninja --toolchain "$PWD/cmake/aarch64.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DBUILD_GMOCK=OFF -DCMAKE_INSTALL_PREFIX="$target" -DCMAKE_INSTALL_LIBDIR=lib >/dev/null
  cmake --build "$target/googletest" --target install >/dev/null
  touch "$target/complete"
}

python() {
  local root=$target/sysroot
  [[ -e $root/complete ]] && return
  rm -rf "$root"
  unpack "$root" python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libstdc++6 libgcc-s1 libffi8 zlib1g \
    libexpat1 libssl3 libuuid1 libbz2-1.0 liblzma5 libsqlite3-0
  # Modules without machine code, such as pytest, are those of this machine.
  mkdir -p "$root/usr/lib/python3"
  ln -sfn /usr/lib/python3/dist-packages "$root/usr/lib/python3/dist-packages"
  touch "$root/complete"
}

# In the namespace, when its users are known. P: qemu learns the argv[0] of a program; F: also in another root.
inside() {
  local folder=$1
  shift
  read -r <"$folder/go"
  mount -t binfmt_misc none "$folder/binfmt"
  local magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
  local mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
  echo ":aarch64:M::$magic:$mask:$(command -v qemu-aarch64-static):PF" >"$folder/binfmt/register"
  exec "$@"
}

run() {
  export QEMU_LD_PREFIX=$libraries # of the loader and its libraries
  [[ ! -e $target/sysroot/complete ]] || QEMU_LD_PREFIX=$target/sysroot
  local folder child code=0 users="0 $(id -u) 1" groups="0 $(id -g) 1"
  folder=$(mktemp -d)
  chmod 755 "$folder"
  mkdir "$folder/binfmt"
  mkfifo "$folder/go"
  unshare --user --keep-caps --mount bash "$self" inside "$folder" "$@" <&0 &
  child=$!
  while [[ $(readlink "/proc/$child/ns/user") == "$(readlink /proc/self/ns/user)" ]]; do
    kill -0 "$child" || return
  done
  # Root maps all users, because tests change theirs.
  if [[ $(id -u) -eq 0 ]]; then users="0 0 4294967295" groups=$users; else echo deny >"/proc/$child/setgroups"; fi
  if ! { echo "$groups" >"/proc/$child/gid_map" && echo "$users" >"/proc/$child/uid_map"; }; then
    kill "$child"
    return 1
  fi
  echo >"$folder/go"
  wait "$child" || code=$?
  rm -rf "$folder"
  return $code
}

"$@"
