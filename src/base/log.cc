// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "base/cancellation.h"
#include "base/environment.h"
#include "base/system_call.h"
#include "base/unique_fd.h"

namespace amem {
namespace {

/// By LogLevel.
constexpr const char* kLevelNames[] = {"", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"};
constexpr const char* kLowerLevelNames[] = {"", "error", "warn", "info", "debug", "trace"};

/// The bytes of a character in UTF-8; 1 also for a byte that is not UTF-8.
size_t size_of_character(const char* text) {
  const auto first = static_cast<unsigned char>(*text);
  const size_t size = first >= 0xf5   ? 1
                      : first >= 0xf0 ? 4
                      : first >= 0xe0 ? 3
                      : first >= 0xc2 ? 2
                                      : 1;
  for (size_t i = 1; i < size; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 1;
  const auto second = static_cast<unsigned char>(size > 2 ? text[1] : 0x80);
  const bool is_excluded = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                           (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_excluded ? 1 : size;
}

/// A line of limited length.
class Line {
 public:
  static constexpr size_t kMaxBytes = 1280;

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    va_list args;
    va_start(args, format);
    const int added = vsnprintf(text_ + length_, kMaxBytes - length_, format, args);
    va_end(args);
    length_ = std::min(length_ + static_cast<size_t>(std::max(added, 0)), kMaxBytes - 1);
  }
  /// In quotation marks, with the escapes of JSON. `tail` and a line feed always fit behind it.
  void add_quoted(const char* text, const char* tail) {
    constexpr size_t kRoom = 16;
    add("\"");
    for (; *text != '\0' && length_ + kRoom < kMaxBytes; ++text)
      if (const auto byte = static_cast<unsigned char>(*text); byte < ' ')
        add("\\u%04x", unsigned{byte});
      else if (const size_t size = size_of_character(text); size != 1)
        add("%.*s", static_cast<int>(size), text), text += size - 1;
      else if (byte > '\x7f')
        add("\\ufffd");
      else
        add(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    add("\"%s", tail);
  }
  /// With a line feed.
  void write_to(int fd) {
    text_[length_] = '\n';
    // A pipe whose reader has stopped must not stop the application: one line waits.
    static constinit std::atomic<bool> g_is_full{false};
    constexpr int kMaxWaitMs = 100;
    pollfd ready{fd, POLLOUT, 0};
    g_is_full = poll(&ready, 1, g_is_full || fd != STDERR_FILENO ? 0 : kMaxWaitMs) == 0;
    if (g_is_full) return;
    const DiscardedSignals discarded;
    [[maybe_unused]] const ssize_t written = write(fd, text_, length_ + 1);
  }

 private:
  char text_[kMaxBytes + 1];
  size_t length_ = 0;
};

void add_time(Line& line) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::chrono::sys_seconds seconds{std::chrono::seconds(now.tv_sec)};
  const auto day = std::chrono::floor<std::chrono::days>(seconds);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(seconds - day);
  line.add("%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
           static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
           static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
           static_cast<int>(time.seconds().count()), static_cast<int>(now.tv_nsec / 1000000));
}

/// AMEM_LOG_FILE, in which %p is the process id and %h the host; invalid if it is not set or cannot
/// be opened. Opened for each line: a forked child has a file of its own, and no descriptor stays
/// open.
UniqueFd open_log_file(const char* host) {
  char path[1024];
  size_t length = 0;
  for (const char* next = environment().log_file.c_str(); *next != '\0'; ++next) {
    const bool is_field = next[0] == '%' && (next[1] == 'p' || next[1] == 'h');
    const size_t room = sizeof path - length;
    const int added = !is_field        ? snprintf(path + length, room, "%c", *next)
                      : next[1] == 'p' ? snprintf(path + length, room, "%d", getpid())
                                       : snprintf(path + length, room, "%s", host);
    next += is_field ? 1 : 0;
    length += static_cast<size_t>(added);
    if (length >= sizeof path) return UniqueFd();
  }
  if (length == 0) return UniqueFd();
  return UniqueFd(
      open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644));
}

constexpr uint64_t kNotNoted = 0, kNone = 1;

/// Identifies the file of a descriptor; kNone if there is none.
uint64_t file_at(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 ? file.st_dev * 0x9e3779b97f4a7c15u + file.st_ino : kNone;
}

/// A descriptor with this flag, which dup2(2) clears, is not standard error: children inherit that.
uint64_t file_at_standard_error() {
  return (fcntl(STDERR_FILENO, F_GETFD) & FD_CLOEXEC) != 0 ? kNone : file_at(STDERR_FILENO);
}

std::atomic<uint64_t> g_first{kNotNoted}, g_redirected{kNone};

/// False if a line would be written into a file of the application. After dup2(2), the file often
/// has another descriptor too, or a copy of the first one is kept.
bool has_standard_error() {
  constexpr int kDescriptors = 1024;
  const uint64_t file = file_at_standard_error();
  if (file == kNone) note_standard_error();
  if (file == kNone || g_first == kNotNoted) return file != kNone;
  const int mode = fcntl(STDERR_FILENO, F_GETFL);
  bool found = file == g_first || file == g_redirected || (mode & O_APPEND) != 0;
  for (int fd = 0; fd < kDescriptors && !found; ++fd) {
    const uint64_t other = fd != STDERR_FILENO ? file_at(fd) : kNone;
    found = other == file ? fcntl(fd, F_GETFL) == mode
                          : fd > STDERR_FILENO && other != kNone && other == g_first;
  }
  if (found) g_redirected = file;
  return found;
}

}  // namespace

void note_standard_error() {
  uint64_t before = kNotNoted;
  g_first.compare_exchange_strong(before, file_at_standard_error());
}

bool log_enabled(LogLevel level) { return static_cast<long>(level) <= environment().log_level; }

void log_line(LogLevel level, int device, const char* format, ...) {
  const NoCancellation no_cancellation;
  char host[64] = "?";
  gethostname(host, sizeof host - 1);
  const UniqueFd file = open_log_file(host);
  if (!file.valid() && !has_standard_error()) return;
  char message[Line::kMaxBytes];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);

  const int number = static_cast<int>(level), process = getpid();
  const long thread = syscall(SYS_gettid);
  const char* const rank = environment().rank.c_str();
  Line line;
  if (environment().log_format == LogFormat::text) {
    char where[16] = "-";
    if (device >= 0) snprintf(where, sizeof where, "%d", device);
    add_time(line);
    line.add(" %s:%d:%ld [%s] AMEM %s %s", host, process, thread, where, kLevelNames[number],
             message);
  } else {
    const bool json = environment().log_format == LogFormat::json;
    line.add(json ? "{\"time\":\"" : "time=");
    add_time(line);
    line.add(json ? "\",\"level\":\"%s\",\"host\":\"%s\",\"pid\":%d,\"tid\":%ld"
                  : " level=%s host=%s pid=%d tid=%ld",
             kLowerLevelNames[number], host, process, thread);
    if (*rank != '\0') line.add(json ? ",\"rank\":%s" : " rank=%s", rank);
    if (device >= 0) line.add(json ? ",\"device\":%d" : " device=%d", device);
    line.add(json ? ",\"msg\":" : " msg=");
    line.add_quoted(message, json ? "}" : "");
  }
  line.write_to(file.valid() ? file.get() : STDERR_FILENO);
}

}  // namespace amem
