// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/job_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"

#ifdef AMEM_BEARSSL
#include <bearssl_hmac.h>
#endif

namespace amem {

Result<JobKey> JobKey::read(const std::string& setting) {
#ifndef AMEM_BEARSSL
  return unsupported_error("this amem was built without BearSSL, which AMEM_JOB_KEY needs");
#endif
  std::string key = setting;
  if (setting.starts_with('/')) {
    // O_NONBLOCK: a FIFO without a writer must not be waited for.
    const UniqueFd file(open(setting.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info = {};
    if (file.valid() && fstat(file.get(), &info) == 0 && !S_ISREG(info.st_mode))
      return misuse_error("AMEM_JOB_KEY: %s is not a regular file", setting.c_str());
    key.resize(4096);
    const ssize_t got = file.valid() ? ::read(file.get(), key.data(), key.size()) : -1;
    if (got < 0) return os_error(errno, "AMEM_JOB_KEY: read(%s)", setting.c_str());
    key.resize(static_cast<size_t>(got));
    key.resize(key.find_last_not_of("\r\n") + 1);
  } else if (setting.starts_with('.') || setting.starts_with('~') ||
             access(setting.c_str(), F_OK) == 0) {
    return misuse_error("AMEM_JOB_KEY=%s names a file: give its absolute path", setting.c_str());
  }
  if (key.size() < kMinBytes)
    return misuse_error(
        "AMEM_JOB_KEY has %zu characters, and needs %zu at least: openssl rand "
        "-hex 32",
        key.size(), kMinBytes);
  return JobKey({reinterpret_cast<const uint8_t*>(key.data()), key.size()});
}

#ifdef AMEM_BEARSSL
JobKey::Code JobKey::code_of(std::initializer_list<Bytes> parts) const {
  Code code{};
  br_hmac_key_context key;
  br_hmac_key_init(&key, &br_sha256_vtable, secret_.data(), secret_.size());
  br_hmac_context hmac;
  br_hmac_init(&hmac, &key, code.size());
  for (const Bytes part : parts) br_hmac_update(&hmac, part.data(), part.size());
  br_hmac_out(&hmac, code.data());
  return code;
}
#else
JobKey::Code JobKey::code_of(std::initializer_list<Bytes>) const { return {}; }
#endif

bool are_equal(const JobKey::Code& code, JobKey::Bytes other) {
  uint8_t differences = code.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < code.size() && i < other.size(); ++i)
    differences = static_cast<uint8_t>(differences | (code[i] ^ other[i]));
  return differences == 0;
}

}  // namespace amem
