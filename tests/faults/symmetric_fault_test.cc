// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Symmetric memory of amem: every driver call of a call on it fails, and a rank is killed or
// stopped at every point of a pause and of a resume.
#include <signal.h>

#include "tests/faults/fault_test.h"
#include "tests/faults/points.h"
#include "tests/process/meeting.h"

namespace amem {
namespace {

class SymmetricFault : public FaultTest {
 protected:
  /// A new handle `name` of all ranks, without a fault.
  void meet(jobs::Job& job, const std::string& name) {
    meeting_.meet(job, name, first_devices(job.size()));
  }
  void use_multicast() {
    setup_.environment["AMEM_MULTICAST"] = setup_.environment["AMEM_SIM_MULTICAST"] = "1";
  }
  static void expect_named(const jobs::RankProcess::Outcome& outcome, const std::string& text) {
    EXPECT_TRUE(outcome.ok || has(outcome.text, text)) << outcome.text;
  }

  const Meeting meeting_;
};

struct CallFault {
  bool multicast;
  int faulty;  ///< the rank
};
/// In place of its bytes, in lists of tests.
void PrintTo(const CallFault& fault, std::ostream* out) { *out << fault.faulty; }

// The rank whose call fails says which; the others say which rank. A retry works.
class SymmetricCallFault : public SymmetricFault, public testing::WithParamInterface<CallFault> {};

TEST_P(SymmetricCallFault, OfARendezvousFailsOnAllRanks) {
  const auto [multicast, faulty] = GetParam();
  if (multicast) use_multicast();
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.all("sym_malloc b 65536");
  // What only a first rendezvous does is done.
  meet(job, "first");
  job.all("sym_collectives first 4096");
  EXPECT_EQ(job[0].ask("sym_multicast first"), multicast ? "1" : "0");
  job.all("sym_destroy first");
  const size_t used = used_bytes(job[faulty]);
  int tried = 0, refused = 0, meetings = 0;
  for (const char* function : kDriverCalls)
    for (int n = 1; n <= 20; ++n) {
      SCOPED_TRACE(std::string(function) + " fails at call " + std::to_string(n));
      const std::string name = "h" + std::to_string(++meetings);
      const long before = std::stol(job[faulty].ask(std::string("calls_of ") + function));
      job[faulty].ask(std::string("driver_fault ") + function + ":" + std::to_string(n) + "=2");
      job[0].order(meeting_.order(name, 0, 2));
      job[1].order(meeting_.order(name, 1, 2));
      const jobs::RankProcess::Outcome own = job[faulty].outcome(),
                                       others = job[1 - faulty].outcome();
      job[faulty].ask("driver_fault");
      const long after = std::stol(job[faulty].ask(std::string("calls_of ") + function));
      if (after - before < n) {  // it makes fewer calls of this function
        ASSERT_TRUE(own.ok) << own.text;
        job.all("sym_destroy " + name);
        break;
      }
      ++tried;
      ASSERT_EQ(own.ok, others.ok) << own.text << others.text;
      if (own.ok) {
        job.all("sym_destroy " + name);
      } else {
        ++refused;
        // An import that fails is named as such, and the call in the log.
        const bool is_import = has(own.text + others.text, "cannot map the memory of rank ");
        EXPECT_TRUE(is_import || has(own.text, function)) << own.text;
        EXPECT_TRUE(is_import || has(others.text, "rank " + std::to_string(faulty) + ": "))
            << others.text;
      }
      ASSERT_EQ(used_bytes(job[faulty]), used) << own.text;
    }
  EXPECT_GE(refused, multicast ? 35 : 25) << "of " << tried;
  meet(job, "last");
  job.all("sym_collectives last 4096");
}

std::string name_of(const testing::TestParamInfo<CallFault>& fault) {
  return (fault.param.multicast ? "WithMulticastOnRank" : "OnRank") +
         std::to_string(fault.param.faulty);
}
INSTANTIATE_TEST_SUITE_P(OfEachKind, SymmetricCallFault,
                         testing::Values(CallFault{false, 0}, CallFault{true, 0},
                                         CallFault{true, 1}),
                         name_of);

// A launch that fails on one rank is an error there; the other rank ends at its timeout.
TEST_F(SymmetricFault, LaunchThatFailsIsAnErrorOnBothSides) {
  jobs::Job job(setup_, 2);
  job.use_devices({0, 1});
  job.all("sym_malloc b 65536");
  meet(job, "h");
  job[0].ask("driver_fault cuLaunchKernel:1=700");
  job[1].order("sym_barrier h 0 200");
  EXPECT_TRUE(has(job[0].ask_failing("sym_barrier h 0 200"), "cuLaunchKernel"));
  EXPECT_TRUE(has(job[1].failure(), "rank 0"));
  job[0].ask("driver_fault");
  job.all("sym_destroy h");
  meet(job, "again");
  job.all("sym_collectives again 4096");
}

/// A rank is killed before or after each exchange of a rendezvous with multicast: the others
/// neither wait in a multicast call nor keep anything.
class MulticastDeath : public SymmetricFault, public testing::WithParamInterface<int> {};

TEST_P(MulticastDeath, EndsTheRendezvousOfTheOthers) {
  constexpr int kExchanges = 5;
  use_multicast();
  const int victim = GetParam();
  const std::vector<int> survivors{victim == 0 ? 1 : 0, 2};
  for (int moment = 0; moment < 2 * kExchanges; ++moment) {
    SCOPED_TRACE("moment " + std::to_string(moment));
    jobs::Job job(setup_, 3);
    job.use_devices(first_devices(3));
    job.all("sym_malloc b 1000000");
    const std::string name = "h" + std::to_string(moment);
    for (int rank = 0; rank < 3; ++rank)
      job[rank].order(meeting_.order(name, rank, 3) +
                      (rank == victim ? " dies " + std::to_string(moment) : ""));
    for (const int rank : survivors) {
      const jobs::RankProcess::Outcome outcome = job[rank].outcome();
      EXPECT_EQ(outcome.ok, moment == 2 * kExchanges - 1) << outcome.text;
      if (outcome.ok) job[rank].ask("sym_destroy " + name);
    }
    job[victim].wait_until_ended();
    meeting_.meet(job, name + "again", survivors);
    for (const int rank : survivors)
      EXPECT_EQ(job[rank].ask("sym_multicast " + name + "again"), "1");
    job.some(survivors, "sym_collectives " + name + "again 4096 100000");
    for (const std::string& order : {"sym_destroy " + name + "again", std::string("sym_free b")})
      job.some(survivors, order);
    for (const int rank : survivors) {
      EXPECT_EQ(totals(job[rank]).objects, 0u);
      EXPECT_EQ(totals(job[rank]).imports, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfRank, MulticastDeath, testing::Values(0, 1),
                         testing::PrintToStringParamName());

/// Rank 0 pauses and resumes. The victim is rank 0 or rank 1; rank 2 and the other one go on.
class SymmetricDeath : public SymmetricFault, public testing::WithParamInterface<Point> {};

TEST_P(SymmetricDeath, SurvivorsGoOn) {
  jobs::Job job(setup_, 3);
  job.use_devices(first_devices(3));
  job.all("sym_malloc b 2000000");
  meet(job, "all");
  const int victim = GetParam().is_own ? 0 : 1;
  const std::vector<int> survivors{1 - victim, 2};
  meeting_.meet(job, "survivors", survivors);
  job.all("sym_collectives all 4096 100000");
  job.some(survivors, "sym_collectives survivors 4096");
  const std::string point = GetParam().name;
  const bool in_pause = GetParam().in_pause();
  // A resume meets a peer that resumes or has resumed: what it fetches is its peer's.
  if (!in_pause) job[0].ask("tag_pause symmetric");
  job[victim].ask("variable AMEM_TEST_STEP_POINT " + point + "=" + std::to_string(SIGKILL));
  const std::string dead = std::to_string(job[victim].pid());
  job[0].order(in_pause ? "tag_pause symmetric" : "tag_resume symmetric");
  if (victim == 1) {
    const jobs::RankProcess::Outcome outcome = job[0].outcome();
    expect_named(outcome, dead);
  }
  job[victim].wait_until_ended();
  if (victim == 1) job[0].ask("tag_resume symmetric");

  for (const int rank : survivors) {
    const std::string text = job[rank].ask_failing("sym_barrier all 0 20000");
    EXPECT_TRUE(has(text, dead)) << text;
  }
  job.some(survivors, "sym_collectives survivors 4096 100000");
  for (const int rank : survivors) {
    job[rank].ask("tag_pause symmetric");
    job[rank].ask("tag_resume symmetric");
  }
  job.some(survivors, "sym_collectives survivors 4096 100000");
  for (const char* order : {"sym_destroy all", "sym_destroy survivors", "sym_free b"})
    job.some(survivors, order);
  for (const int rank : survivors) {
    EXPECT_EQ(totals(job[rank]).objects, 0u);
    EXPECT_EQ(totals(job[rank]).imports, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(AtEveryPoint, SymmetricDeath, testing::ValuesIn(kPoints), name_of_point);

/// The peer is stopped at a point of rank 0's pause or resume, and continued after rank 0's answer.
class SymmetricStop : public SymmetricFault, public testing::WithParamInterface<Point> {};

TEST_P(SymmetricStop, IsAnErrorInTimeAndTheJobRecovers) {
  jobs::Job job(setup_, 2);
  job.use_devices(first_devices(2));
  job.all("sym_malloc b 2000000");
  meet(job, "h");
  job[1].ask("sym_write h 0 4711");
  const std::string point = GetParam().name;
  const bool in_pause = GetParam().in_pause();
  if (!in_pause) job[0].ask("tag_pause symmetric");
  job[1].ask("variable AMEM_TEST_STEP_POINT " + point + "=" + std::to_string(SIGSTOP));
  job[0].order(in_pause ? "tag_pause symmetric" : "tag_resume symmetric");
  const jobs::RankProcess::Outcome outcome = job[0].outcome();
  EXPECT_FALSE(outcome.ok);
  EXPECT_TRUE(has(outcome.text, std::to_string(job[1].pid()))) << outcome.text;
  job[1].kill(SIGCONT);
  job.all("tag_resume symmetric");
  EXPECT_EQ(job[0].ask("sym_read b"), "4711");
  job.all("sym_collectives h 4096 100000");
  job.all("tag_pause symmetric");
  job.all("tag_resume symmetric");
  job.all("sym_collectives h 4096 100000");
}

INSTANTIATE_TEST_SUITE_P(AtPointsOfThePeer, SymmetricStop, testing::ValuesIn(points_of_the_peer()),
                         name_of_point);

}  // namespace
}  // namespace amem
