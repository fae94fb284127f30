// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/report.h"

#include <stdexcept>

namespace bench {

Report::Report(nlohmann::json facts, const std::string& json_path)
    : facts_(std::move(facts)), file_(json_path) {
  if (!file_) throw std::runtime_error("cannot write " + json_path);
}

void Report::add(nlohmann::json record) {
  nlohmann::json line = facts_;
  line.update(record);
  file_ << line.dump() << std::endl;
  records_.push_back(std::move(record));
}

bool Report::verified() const {
  for (const nlohmann::json& record : records_)
    if (!record.value("verified", true)) return false;
  return true;
}

}  // namespace bench
