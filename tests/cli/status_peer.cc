// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "transport/peer_service.h"

namespace amem {
namespace {

/// Answers StatusQuery with a text, or with nothing at all.
class Speaker : public PeerHandler {
 public:
  explicit Speaker(const char* json) : json_(json) {}

  void speak_through(PeerService* service) { service_ = service; }
  void on_message(const PeerInfo& from, uint64_t request_id, Received received) override {
    PeerService* const service = service_;
    // Nobody asks before main() has said that it is ready.
    if (service == nullptr || json_ == nullptr) return;
    if (std::holds_alternative<StatusQuery>(received.message))
      service->reply(from.instance, request_id, StatusReply{json_}, {});
  }
  void on_peer_gone(const PeerInfo&) override {}

 private:
  const char* const json_;
  std::atomic<PeerService*> service_{nullptr};
};

}  // namespace
}  // namespace amem

/// An amem process for `amem status` to find: status_peer JSON, or status_peer for a mute one.
/// Prints "ready" and lives until its standard input ends.
int main(int argc, char** argv) {
  amem::Speaker speaker(argc > 1 ? argv[1] : nullptr);
  auto service = amem::PeerService::start(amem::random_instance_id(), speaker);
  if (!service.ok()) {
    std::fprintf(stderr, "%s\n", service.error().message.c_str());
    return 1;
  }
  speaker.speak_through(service.value().get());
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
