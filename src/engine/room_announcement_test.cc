// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/room_announcement.h"

#include <cstring>

#include "tests/support/session_fixture.h"

namespace amem {
namespace {

class RoomAnnouncementTest : public SessionTest {
 protected:
  static constexpr char kGpu[] = "GPU-01010101-0101-0101-0101-010101010101";
  static constexpr size_t kMiB = size_t{1} << 20;

  RoomAnnouncementTest() {
    driver_.cuDeviceGetUuid_v2 = [](void* uuid, int device) {
      memset(uuid, 1, 16);
      return device == kDevice ? driver_result::kSuccess : driver_result::kUnknown;
    };
  }
  size_t announced() {
    const auto found = ticket_.announced();
    return found.contains(kGpu) ? found.at(kGpu) : 0;
  }
  RoomTicket ticket_;
};

TEST_F(RoomAnnouncementTest, IsNeverMoreThanWhatIsReleasedLater) {
  size_t left = 1000 * kMiB;
  {
    RoomAnnouncement pause(context_, ticket_, {{kDevice, left}}, patience());
    EXPECT_EQ(announced(), left);
    for (const size_t size : {1 * kMiB, 63 * kMiB, 200 * kMiB, 700 * kMiB}) {
      pause.releases(kDevice, size);
      left -= size;
      EXPECT_LE(announced(), left);
      EXPECT_GE(announced() + 64 * kMiB, left);
    }
    pause.releases(kDevice, 100 * kMiB);
    EXPECT_EQ(announced(), 0u);
  }
  EXPECT_TRUE(ticket_.announced().empty());
}

// Its name would be that of any other one.
TEST_F(RoomAnnouncementTest, DoesNotSpeakOfAGpuThatIsNotKnown) {
  const RoomAnnouncement pause(context_, ticket_, {{kDevice + 1, kMiB}}, patience());
  EXPECT_TRUE(ticket_.announced().empty());
}

}  // namespace
}  // namespace amem
