// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Replies with descriptors that are not what their messages say.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/support/import_fixture.h"

namespace amem {
namespace {

/// A descriptor of a kind that is no memory of the driver. Only /dev/null is, in this test.
struct WrongKind {
  const char* name;
  std::function<UniqueFd(const Token& of_another)> make;
};

UniqueFd of_socket() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  close(ends[1]);
  return UniqueFd(ends[0]);
}

/// Its own writer: blocks who reads it.
UniqueFd of_pipe() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd both(open(("/proc/self/fd/" + std::to_string(ends[0])).c_str(), O_RDWR | O_CLOEXEC));
  for (const int end : ends) close(end);
  return both;
}

UniqueFd of_memory(bool sealed) {
  UniqueFd fd(memfd_create("wrong", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), 100), 0);
  const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  EXPECT_TRUE(!sealed || fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

const WrongKind kWrongKinds[] = {
    {"pipe", [](const Token&) { return of_pipe(); }},
    {"socket", [](const Token&) { return of_socket(); }},
    {"eventfd", [](const Token&) { return UniqueFd(eventfd(0, EFD_CLOEXEC)); }},
    {"epoll", [](const Token&) { return UniqueFd(epoll_create1(EPOLL_CLOEXEC)); }},
    {"folder", [](const Token&) { return UniqueFd(open("/", O_RDONLY | O_CLOEXEC)); }},
    {"path", [](const Token&) { return UniqueFd(open("/dev/null", O_PATH | O_CLOEXEC)); }},
    {"memory", [](const Token&) { return of_memory(false); }},
    {"sealed_memory", [](const Token&) { return of_memory(true); }},
    {"token_of_another", [](const Token& other) { return std::move(make_token(other).value()); }},
};

std::vector<UniqueFd> one(UniqueFd fd) {
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(fd));
  return fds;
}

class WrongDescriptors : public FetchWaitTest, public testing::WithParamInterface<WrongKind> {
 protected:
  WrongDescriptors() {
    context_.clients = Clients{&client_};
    driver_.cuMemImportFromShareableHandle = [](DriverHandle* handle, void* fd, int) {
      struct stat status {
      }, null{};
      const bool is_ours =
          fstat(static_cast<int>(reinterpret_cast<intptr_t>(fd)), &status) == 0 &&
          stat("/dev/null", &null) == 0 && status.st_rdev == null.st_rdev &&
          (fcntl(static_cast<int>(reinterpret_cast<intptr_t>(fd)), F_GETFL) & O_PATH) == 0;
      *handle = 7;
      return is_ours ? driver_result::kSuccess : driver_result::kInvalidValue;
    };
    driver_.cuGetErrorName = [](DriverResult, const char** name) {
      return *name = "CUDA_ERROR_INVALID_VALUE", driver_result::kSuccess;
    };
    // The first message makes connections, which take descriptors.
    owner_.service->send(context_.self, Drop{{1}}, {});
    EXPECT_FALSE(sharing_->imports().ask_for_token({owner_.id, 1, 2, kOwnerPid}).ok());
    before_ = open_fds().size();
  }
  DriverResult import() {
    const Result<UniqueFd> token = make_token(token_of(owner_));
    DriverHandle handle = 0;
    DriverResult result = driver_result::kUnknown;
    EXPECT_TRUE(sharing_->imports().import_token(token.value().get(), &handle, &result));
    return result;
  }
  size_t imports() {
    MutexLock lock(registry_.mutex);
    return registry_.allocations().size();
  }
  /// Of the reply to the next request.
  std::vector<UniqueFd> next_descriptor() {
    return is_wrong_ ? one(GetParam().make(token_of(another_, 9))) : descriptor();
  }

  std::atomic<bool> is_wrong_ = true, knows_ = false;
  size_t before_ = 0;
  Node another_;
  Node owner_{
      NodeOptions(), [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
        if (std::holds_alternative<Fetch>(message))
          owner_.service->reply(from.instance, request_id,
                                Fetched{{Fetched::Outcome::here}, {}, {}}, next_descriptor());
        if (std::holds_alternative<TokenQuery>(message))
          owner_.service->reply(from.instance, request_id, TokenReply{knows_},
                                knows_ ? next_descriptor() : std::vector<UniqueFd>());
      }};
};

INSTANTIATE_TEST_SUITE_P(Is, WrongDescriptors, testing::ValuesIn(kWrongKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(WrongDescriptors, InAFetchFailTheImportAndLeaveNothing) {
  EXPECT_EQ(import(), driver_result::kInvalidValue);

  EXPECT_EQ(imports(), 0u);
  EXPECT_TRUE(eventually([this] { return open_fds().size() == before_; }));
  is_wrong_ = false;
  EXPECT_EQ(import(), driver_result::kSuccess);
}

TEST_P(WrongDescriptors, InATokenReplyFailTheImportAndLeaveNothing) {
  knows_ = true;

  const auto imported = sharing_->imports().import_ipc_handle({owner_.id, 5, 2, kOwnerPid});

  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().kind, ErrorKind::driver);
  EXPECT_NE(imported.error().message.find("it has no token"), std::string::npos)
      << imported.error().message;
  EXPECT_EQ(imports(), 0u);
  EXPECT_TRUE(eventually([this] { return open_fds().size() == before_; }));
}

TEST_P(WrongDescriptors, AfterARestoreKeepTheGateClosedUntilTheRightOnesCome) {
  is_wrong_ = false;
  ASSERT_EQ(import(), driver_result::kSuccess);
  ASSERT_TRUE(owner_.ask(context_.self, Revoke{10000, {""}, {}}).ok());
  ASSERT_FALSE(is_open_to(owner_));
  const size_t revoked_fds = open_fds().size();

  is_wrong_ = true;
  const auto wrong = owner_.ask(context_.self, Restore{""});

  ASSERT_TRUE(wrong.ok());
  EXPECT_FALSE(std::get<Restored>(wrong.value().message).done);
  EXPECT_NE(std::get<Restored>(wrong.value().message).reason, "");
  EXPECT_FALSE(is_open_to(owner_));
  EXPECT_TRUE(eventually([&] { return open_fds().size() == revoked_fds; }));
  is_wrong_ = false;
  const auto right = owner_.ask(context_.self, Restore{""});
  ASSERT_TRUE(right.ok());
  EXPECT_TRUE(std::get<Restored>(right.value().message).done);
  EXPECT_TRUE(is_open_to(owner_));
}

}  // namespace
}  // namespace amem
