// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sim/minccl/socket_progress.h"

namespace amem::minccl {
namespace {

uint64_t load(uint64_t* counter) {
  return std::atomic_ref(*counter).load(std::memory_order_acquire);
}

void count_up(uint64_t* counter) {
  std::atomic_ref(*counter).fetch_add(1, std::memory_order_release);
}

bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

bool SocketStream::progress(LaunchLedger& ledger) {
  if (closed_) return false;
  return direction_ == Direction::send ? progress_send(ledger) : progress_recv(ledger);
}

bool SocketStream::drained() const {
  return closed_ || direction_ == Direction::recv ||
         (frame_done_ == 0 && load(fifo_.tail) == slots_done_);
}

short SocketStream::events() const {
  if (closed_) return 0;
  if (direction_ == Direction::send) return frame_done_ > 0 ? POLLOUT : 0;
  return has_room() ? POLLIN : 0;
}

bool SocketStream::has_room() const { return slots_done_ - load(fifo_.head) < kSlots; }

std::byte* SocketStream::slot() const {
  return fifo_.fifo[frame_.protocol] + slots_done_ % kSlots * fifo_.slot_bytes[frame_.protocol];
}

bool SocketStream::give_up(LaunchLedger& ledger, bool is_error) {
  closed_ = true;
  if (is_error) ledger.error = ncclRemoteError;
  return false;
}

bool SocketStream::begin_frame() {
  if (load(fifo_.tail) == slots_done_) return false;
  uint64_t size = fifo_.sizes[slots_done_ % kSlots];
  frame_ = {static_cast<uint32_t>(size), static_cast<uint32_t>(size >> 32)};
  return true;
}

bool SocketStream::progress_send(LaunchLedger& ledger) {
  if (frame_done_ == 0 && !begin_frame()) return false;
  size_t total = sizeof frame_ + frame_.bytes;
  size_t header_done = std::min(frame_done_, sizeof frame_);
  size_t data_done = frame_done_ - header_done;
  iovec parts[] = {
      {reinterpret_cast<std::byte*>(&frame_) + header_done, sizeof frame_ - header_done},
      {slot() + data_done, frame_.bytes - data_done}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
  if (sent < 0) return must_wait() ? false : give_up(ledger, true);
  frame_done_ += static_cast<size_t>(sent);
  if (frame_done_ == total) {
    frame_done_ = 0;
    ++slots_done_;
    count_up(fifo_.head);
  }
  return sent > 0;
}

// Reads into the frame header or the data, whichever comes next.
bool SocketStream::receive_part(LaunchLedger& ledger) {
  bool in_header = frame_done_ < sizeof frame_;
  size_t data_done = frame_done_ - sizeof frame_;
  void* to = in_header ? reinterpret_cast<std::byte*>(&frame_) + frame_done_
                       : arriving_.data() + data_done;
  size_t wanted = in_header ? sizeof frame_ - frame_done_ : frame_.bytes - data_done;
  ssize_t got = recv(fd_.get(), to, wanted, 0);
  if (got < 0 && must_wait()) return false;
  // The end of the stream between two frames is a peer that has destroyed its communicator.
  if (got <= 0) return give_up(ledger, got < 0 || frame_done_ > 0);
  frame_done_ += static_cast<size_t>(got);
  if (frame_done_ == sizeof frame_) {
    if (frame_.protocol >= kProtocols || frame_.bytes > fifo_.slot_bytes[frame_.protocol])
      return give_up(ledger, true);
    arriving_.resize(frame_.bytes);
  }
  return true;
}

bool SocketStream::progress_recv(LaunchLedger& ledger) {
  if (frame_done_ == 0 && !has_room()) return false;
  if (!receive_part(ledger)) return false;
  if (frame_done_ >= sizeof frame_ && frame_done_ == sizeof frame_ + frame_.bytes) deliver();
  return true;
}

// Flags are in the data: whole words, in order, so that none is seen before what it vouches for.
void SocketStream::deliver() {
  auto* to = reinterpret_cast<uint64_t*>(slot());
  for (size_t done = 0; done < frame_.bytes; done += sizeof(uint64_t), ++to) {
    uint64_t word = 0;
    memcpy(&word, arriving_.data() + done, std::min(sizeof word, frame_.bytes - done));
    std::atomic_ref(*to).store(word, std::memory_order_release);
  }
  frame_done_ = 0;
  ++slots_done_;
  count_up(fifo_.tail);
}

}  // namespace amem::minccl
