// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/bootstrap.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

namespace amem::minccl {
namespace {

struct MessageHeader {
  uint64_t tag;
  uint32_t bytes;
  int32_t from;
};
constexpr uint32_t kLargestMessageBytes = 1 << 20;

// Tags of connections are small numbers (connect.cc); gathers count up from here.
constexpr uint64_t kGatherTag = 1ull << 32, kGatherOfTag = kGatherTag - 1;

}  // namespace

ncclResult_t Bootstrap::listen() { return listen_here(&listener_, &endpoint_); }

ncclResult_t Bootstrap::join(const RootAddress& root, const PeerInfo& self, int ranks,
                             const Patience& patience) {
  UniqueFd connection;
  MINCCL_TRY(connect_to(root.endpoint, patience, &connection));
  MINCCL_TRY(send_all(connection.get(), &root.nonce, sizeof root.nonce, patience));
  MINCCL_TRY(send_all(connection.get(), &ranks, sizeof ranks, patience));
  MINCCL_TRY(send_all(connection.get(), &self, sizeof self, patience));
  std::vector<PeerInfo> table(ranks);
  MINCCL_TRY(recv_all(connection.get(), table.data(), table.size() * sizeof(PeerInfo), patience));
  adopt(std::move(table), self.rank);
  return ncclSuccess;
}

void Bootstrap::adopt(std::vector<PeerInfo> peers, int rank) {
  peers_ = std::move(peers);
  rank_ = rank;
}

ncclResult_t Bootstrap::send(int peer, uint64_t tag, const void* data, size_t bytes,
                             const Patience& patience) {
  UniqueFd connection;
  MINCCL_TRY(connect_to(peers_[peer].endpoint, patience, &connection));
  MessageHeader header{tag, static_cast<uint32_t>(bytes), rank_};
  MINCCL_TRY(send_all(connection.get(), &header, sizeof header, patience));
  return send_all(connection.get(), data, bytes, patience);
}

ncclResult_t Bootstrap::accept_message(const Patience& patience, Message* message) {
  UniqueFd connection;
  MINCCL_TRY(accept_one(listener_.get(), patience, &connection));
  MessageHeader header{};
  MINCCL_TRY(recv_all(connection.get(), &header, sizeof header, patience));
  if (header.bytes > kLargestMessageBytes)
    return fail(ncclInternalError, "bootstrap message of %u bytes", header.bytes);
  *message = {header.from, header.tag, std::vector<char>(header.bytes)};
  return recv_all(connection.get(), message->data.data(), header.bytes, patience);
}

ncclResult_t Bootstrap::recv(int peer, uint64_t tag, void* data, size_t bytes,
                             const Patience& patience) {
  auto wanted = [&](const Message& m) { return m.from == peer && m.tag == tag; };
  auto found = std::find_if(unexpected_.begin(), unexpected_.end(), wanted);
  while (found == unexpected_.end()) {
    Message message;
    MINCCL_TRY(accept_message(patience, &message));
    unexpected_.push_back(std::move(message));
    found = wanted(unexpected_.back()) ? std::prev(unexpected_.end()) : unexpected_.end();
  }
  Message message = std::move(*found);
  unexpected_.erase(found);
  if (message.data.size() != bytes)
    return fail(ncclInternalError, "rank %d sent %zu bytes instead of %zu", peer,
                message.data.size(), bytes);
  memcpy(data, message.data.data(), bytes);
  return ncclSuccess;
}

ncclResult_t Bootstrap::all_gather(void* table, size_t bytes, const Patience& patience) {
  std::vector<int> all(peers_.size());
  std::iota(all.begin(), all.end(), 0);
  return gather(kGatherTag + gathers_++, all, table, bytes, patience);
}

// Messages with the same tag stay in order.
ncclResult_t Bootstrap::all_gather_of(const std::vector<int>& members, void* table, size_t bytes,
                                      const Patience& patience) {
  return gather(kGatherOfTag, members, table, bytes, patience);
}

ncclResult_t Bootstrap::gather(uint64_t tag, const std::vector<int>& members, void* table,
                               size_t bytes, const Patience& patience) {
  auto* const entry = static_cast<char*>(table);
  const size_t own = std::find(members.begin(), members.end(), rank_) - members.begin();
  if (own != 0) {
    MINCCL_TRY(send(members[0], tag, entry + own * bytes, bytes, patience));
    return recv(members[0], tag, table, members.size() * bytes, patience);
  }
  for (size_t i = 1; i < members.size(); ++i)
    MINCCL_TRY(recv(members[i], tag, entry + i * bytes, bytes, patience));
  for (size_t i = 1; i < members.size(); ++i)
    MINCCL_TRY(send(members[i], tag, table, members.size() * bytes, patience));
  return ncclSuccess;
}

ncclResult_t Bootstrap::barrier(const Patience& patience) {
  std::vector<char> table(peers_.size());
  return all_gather(table.data(), 1, patience);
}

}  // namespace amem::minccl
