// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/report.h"

#include <stdexcept>

namespace bench {

Report::Report(nlohmann::json facts, const std::string& json_path)
    : facts_(std::move(facts)), file_(json_path) {
  if (!file_) throw std::runtime_error("cannot write " + json_path);
}

void Report::add(const nlohmann::json& record) {
  nlohmann::json line = facts_;
  line.update(record);
  file_ << line.dump() << std::endl;
  verified_ = verified_ && record.value("verified", true);
}

}  // namespace bench
