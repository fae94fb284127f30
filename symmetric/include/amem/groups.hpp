// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Groups of ranks that meet over a folder, over TCP, or through a function. For amem/symmetric.hpp.
// All waits have a timeout, and errors name the rank that is missing.
#ifndef AMEM_GROUPS_HPP_
#define AMEM_GROUPS_HPP_

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "amem/symmetric.hpp"

namespace amem::symmetric {

namespace detail {

class Countdown {
 public:
  explicit Countdown(int timeout_ms)
      : timeout_ms_(timeout_ms),
        end_(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms)) {}
  int left_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        end_ - std::chrono::steady_clock::now());
    return left.count() > 0 ? static_cast<int>(left.count()) : 0;
  }
  /// Between two looks at something that sends no notice. Throws at the end.
  void wait_a_moment(const std::string& what) const {
    if (left_ms() == 0)
      throw std::runtime_error(what + " within " + std::to_string(timeout_ms_) + " ms");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // allow: there is no notice
  }

 private:
  int timeout_ms_;
  std::chrono::steady_clock::time_point end_;
};

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

inline std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

}  // namespace detail

/// Ranks that meet through a function of the application.
class FunctionGroup : public Group {
 public:
  using AllGather = std::function<void(const void* mine, size_t size_bytes, void* all)>;
  FunctionGroup(int rank, int world_size, AllGather all_gather)
      : rank_(rank), world_size_(world_size), all_gather_(std::move(all_gather)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  void all_gather(const void* mine, size_t size_bytes, void* all) override {
    all_gather_(mine, size_bytes, all);
  }

 private:
  int rank_, world_size_;
  AllGather all_gather_;
};

/// Ranks that meet through files in a folder that all of them can write. A name is used once: the
/// files of the last exchange remain.
///
/// Rank 0 begins an exchange and decides its outcome, once for all ranks: "" when all have come, or
/// why it has failed. The others write their data when it has begun, and wait for its outcome as
/// long as rank 0 does. So no rank takes data of an exchange that another one has given up.
/// Files: `name.NUMBER.RANK`, the data of a rank; `name.NUMBER.limit`, the timeout of rank 0 in
/// seconds; `name.NUMBER.outcome`. As amem.groups.FileGroup of Python.
class FileGroup : public Group {
 public:
  FileGroup(std::string folder, std::string name, int rank, int world_size, int timeout_ms = 60000)
      : prefix_(std::move(folder) + "/" + std::move(name)),
        rank_(rank),
        world_size_(world_size),
        timeout_ms_(timeout_ms) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  void all_gather(const void* mine, size_t size_bytes, void* all) override {
    rank_ == 0 ? lead(mine, size_bytes) : follow(mine, size_bytes);
    const int number = number_++;
    if (const std::string outcome = text_of(path(number, kOutcome)); !outcome.empty())
      throw std::runtime_error(outcome);
    for (int from = 0; from < world_size_; ++from)
      read_file(path(number, std::to_string(from)),
                static_cast<char*>(all) + static_cast<size_t>(from) * size_bytes, size_bytes);
    // All ranks have written this one, and so have read the one before.
    (void)unlink(path(number - 1, std::to_string(rank_)).c_str());
    for (const char* what : {kLimit, kOutcome})
      if (rank_ == 0) (void)unlink(path(number - 1, what).c_str());
  }

 private:
  static constexpr const char* kLimit = "limit";
  static constexpr const char* kOutcome = "outcome";

  void lead(const void* mine, size_t size_bytes) {
    const detail::Countdown countdown(timeout_ms_);
    const std::string limit = std::to_string(timeout_ms_ / 1e3);
    write_file(path(number_, "0"), mine, size_bytes);
    write_file(path(number_, kLimit), limit.data(), limit.size());
    std::string outcome;
    try {
      for (int from = 1; from < world_size_; ++from) wait_for(from, std::to_string(from), countdown);
    } catch (const std::runtime_error& error) {
      outcome = error.what();
    }
    write_file(path(number_, kOutcome), outcome.data(), outcome.size());
  }
  void follow(const void* mine, size_t size_bytes) {
    for (; exists(path(number_, kOutcome)); ++number_)  // given up before this rank came
      if (text_of(path(number_, kOutcome)).empty()) throw used_name(path(number_, kOutcome));
    wait_for(0, kLimit, detail::Countdown(timeout_ms_));
    write_file(path(number_, std::to_string(rank_)), mine, size_bytes);
    // Until rank 0 has decided, the data cannot be taken back.
    const double limit_ms = 1e3 * atof(text_of(path(number_, kLimit)).c_str());
    wait_for(0, kOutcome, detail::Countdown(static_cast<int>(limit_ms) + timeout_ms_));
  }

  std::string path(int number, const std::string& what) const {
    return prefix_ + "." + std::to_string(number) + "." + what;
  }
  static bool exists(const std::string& name) { return access(name.c_str(), F_OK) == 0; }
  static std::runtime_error used_name(const std::string& name) {
    return std::runtime_error(name + " exists: the name of a group is used once");
  }
  void wait_for(int rank, const std::string& what, const detail::Countdown& countdown) const {
    const std::string name = path(number_, what);
    while (!exists(name)) {
      if (errno != ENOENT) throw std::runtime_error("cannot open " + name + ": " + strerror(errno));
      countdown.wait_a_moment(detail::rank_text(rank) + " did not write " + name);
    }
  }
  /// Complete from the moment at which it has its name.
  static void write_file(const std::string& name, const void* bytes, size_t size_bytes) {
    const std::string draft = name + ".draft";
    const detail::Descriptor file(
        open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0 ||
        write(file.get(), bytes, size_bytes) != static_cast<ssize_t>(size_bytes))
      throw std::runtime_error("cannot write " + draft + ": " + strerror(errno));
    const int linked = link(draft.c_str(), name.c_str());
    const int why = errno;
    (void)unlink(draft.c_str());
    if (linked != 0)
      throw why == EEXIST ? used_name(name)
                          : std::runtime_error("cannot create " + name + ": " + strerror(why));
  }
  static detail::Descriptor open_file(const std::string& name) {
    detail::Descriptor file(open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw std::runtime_error("cannot open " + name + ": " + strerror(errno));
    return file;
  }
  static std::string text_of(const std::string& name) {
    char text[1024];
    const ssize_t size = read(open_file(name).get(), text, sizeof text);
    return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
  }
  static void read_file(const std::string& name, char* to, size_t size_bytes) {
    const detail::Descriptor file = open_file(name);
    char more = 0;
    if (read(file.get(), to, size_bytes) != static_cast<ssize_t>(size_bytes) ||
        read(file.get(), &more, 1) != 0)
      throw std::runtime_error(name + " has not " + std::to_string(size_bytes) +
                               " bytes: it is of another version of amem");
  }

  const std::string prefix_;
  const int rank_, world_size_, timeout_ms_;
  int number_ = 0;
};

/// Ranks that meet over TCP. Rank 0 listens at the address, "host:port"; the others connect to it.
/// The connections end with the object, and with an exchange that fails: the next one connects again.
/// There is no authentication: for networks of one job.
class TcpGroup : public Group {
 public:
  TcpGroup(const std::string& address, int rank, int world_size, int timeout_ms = 60000)
      : address_(address), rank_(rank), world_size_(world_size), timeout_ms_(timeout_ms) {
    connect_all(detail::Countdown(timeout_ms_));
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  void all_gather(const void* mine, size_t size_bytes, void* all) override {
    try {
      exchange(mine, size_bytes, all);
    } catch (const std::runtime_error&) {
      peers_.clear();  // what is still on its way belongs to this exchange
      throw;
    }
  }

 private:
  void exchange(const void* mine, size_t size_bytes, void* all) {
    const detail::Countdown countdown(timeout_ms_);
    if (peers_.empty()) connect_all(countdown);
    const size_t all_bytes = size_bytes * static_cast<size_t>(world_size_);
    // Rank 0 begins: the others send when it is there, and wait as long as it does.
    int32_t limit_ms = timeout_ms_;
    if (rank_ != 0) {
      receive_frame(0, &limit_ms, sizeof limit_ms, countdown);
      const detail::Countdown longer(timeout_ms_ + limit_ms);
      send_frame(0, mine, size_bytes, longer);
      receive_frame(0, all, all_bytes, longer);
      return;
    }
    for (int to = 1; to < world_size_; ++to) send_frame(to, &limit_ms, sizeof limit_ms, countdown);
    memcpy(all, mine, size_bytes);
    for (int from = 1; from < world_size_; ++from)
      receive_frame(from, static_cast<char*>(all) + static_cast<size_t>(from) * size_bytes,
                    size_bytes, countdown);
    for (int to = 1; to < world_size_; ++to) send_frame(to, all, all_bytes, countdown);
  }

  /// The first bytes of a connection, from each side.
  struct Hello {
    uint32_t version = 0x616d'0002;
    int32_t rank, world_size;
  };
  using Address = std::vector<char>;

  static std::vector<Address> look_up(const std::string& host, const std::string& port,
                                      int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* found = nullptr;
    const int failed =
        getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
    if (failed != 0)
      throw std::runtime_error("cannot find " + host + ":" + port + ": " + gai_strerror(failed));
    std::vector<Address> addresses;
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      const auto* const bytes = reinterpret_cast<const char*>(each->ai_addr);
      addresses.emplace_back(bytes, bytes + each->ai_addrlen);
    }
    freeaddrinfo(found);
    return addresses;
  }
  static const sockaddr* as_sockaddr(const Address& address) {
    return reinterpret_cast<const sockaddr*>(address.data());
  }
  static detail::Descriptor new_socket(const Address& address) {
    return detail::Descriptor(
        socket(as_sockaddr(address)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }

  void connect_all(const detail::Countdown& countdown) {
    const size_t colon = address_.rfind(':');
    if (colon == address_.npos) throw std::runtime_error("'" + address_ + "' is not host:port");
    const std::string host = address_.substr(0, colon), port = address_.substr(colon + 1);
    rank_ == 0 ? accept_all(host, port, countdown) : connect_to(host, port, countdown);
  }
  void accept_all(const std::string& host, const std::string& port,
                  const detail::Countdown& countdown) {
    detail::Descriptor listener;
    int why = 0;
    for (const Address& address : look_up(host, port, AI_PASSIVE)) {
      detail::Descriptor candidate = new_socket(address);
      const int on = 1;
      (void)setsockopt(candidate.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      const bool bound = bind(candidate.get(), as_sockaddr(address),
                              static_cast<socklen_t>(address.size())) == 0 &&
                         listen(candidate.get(), world_size_) == 0;
      why = errno;
      if (!bound) continue;
      listener = std::move(candidate);
      break;
    }
    if (listener.get() < 0)
      throw std::runtime_error("cannot listen at " + host + ":" + port + ": " + strerror(why));
    peers_.resize(static_cast<size_t>(world_size_));
    for (int missing = world_size_ - 1; missing > 0; --missing) accept_one(listener, countdown);
  }
  void accept_one(const detail::Descriptor& listener, const detail::Countdown& countdown) {
    wait_for(listener.get(), POLLIN, "connect", first_missing(), countdown);
    detail::Descriptor peer(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello{};
    transfer(peer.get(), false, &hello, sizeof hello, first_missing(), countdown);
    const Hello own{Hello{}.version, 0, world_size_};
    transfer(peer.get(), true, const_cast<Hello*>(&own), sizeof own, hello.rank, countdown);
    check(hello, "rank " + std::to_string(hello.rank));
    if (hello.rank < 1 || hello.rank >= world_size_ ||
        peers_[static_cast<size_t>(hello.rank)].get() >= 0)
      throw std::runtime_error("a second process says that it is rank " +
                               std::to_string(hello.rank) + ", or there is no such rank");
    peers_[static_cast<size_t>(hello.rank)] = std::move(peer);
  }
  void connect_to(const std::string& host, const std::string& port,
                  const detail::Countdown& countdown) {
    peers_.resize(1);
    while (peers_[0].get() < 0) {
      for (const Address& address : look_up(host, port, 0)) {
        detail::Descriptor candidate = new_socket(address);
        if (connect(candidate.get(), as_sockaddr(address),
                    static_cast<socklen_t>(address.size())) != 0)
          continue;
        peers_[0] = std::move(candidate);
        break;
      }
      if (peers_[0].get() < 0)
        countdown.wait_a_moment("rank 0 did not listen at " + host + ":" + port);
    }
    Hello hello{Hello{}.version, rank_, world_size_};
    transfer(peers_[0].get(), true, &hello, sizeof hello, 0, countdown);
    transfer(peers_[0].get(), false, &hello, sizeof hello, 0, countdown);
    check(hello, "rank 0");
  }
  void check(const Hello& hello, const std::string& who) const {
    if (hello.version != Hello{}.version)
      throw std::runtime_error(who + " is no rank of amem, or has another version of it");
    if (hello.world_size != world_size_)
      throw std::runtime_error(who + " has a group of " + std::to_string(hello.world_size) +
                               " ranks, not " + std::to_string(world_size_));
  }
  int first_missing() const {
    int rank = 1;
    while (rank < world_size_ && peers_[static_cast<size_t>(rank)].get() >= 0) ++rank;
    return rank;
  }

  /// The size first, so that another size is an error and no misunderstanding.
  void send_frame(int to, const void* bytes, size_t size_bytes,
                  const detail::Countdown& countdown) const {
    uint64_t size = size_bytes;
    const int fd = peers_[static_cast<size_t>(to)].get();
    transfer(fd, true, &size, sizeof size, to, countdown);
    transfer(fd, true, const_cast<void*>(bytes), size_bytes, to, countdown);
  }
  void receive_frame(int from, void* bytes, size_t size_bytes,
                     const detail::Countdown& countdown) const {
    uint64_t size = 0;
    const int fd = peers_[static_cast<size_t>(from)].get();
    transfer(fd, false, &size, sizeof size, from, countdown);
    if (size != size_bytes)
      throw std::runtime_error(detail::rank_text(from) + " sent " + std::to_string(size) +
                               " bytes, not " + std::to_string(size_bytes));
    transfer(fd, false, bytes, size_bytes, from, countdown);
  }
  void wait_for(int fd, short events, const char* what, int rank,
                const detail::Countdown& countdown) const {
    pollfd polled{fd, events, 0};
    const int ready = poll(&polled, 1, countdown.left_ms());
    if (ready == 0)
      throw std::runtime_error(detail::rank_text(rank) + " did not " + what + " within " +
                               std::to_string(timeout_ms_) + " ms");
  }
  void transfer(int fd, bool sends, void* bytes, size_t size_bytes, int rank,
                const detail::Countdown& countdown) const {
    auto* at = static_cast<char*>(bytes);
    for (size_t left = size_bytes; left > 0;) {
      wait_for(fd, sends ? POLLOUT : POLLIN, sends ? "receive" : "answer", rank, countdown);
      const ssize_t moved = sends ? send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                                  : recv(fd, at, left, MSG_DONTWAIT);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (moved <= 0)
        throw std::runtime_error(detail::rank_text(rank) + " has closed its connection");
      at += moved;
      left -= static_cast<size_t>(moved);
    }
  }

  const std::string address_;
  const int rank_, world_size_, timeout_ms_;
  std::vector<detail::Descriptor> peers_;  ///< rank 0: by rank; others: rank 0 only
};

}  // namespace amem::symmetric

#endif  // AMEM_GROUPS_HPP_
