// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/host_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <span>
#include <utility>

#include "base/sealed_file.h"
#include "transport/host_frame.h"
#include "transport/message.h"

namespace amem {
namespace {

constexpr size_t kCodeBytes = sizeof(JobKey::Code);

std::vector<uint8_t> greeting_of(uint16_t port) {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return encode_greeting({wire_version(),
                          port,
                          static_cast<uint32_t>(getpid()),
                          {random_instance_id(), random_instance_id()},
                          name});
}

}  // namespace

HostStream::HostStream(const JobKey& key, uint16_t own_port, const HostAddress& peer,
                       bool is_dialled)
    : key_(key),
      is_dialled_(is_dialled),
      peer_(peer),
      greeting_(greeting_of(own_port)),
      out_(greeting_) {}

std::string HostStream::peer_name() const {
  return is_proven_ ? peer_name_ : "a process at " + ip_text(peer_);
}

Status HostStream::check_connected(int socket) {
  if (!is_connected_) AMEM_TRY(check_dialled(socket, peer_));
  is_connected_ = true;
  return ok_status();
}

/// False for a descriptor that does not travel.
bool HostStream::pack(const Packet& packet) {
  HostFrame frame{{}, packet.bytes};
  for (const UniqueFd& fd : packet.fds) {
    const auto bytes = read_sealed_file(fd.get(), kMaxFileBytes + 1);
    if (!bytes) return false;
    frame.files.emplace_back(bytes->begin(), bytes->end());
  }
  auto bytes = encode_frame(std::move(frame));
  if (!bytes) return false;
  out_ = std::move(*bytes);
  const JobKey::Code code = sends_->next_code(out_);
  out_.insert(out_.end(), code.begin(), code.end());
  return true;
}

int HostStream::send(int socket, const Packet& packet) {
  for (;;) {
    if (!is_connected_) return EAGAIN;  // send(2) would take the error from check_connected()
    if (out_.empty() && !sends_) return EINPROGRESS;
    if (out_.empty() && !pack(packet)) return EINVAL;
    while (written_ < out_.size()) {
      const ssize_t sent = ::send(socket, out_.data() + written_, out_.size() - written_,
                                  MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) return errno;
      written_ += static_cast<size_t>(sent);
    }
    out_.clear();
    written_ = 0;
    if (std::exchange(is_greeting_sent_, true)) return 0;
  }
}

Status HostStream::take_greeting() {
  const std::optional<HostGreeting> greeting = decode_greeting(in_);
  if (!greeting) return protocol_error("it is not amem that has connected");
  if (greeting->version != wire_version())
    return protocol_error(
        "its amem has wire version %d, this one %d: install the same amem on all "
        "hosts of the job",
        greeting->version, wire_version());
  if (!is_dialled_) peer_.port = greeting->port;
  peer_name_ = "process " + std::to_string(greeting->pid) + " on " + greeting->host + " (" +
               ip_text(peer_) + ")";
  // Each direction has a key of its own: what one side says proves nothing when it is sent back.
  const auto key_from = [&](bool dialler) {
    const auto number = static_cast<uint8_t>(dialler);
    const JobKey::Bytes from(&number, 1), ours(greeting_), theirs(in_);
    return JobKey(key_.code_of({from, is_dialled_ ? ours : theirs, is_dialled_ ? theirs : ours}));
  };
  sends_.emplace(Direction{key_from(is_dialled_)});
  receives_.emplace(Direction{key_from(!is_dialled_)});
  return ok_status();
}

Result<Packet> HostStream::take_packet() {
  const JobKey::Bytes all(in_), bytes = all.first(all.size() - kCodeBytes);
  if (!are_equal(receives_->next_code(bytes), all.last(kCodeBytes)))
    return protocol_error("it has another AMEM_JOB_KEY, or its bytes were changed on their way");
  is_proven_ = true;
  const std::optional<HostFrame> frame = decode_frame(bytes);
  if (!frame) return protocol_error("its files cannot be read");
  Packet packet{frame->packet, {}};
  for (const std::string& file : frame->files)
    packet.fds.push_back(AMEM_TRY(make_sealed_file(
        "amem-of-host", {reinterpret_cast<const uint8_t*>(file.data()), file.size()})));
  return packet;
}

std::optional<size_t> HostStream::wanted_bytes() const {
  const std::optional<size_t> size_bytes = size_of_frame(in_, !receives_);
  const bool is_whole_size = !receives_ || !size_bytes || in_.size() < sizeof(uint32_t);
  return is_whole_size ? size_bytes : *size_bytes + kCodeBytes;
}

Result<std::optional<Packet>> HostStream::receive(int socket) {
  for (;;) {
    const std::optional<size_t> wanted = wanted_bytes();
    if (!wanted) return protocol_error("what it sends is longer than amem's messages are");
    const size_t had = in_.size();
    if (had == *wanted) break;
    in_.resize(*wanted);
    const ssize_t got = recv(socket, in_.data() + had, *wanted - had, MSG_DONTWAIT);
    const int code = errno;
    in_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return peer_error("it closed the connection");
    if (got < 0 && (code == EAGAIN || code == EINTR || code == ENOMEM || code == ENOBUFS))
      return std::optional<Packet>();
    if (got < 0) return os_error(code, "recv(fd %d)", socket);
  }
  if (!receives_) {
    AMEM_TRY(take_greeting());
    in_.clear();
    return std::optional<Packet>();
  }
  Packet packet = AMEM_TRY(take_packet());
  in_.clear();
  return std::optional(std::move(packet));
}

}  // namespace amem
