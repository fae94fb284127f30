// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

#include "cli/process_status.h"

namespace amem {

/// table: a row for each process, GPU and tag, a line for each process that did not reply, and
/// lines with what else is on the GPUs, if NVML reports it. csv: the rows below a line of titles,
/// sizes in bytes, each cell in quotation marks. json: {"schema": 1, "time": seconds of the Unix
/// epoch, "gpus": [...], "processes": [replies], "silent": [{"pid": n, "reason": "..."}]};
/// json_line: the same in one line.
enum class StatusFormat { table, csv, json, json_line };

struct StatusText {
  std::string text;
  bool all_answered;
};

/// What the processes have replied. A reply that lacks what the table shows counts as none.
StatusText status_text(const std::vector<Answer>& processes, StatusFormat format);

/// Of the environment with which a process was started, the value of the first variable with one of
/// these names, each with its '='. "" if there is none.
std::string started_with(long pid, std::initializer_list<const char*> names);

/// The beginning of the command line of a process.
std::string command_of(long pid);

/// 2097152 as "2.0 MiB".
std::string human_bytes(double bytes);

}  // namespace amem
