#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# check_ubuntu.sh WHEEL: installs the wheel in a root file system of Ubuntu 22.04 and runs it there, without a GPU and not
# as root. Needs root, debootstrap and a mirror of Ubuntu (UBUNTU_MIRROR).
set -euo pipefail
wheel=$1
root=build/needs/ubuntu-22.04
mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}

[[ $(id -u) -eq 0 ]] || { echo "./dev check --ubuntu needs root, for debootstrap" >&2; exit 1; }
command -v debootstrap >/dev/null || apt-get install -y --no-install-recommends debootstrap >&2
if [[ ! -e $root/complete ]]; then
  rm -rf "$root"
  # Debian has no keys of Ubuntu.
  debootstrap --no-check-gpg --variant=minbase --components=main,universe --include=python3,python3-venv \
    jammy "$root" "$mirror" >&2
  chroot "$root" useradd --create-home user
  touch "$root/complete"
fi
rm -rf "$root"/home/user/* "$root/dev/shm"
install -d -m 1777 "$root/dev/shm"
cp "$wheel" "$root/home/user/"
mount --bind /proc "$root/proc"
trap 'umount "$root/proc"' EXIT
chroot --userspec=user:user "$root" /usr/bin/env -i HOME=/home/user PATH=/usr/bin:/bin bash -euc '
  cd
  . /etc/os-release
  python3 -m venv venv
  venv/bin/pip install --quiet --no-index *.whl
  venv/bin/python -c "import amem; print(\"amem\", amem.__version__)"
  venv/bin/amem demo
  echo "check: the wheel runs on $PRETTY_NAME, $(ldd --version | head -1)"
'
