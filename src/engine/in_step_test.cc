// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Which allocations' FIFOs are dead, by what those who import them answer.
#include "engine/in_step.h"

#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/exports.h"
#include "peers/peer_fixture.h"

namespace amem {
namespace {

const CommunicatorId kWorld{{1, 2}};

/// An importer that lets go of everything, and says that it has called so much.
class LettingGo {
 public:
  LettingGo() = default;
  CallCounter calls;
  const InstanceId& id() const { return node_.id; }

 private:
  void answer(const PeerInfo& from, uint64_t request_id, const Message& message) {
    if (std::holds_alternative<Revoke>(message))
      node_.service->reply(from.instance, request_id, Revoked{true, {}, calls.counts()}, {});
    if (std::holds_alternative<Restore>(message))
      node_.service->reply(from.instance, request_id, Restored{true, {}}, {});
  }
  Node node_{{}, [this](const PeerInfo& from, uint64_t request_id, const Message& message) {
               answer(from, request_id, message);
             }};
};

class InStepTest : public EngineTest {
 protected:
  InStepTest() {
    driver_.cuMemExportToShareableHandle = export_nothing;
    start_service(nobody_);
    calls_.add(&gate_, kWorld, 0, 3);
    a_.calls.add(&a_, kWorld, 1, 3);
    b_.calls.add(&b_, kWorld, 2, 3);
    MutexLock lock(registry_.mutex);
    for (AllocationId* id : {&of_a_, &of_both_, &of_nobody_})
      *id = registry_.add_local(kSlotBytes, {}, 1, kSlotBytes).id;
    registry_.find(of_a_)->importers = {a_.id()};
    registry_.find(of_both_)->importers = {a_.id(), b_.id()};
  }
  ~InStepTest() override { end_service(); }

  void pause() { EXPECT_TRUE(exports_.revoke(patience(), ok_status).ok()); }
  bool is_in_step(AllocationId id) {
    MutexLock lock(registry_.mutex);
    return registry_.find(id)->in_step;
  }

  Nobody nobody_;
  LettingGo a_, b_;
  Exports exports_{context_};
  AllocationId of_a_ = 0, of_both_ = 0, of_nobody_ = 0;
};

TEST_F(InStepTest, WithAllWhoHaveCalledAsMuch) {
  pause();

  EXPECT_TRUE(is_in_step(of_a_));
  EXPECT_TRUE(is_in_step(of_both_));
  EXPECT_FALSE(is_in_step(of_nobody_)) << "who writes there was not asked";
}

TEST_F(InStepTest, EveryImporterHasToBe) {
  b_.calls.count(&b_, CallCounter::Call::send_to(0));
  pause();

  EXPECT_TRUE(is_in_step(of_a_));
  EXPECT_FALSE(is_in_step(of_both_));
}

// Through a buffer of ours, where NCCL finds no link between their GPUs.
TEST_F(InStepTest, ImportersHaveToBeWithEachOther) {
  a_.calls.count(&a_, CallCounter::Call::send_to(2));
  pause();

  EXPECT_TRUE(is_in_step(of_a_));
  EXPECT_FALSE(is_in_step(of_both_));
}

TEST_F(InStepTest, NotInDoubtOfOurOwn) {
  calls_.doubt("a graph was captured");
  pause();

  EXPECT_FALSE(is_in_step(of_a_));
}

TEST_F(InStepTest, NotOnceWeAreBack) {
  pause();
  ASSERT_TRUE(is_in_step(of_a_));
  EXPECT_TRUE(exports_.restore(patience())->wait(patience()).ok());

  EXPECT_FALSE(is_in_step(of_a_));
}

TEST_F(InStepTest, NotWithOneWhoImportsItMeanwhile) {
  {
    MutexLock lock(registry_.mutex);
    registry_.find(of_a_)->nonce = 7;
  }
  pause();
  ASSERT_TRUE(is_in_step(of_a_));
  exports_.answer_fetch({b_.id(), 0, 0}, 1, Fetch{{{of_a_, 7, false}}});

  EXPECT_FALSE(is_in_step(of_a_));
}

TEST_F(InStepTest, TheNextPauseAsksAnew) {
  pause();
  (void)exports_.restore(patience())->wait(patience());
  calls_.count(&gate_, CallCounter::Call::collective());
  pause();

  EXPECT_FALSE(is_in_step(of_a_));
}

TEST_F(InStepTest, ForAnEstimateAllAreUnlessWeDoubt) {
  exports_.expect_in_step();
  EXPECT_TRUE(is_in_step(of_both_));
  EXPECT_FALSE(is_in_step(of_nobody_));
  exports_.forget_in_step();
  EXPECT_FALSE(is_in_step(of_both_));

  calls_.doubt("a graph was captured");
  exports_.expect_in_step();
  EXPECT_FALSE(is_in_step(of_both_));
}

}  // namespace
}  // namespace amem
