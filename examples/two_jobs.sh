#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The amem authors
# two_jobs.sh GPUS TURNS [options of train.py]: two unmodified trainings take turns on the same GPUs, each of which holds one of them.
# Prints the time of each turn, and compares the losses with those of the same trainings alone, to the last bit.
# Needs PyTorch, and amem installed with pip.
set -euo pipefail
gpus=$1 turns=$2
shift 2
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d)
declare -A jobs
trap 'kill "${jobs[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
export CUBLAS_WORKSPACE_CONFIG=:4096:8

training() { # NAME FILE: the words of a training's command
  words=(torchrun --rdzv-backend c10d --rdzv-endpoint localhost:0 --nproc-per-node "$gpus"
    "$here/train.py" --losses "$folder/$2" --seed "$((${#1} % 7))" "${options[@]}")
}
start() { # NAME: under amem; returns when it has made its first step
  training "$1" "$1"
  amem run --tensors job --safe-point optimizer --group "$1" -- "${words[@]}" &
  jobs[$1]=$!
  until [[ -s $folder/$1.0 ]]; do
    kill -0 "${jobs[$1]}"
    sleep 0.1
  done
}

options=("$@")
for name in one three; do
  training $name $name.alone
  "${words[@]}"
done
start one
amem pause --group one
start three
running=three waiting=one
for ((turn = 1; turn <= turns; ++turn)); do
  began=$EPOCHREALTIME
  amem pause --group $running
  amem resume --group $waiting
  echo "turn $turn: $waiting runs after $(awk "BEGIN { printf \"%.3f\", $EPOCHREALTIME - $began }") s"
  [[ $running == one ]] && running=three waiting=one || running=one waiting=three
  sleep 1
done
wait "${jobs[$running]}"
amem resume --group $waiting
wait "${jobs[$waiting]}"
jobs=()
for name in one three; do
  for ((rank = 0; rank < gpus; ++rank)); do cmp "$folder/$name.$rank" "$folder/$name.alone.$rank"; done
done
echo "all losses are those of the trainings alone"
