// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <optional>
#include <string>

#include "cli/variables.h"

namespace amem {

/// The options that `amem run` and `amem env` share, as the user wrote them.
struct JobOptions {
  std::optional<std::string> cumem;
  std::optional<std::string> group;
  std::optional<std::string> log;
  std::optional<std::string> timeout_ms;
};

/// What has to be set for a job that starts with the variables `before`. Throws Failure when an
/// option's value is out of its range (environment.def) or when amem's library is missing.
Variables job_variables(const JobOptions& options, const Variables& before);

}  // namespace amem
