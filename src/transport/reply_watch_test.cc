// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/reply_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "tests/support/peer_fixture.h"

namespace amem {
namespace {

/// A datagram socket with an abstract name, as the threads of NCCL have them.
class Mouth {
 public:
  explicit Mouth(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    const std::string whole = name + std::to_string(getpid());
    address_.sun_family = AF_UNIX;
    memcpy(address_.sun_path + 1, whole.data(), whole.size());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
  }
  void ask(Mouth& other) {
    msghdr message = part();
    message.msg_name = &other.address_;
    message.msg_namelen = sizeof other.address_;
    ASSERT_EQ(send_watched(fd_.get(), &message, 0), 1);
  }
  ssize_t hear() {
    msghdr message = part();
    return receive_watched(fd_.get(), &message, 0);
  }

 private:
  msghdr part() {
    msghdr message{};
    message.msg_iov = &data_;
    message.msg_iovlen = 1;
    return message;
  }
  UniqueFd fd_;
  sockaddr_un address_{};
  char byte_ = 0;
  iovec data_{&byte_, 1};
};

/// The socket of a request of this thread without a reply, when the time for it is over.
std::string unanswered_in_time() {
  const char* socket = nullptr;
  EXPECT_TRUE(eventually([&] { return (socket = unanswered_socket()) != nullptr; }));
  return socket != nullptr ? socket : "";
}

// NCCL repeats recvmsg(2) until the reply is there: EAGAIN is none.
TEST(ReplyWatch, FailedReceiveIsNoReply) {
  Mouth asker("asker"), silent("silent");
  asker.ask(silent);

  EXPECT_EQ(asker.hear(), -1);
  EXPECT_EQ(errno, EAGAIN);

  EXPECT_EQ(unanswered_in_time(), "@silent" + std::to_string(getpid()));
  EXPECT_EQ(unanswered_socket(), nullptr) << "once";
}

TEST(ReplyWatch, ReplyEndsTheRequest) {
  Mouth asker("asker"), other("other");
  asker.ask(other);
  other.ask(asker);  // is its reply, and the last request of this thread
  EXPECT_EQ(asker.hear(), 1);

  // A later request of another thread without a reply says that the time is over.
  std::thread([] {
    Mouth second("second"), silent("silent");
    second.ask(silent);
    EXPECT_EQ(unanswered_in_time(), "@silent" + std::to_string(getpid()));
  }).join();

  EXPECT_EQ(unanswered_socket(), nullptr);
}

}  // namespace
}  // namespace amem
