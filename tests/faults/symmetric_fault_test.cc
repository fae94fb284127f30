// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Symmetric memory of amem: every driver call of a call on it fails, and a rank is killed or
// stopped at every point of a pause and of a resume.
#include <signal.h>

#include <functional>
#include <set>

#include "tests/faults/fault_test.h"
#include "tests/faults/points.h"
#include "tests/process/meeting.h"

namespace amem {
namespace {

/// The driver functions that amem and libamem_symmetric.so call.
std::set<std::string> driver_calls() {
  std::set<std::string> all = simulated_driver_functions();
  for (std::string name : {
#define AMEM_SYMMETRIC_FUNCTION(symbol, parameters) std::string(#symbol),
#include "symmetric/driver_functions.def"
#undef AMEM_SYMMETRIC_FUNCTION
       }) {
    if (name.ends_with("_v2")) name.resize(name.size() - 3);
    all.insert(name);
  }
  return all;
}

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
  for (const std::string& function : driver_calls())
    for (int n = 1; n <= 20; ++n) {
      SCOPED_TRACE(function + " fails at call " + std::to_string(n));
      const std::string name = "h" + std::to_string(++meetings);
      const long before = std::stol(job[faulty].ask("calls_of " + function));
      job[faulty].ask("driver_fault " + function + ":" + std::to_string(n) + "=2");
      job[0].order(meeting_.order(name, 0, 2));
      job[1].order(meeting_.order(name, 1, 2));
      const jobs::RankProcess::Outcome own = job[faulty].outcome(),
                                       others = job[1 - faulty].outcome();
      job[faulty].ask("driver_fault");
      const long after = std::stol(job[faulty].ask("calls_of " + function));
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

/// Orders of rank 0 in which no other rank takes part: each driver call of them fails. What is no
/// error has done all of its work.
class SymmetricOrderFault : public SymmetricFault {
 protected:
  using Step = std::function<void()>;

  /// Rank 0 has a handle `alone` of a group of its own.
  std::unique_ptr<jobs::Job> job() {
    auto job = std::make_unique<jobs::Job>(setup_, 2);
    job->use_devices({0, 1});
    job->all("sym_malloc b 65536");
    meeting_.meet(*job, "alone", {0});
    (*job)[0].ask("sym_collectives alone 4096");
    return job;
  }
  /// The order between two steps, once for each call that can fail. After an error it is repeated;
  /// if the failed call was one on the handle, the handle has failed, and a new one works.
  void sweep(jobs::RankProcess& rank, const std::string& order, const Step& before = nullptr,
             const Step& after = nullptr) {
    const size_t used = used_bytes(rank), objects = totals(rank).objects;
    for (const std::string& function : driver_calls()) {
      if (function == "cuStreamSynchronize") continue;  // the rank's own call
      for (long n = 1; fail_call(rank, order, function, n, before, after); ++n)
        ASSERT_FALSE(HasFailure());
      ASSERT_EQ(used_bytes(rank), used) << function;
      ASSERT_EQ(totals(rank).objects, objects) << function;
    }
    EXPECT_GE(refused_, 1);
  }
  int refused_ = 0;

 private:
  void make_new_handle(jobs::RankProcess& rank, const std::string& text) {
    EXPECT_NE(text.find("it can only be destroyed"), std::string::npos) << text;
    rank.ask("sym_destroy alone");
    const std::string place = meeting_.folder().string() + "/new" + std::to_string(refused_);
    rank.ask("sym_meet alone b " + place + " 0 1");
  }
  /// The order, while the n-th call fails. False if it makes fewer calls of the function.
  bool fail_call(jobs::RankProcess& rank, const std::string& order, const std::string& function,
                 long n, const Step& before, const Step& after) {
    SCOPED_TRACE(function + " fails at call " + std::to_string(n));
    const auto calls = [&] { return std::stol(rank.ask("calls_of " + function)); };
    if (before != nullptr) before();
    const long earlier = calls();
    rank.ask("driver_fault " + function + ":" + std::to_string(n) + "=2");
    rank.order(order);
    const jobs::RankProcess::Outcome outcome = rank.outcome();
    rank.ask("driver_fault");
    const bool has_failed = calls() - earlier >= n;
    if (!outcome.ok) {
      EXPECT_TRUE(has_failed) << outcome.text;
      ++refused_;
      rank.order(order);
      const jobs::RankProcess::Outcome again = rank.outcome();
      if (!again.ok) {
        make_new_handle(rank, again.text);
        if (before != nullptr) before();
        rank.ask(order);
      }
    } else if (has_failed) {
      // What is only noted or asked for: the context, and whether memory can be used by a NIC.
      EXPECT_TRUE(function == "cuCtxGetCurrent" || function == "cuDeviceGetAttribute");
    }
    if (after != nullptr) after();
    return has_failed;
  }
};

TEST_F(SymmetricOrderFault, OfAnAllocationLeavesNothing) {
  const auto job = this->job();
  sweep((*job)[0], "sym_malloc x 65536", nullptr, [&] { (*job)[0].ask("sym_free x"); });
  EXPECT_GE(refused_, 5);
}

TEST_F(SymmetricOrderFault, OfAFreeCanBeRepeated) {
  const auto job = this->job();
  sweep((*job)[0], "sym_free x", [&] { (*job)[0].ask("sym_malloc x 65536"); });
  EXPECT_GE(refused_, 3);
}

TEST_F(SymmetricOrderFault, OfADestructionCanBeRepeated) {
  int meetings = 0;
  for (const bool multicast : {false, true}) {
    if (multicast) use_multicast();
    const auto job = this->job();
    const auto meet_again = [&] {
      const std::string place = meeting_.folder().string() + "/" + std::to_string(++meetings);
      for (int rank : {0, 1})
        (*job)[rank].order("sym_meet h b " + place + " " + std::to_string(rank) + " 2");
      for (int rank : {0, 1}) (*job)[rank].answer();
    };
    sweep((*job)[0], "sym_destroy h", meet_again, [&] { (*job)[1].ask("sym_destroy h"); });
    EXPECT_GE(refused_, 5);
  }
}

TEST_F(SymmetricOrderFault, OfSynchronizationHasNoEffect) {
  const auto job = this->job();
  jobs::RankProcess& rank = (*job)[0];
  const Step put = [&] { rank.ask("sym_put alone 0 0 20000"); };
  const Step wait = [&] { rank.ask("sym_wait alone 0 0 20000"); };
  sweep(rank, "sym_barrier alone 0 20000");
  sweep(rank, "sym_put alone 0 0 20000", nullptr, wait);
  sweep(rank, "sym_wait alone 0 0 20000", put);
  sweep(rank, "sym_write alone 0 7");
  sweep(rank, "sym_pad alone clear");
}

TEST_F(SymmetricOrderFault, OfCollectivesIsAnErrorOfTheCall) {
  const auto job = this->job();
  sweep((*job)[0], "sym_collectives alone 4096");
  EXPECT_GE(refused_, 30);
  (*job)[0].ask("sym_collectives alone 16 8192");
}

// A launch that fails on one rank is an error there, also of later calls: it may be one of several
// that belong together. The other rank ends at its timeout.
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
  const std::string later = job[0].ask_failing("sym_barrier h 0 200");
  EXPECT_TRUE(has(later, "an earlier call on the handle has failed (cuLaunchKernel")) << later;
  job.all("sym_destroy h");
  meet(job, "again");
  job.all("sym_collectives again 4096");
}

struct Death {
  bool multicast;
  int victim;  ///< the rank
};
/// In place of its bytes, in lists of tests.
void PrintTo(const Death& death, std::ostream* out) { *out << death.victim; }

/// A rank is killed before or after each exchange of a rendezvous: the others neither wait, also
/// not in a multicast call, nor keep anything.
class RendezvousDeath : public SymmetricFault, public testing::WithParamInterface<Death> {};

TEST_P(RendezvousDeath, EndsTheRendezvousOfTheOthers) {
  const auto [multicast, victim] = GetParam();
  if (multicast) use_multicast();
  const int exchanges = multicast ? 5 : 2;
  const std::vector<int> survivors{victim == 0 ? 1 : 0, 2};
  for (int moment = 0; moment < 2 * exchanges; ++moment) {
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
      EXPECT_EQ(outcome.ok, moment == 2 * exchanges - 1) << outcome.text;
      if (!outcome.ok) continue;
      const std::string failed = job[rank].ask_failing("sym_barrier " + name + " 0 20000");
      EXPECT_TRUE(has(failed, "has ended")) << failed;
      job[rank].ask("sym_destroy " + name);
    }
    job[victim].wait_until_ended();
    meeting_.meet(job, name + "again", survivors);
    for (const int rank : survivors)
      EXPECT_EQ(job[rank].ask("sym_multicast " + name + "again"), multicast ? "1" : "0");
    job.some(survivors, "sym_collectives " + name + "again 4096 100000");
    for (const std::string& order : {"sym_destroy " + name + "again", std::string("sym_free b")})
      job.some(survivors, order);
    for (const int rank : survivors) {
      EXPECT_EQ(totals(job[rank]).objects, 0u);
      EXPECT_EQ(totals(job[rank]).imports, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfRank, RendezvousDeath,
                         testing::Values(Death{false, 0}, Death{false, 1}, Death{true, 0},
                                         Death{true, 1}),
                         [](const auto& death) {
                           return (death.param.multicast ? "WithMulticast" : "Without") +
                                  std::to_string(death.param.victim);
                         });

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
