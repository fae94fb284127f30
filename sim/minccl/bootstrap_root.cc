// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <sys/random.h>

#include <thread>
#include <utility>

#include "sim/minccl/bootstrap.h"

namespace amem::minccl {
namespace {

constexpr uint64_t kMagic = 0x6c63636e696d0001;  // "minccl", version 1

struct Visitor {
  UniqueFd connection;
  uint64_t nonce = 0;
  int ranks = 0;
  PeerInfo info{};
};

ncclResult_t receive_visitor(int listener, Visitor* visitor) {
  Patience patience = Patience::begin();
  MINCCL_TRY(accept_one(listener, patience, &visitor->connection));
  int fd = visitor->connection.get();
  MINCCL_TRY(recv_all(fd, &visitor->nonce, sizeof visitor->nonce, patience));
  MINCCL_TRY(recv_all(fd, &visitor->ranks, sizeof visitor->ranks, patience));
  return recv_all(fd, &visitor->info, sizeof visitor->info, patience);
}

// A visitor that does not fit is turned away by closing its connection: it learns at once.
ncclResult_t collect(int listener, uint64_t nonce, std::vector<Visitor>* by_rank) {
  for (size_t present = 0; by_rank->empty() || present < by_rank->size();) {
    Visitor visitor;
    MINCCL_TRY(receive_visitor(listener, &visitor));
    if (visitor.nonce != nonce) continue;
    if (by_rank->empty() && visitor.ranks >= 1 && visitor.ranks <= kMaxRanks)
      by_rank->resize(visitor.ranks);
    bool fits = visitor.ranks == static_cast<int>(by_rank->size()) && visitor.info.rank >= 0 &&
                visitor.info.rank < visitor.ranks;
    if (!fits || (*by_rank)[visitor.info.rank].connection.valid()) continue;
    (*by_rank)[visitor.info.rank] = std::move(visitor);
    ++present;
  }
  return ncclSuccess;
}

void serve(UniqueFd listener, uint64_t nonce) {
  std::vector<Visitor> by_rank;
  if (collect(listener.get(), nonce, &by_rank) != ncclSuccess) return;
  std::vector<PeerInfo> table;
  for (const Visitor& visitor : by_rank) table.push_back(visitor.info);
  Patience patience = Patience::begin();
  for (const Visitor& visitor : by_rank)
    send_all(visitor.connection.get(), table.data(), table.size() * sizeof(PeerInfo), patience);
}

}  // namespace

ncclResult_t start_root(RootAddress* address) {
  UniqueFd listener;
  *address = {};
  address->magic = kMagic;
  if (getrandom(&address->nonce, sizeof address->nonce, 0) != sizeof address->nonce)
    return fail(ncclSystemError, "getrandom failed");
  MINCCL_TRY(listen_here(&listener, &address->endpoint));
  // Nobody can wait for it: the ranks of the communicator may all be in other processes.
  std::thread(serve, std::move(listener), address->nonce).detach();
  return ncclSuccess;
}

}  // namespace amem::minccl
