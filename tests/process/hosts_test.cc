// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Memory with fabric handles that processes of another host import, on simulated hosts.
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/process/progress.h"
#include "tests/process/simulated_hosts.h"
#include "tests/process/simulated_job.h"

namespace amem {
namespace {

class Hosts : public JobTest {
 protected:
  void SetUp() override {
    if (real_gpu()) GTEST_SKIP() << "needs an IMEX channel, a simulated one";
    if (!hosts_.exist()) GTEST_SKIP() << "this user makes no network namespaces";
    setup_.environment["GMM_LOG"] = "3";
    setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(3000);
    setup_.environment["MINCCL_TIMEOUT_MS"] = milliseconds(10000);
  }
  void start(const std::vector<int>& host_of_rank) {
    hosts_.place(&setup_, host_of_rank);
    job_ = std::make_unique<jobs::Job>(setup_, static_cast<int>(host_of_rank.size()));
    job_->use_devices(first_devices(job_->size()));
    job_->make("world");
  }
  void check() { job_->all("check world" + counts()); }
  /// Not in /dev/shm, which each host has to itself.
  static std::string file(const char* name) {
    return testing::TempDir() + "/amem-hosts-" + std::to_string(getpid()) + "-" + name;
  }
  std::string log(int rank) { return (*job_)[rank].log(1 << 20); }

  /// Of everything that NCCL holds, nothing stays.
  void pause(const std::vector<int>& ranks) {
    job_->some(ranks, "pause");
    for (int rank : ranks) {
      const Totals paused = totals((*job_)[rank]);
      EXPECT_EQ(paused.resident, 0u) << rank << log(rank);
      EXPECT_GT(paused.released, 0u) << rank;
    }
  }
  void pause_and_resume(const std::vector<int>& ranks) {
    pause(ranks);
    job_->some(ranks, "resume");
    check();
  }
  /// Of rank 1, which is on the other host.
  std::string name_of_1() {
    return "process " + std::to_string((*job_)[1].pid()) + " on tray1 (10.77.0.2)";
  }
  bool try_pause(int rank) {
    (*job_)[rank].order("pause");
    return (*job_)[rank].outcome().ok;
  }
  /// How many sockets like those of amem listen in the network of a rank: NCCL's are of IPv4.
  int listeners(int rank) {
    std::ifstream table("/proc/" + std::to_string((*job_)[rank].pid()) + "/net/tcp6");
    int count = 0;
    for (std::string line; std::getline(table, line);) count += has(line, ":0000 0A ") ? 1 : 0;
    return count;
  }
  /// The collective fails in both ranks, and the logs say why.
  void expect_import_fails(const std::vector<std::string>& whys) {
    for (int rank : {0, 1}) (*job_)[rank].order("check world 17");
    for (int rank : {0, 1})
      EXPECT_TRUE(has((*job_)[rank].failure(), "mem_import")) << rank << log(rank);
    for (const std::string& why : whys)
      EXPECT_TRUE(has(log(0) + log(1), why)) << why << "\n" << log(0) << log(1);
  }

  SimulatedHosts hosts_;
  std::unique_ptr<jobs::Job> job_;
};

TEST_F(Hosts, MemoryThatTheOtherHostImportsLeavesAndReturns) {
  start({0, 1});
  check();
  EXPECT_EQ(listeners(0), 1);
  job_->all("capture world 300000");
  for (const std::vector<int>& ranks : {std::vector<int>{0, 1}, {0}, {1}}) {
    pause_and_resume(ranks);
    job_->all("replay world");
  }
}

TEST_F(Hosts, WithSeveralRanksEachPauseTogetherAndAlone) {
  start({0, 0, 1, 1});
  check();
  for (const std::vector<int>& ranks : {std::vector<int>{0, 1, 2, 3}, {0, 1}, {2, 3}, {1}, {2}})
    pause_and_resume(ranks);
}

// A call waits at the gate for a paused rank of the other host.
TEST_F(Hosts, CallWaitsForAPausedRankOfTheOtherHost) {
  start({0, 1});
  check();
  pause({1});
  (*job_)[0].order("check world 17");
  wait_for("the gate", [&] { return has(log(0), name_of_1() + " is paused"); });
  (*job_)[1].ask("resume");
  (*job_)[1].ask("check world 17");
  (*job_)[0].answer();
  pause_and_resume({0, 1});
}

TEST_F(Hosts, WithoutAKeyTheMemoryStaysAndNobodyListens) {
  hosts_.place(&setup_, {0, 1});
  setup_.environment.erase("AMEM_JOB_KEY");
  job_ = std::make_unique<jobs::Job>(setup_, 2);
  job_->use_devices({0, 1});
  job_->make("world");
  check();
  EXPECT_EQ(listeners(0), 0);
  job_->all("pause");
  for (int rank : {0, 1}) EXPECT_GT(totals((*job_)[rank]).fixed, 0u);
  job_->all("resume");
  check();
}

TEST_F(Hosts, RankWithAnotherKeyIsNamed) {
  setup_.environment_of_rank[1]["AMEM_JOB_KEY"] = "the key of some other job";
  start({0, 1});
  expect_import_fails({"it has another AMEM_JOB_KEY"});
}

TEST_F(Hosts, RankWithoutTheKeyIsNamed) {
  setup_.environment_of_rank[1]["AMEM_JOB_KEY"] = "";
  start({0, 1});
  for (int rank : {0, 1}) (*job_)[rank].order("check world 17");
  EXPECT_TRUE(has((*job_)[1].failure(), "mem_import")) << log(1);
  EXPECT_TRUE(has(log(1), "AMEM_JOB_KEY is not set in this process")) << log(1);
}

// It gives amem's handle to the driver, which does not know it.
TEST_F(Hosts, RankWithoutAmemFailsWhenItConnects) {
  setup_.environment_of_rank[1]["AMEM_ENABLE"] = "0";
  start({0, 1});
  for (int rank : {0, 1}) (*job_)[rank].order("check world 17");
  EXPECT_TRUE(has((*job_)[1].failure(), "mem_import")) << log(1);
}

TEST_F(Hosts, KeyThatCannotBeUsedIsRefusedInASentenceAndTheMemoryStays) {
  const std::string fifo = file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  setup_.environment_of_rank[0]["AMEM_JOB_KEY"] = "short";
  setup_.environment_of_rank[1]["AMEM_JOB_KEY"] = fifo;
  start({0, 1});
  check();
  job_->all("pause");
  for (int rank : {0, 1}) {
    EXPECT_GT(totals((*job_)[rank]).fixed, 0u);
  }
  EXPECT_TRUE(has(log(0), "AMEM_JOB_KEY has 5 characters, and needs 16 at least")) << log(0);
  EXPECT_TRUE(has(log(1), "AMEM_JOB_KEY: " + fifo + " is not a regular file")) << log(1);
  job_->all("resume");
  check();
  std::filesystem::remove(fifo);
}

// Its file may be on a slow disk. Exports read it no more, which hold a lock that all calls need.
TEST_F(Hosts, KeyFileIsReadBeforeAnythingIsShared) {
  const std::string path = file("key");
  std::ofstream(path) << "the key of this job alone";
  hosts_.place(&setup_, {0, 1});
  for (int rank : {0, 1}) setup_.environment_of_rank[rank]["AMEM_JOB_KEY"] = path;
  job_ = std::make_unique<jobs::Job>(setup_, 2);
  job_->use_devices({0, 1});
  job_->all("unique");
  std::filesystem::remove(path);
  job_->make("world");
  check();
  pause_and_resume({0, 1});
}

TEST_F(Hosts, RankThatIsKilledIsNotWaitedFor) {
  start({0, 1, 0});
  check();
  job_->make("survivors", {0, 2});
  job_->some({0, 2}, "check survivors 17");
  (*job_)[1].kill(SIGKILL);
  job_->some({0, 2}, "pause");
  for (int rank : {0, 2}) EXPECT_EQ(totals((*job_)[rank]).resident, 0u);
  job_->some({0, 2}, "resume");
  job_->some({0, 2}, "abort world");
  job_->some({0, 2}, "check survivors 17");
}

// A forked child that lives holds no connection of its parent; another program has none.
TEST_F(Hosts, RankThatIsKilledBesideItsChildOrRunsAnotherProgramIsNotWaitedFor) {
  start({0, 1, 1});
  check();
  const pid_t child = std::stoi((*job_)[1].ask("fork_child"));
  ASSERT_EQ(kill(child, SIGSTOP), 0);
  (*job_)[1].kill(SIGKILL);
  (*job_)[2].order("exec");
  pause({0});
  kill(child, SIGKILL);
}

TEST_F(Hosts, WithAddressesOfIpv6AlonePauseAndResume) {
  ASSERT_TRUE(hosts_.add_ipv6());
  hosts_.place(&setup_, {0, 1});
  setup_.environment["NCCL_SOCKET_IFNAME"] = "amem6";
  job_ = std::make_unique<jobs::Job>(setup_, 2);
  job_->use_devices({0, 1});
  job_->make("world");
  check();
  pause_and_resume({0, 1});
  pause({1});
  (*job_)[0].order("check world 17");
  wait_for("the gate", [&] { return has(log(0), " on tray1 (fd77::2) is paused"); });
  (*job_)[1].ask("resume");
  (*job_)[1].ask("check world 17");
  (*job_)[0].answer();
}

TEST_F(Hosts, ThatAreCutOffRefuseThePauseWithTheirName) {
  start({0, 1});
  check();
  for (const int at : {0, 1}) {
    ASSERT_TRUE(hosts_.connect(false, at));
    const std::string text = (*job_)[0].ask_failing("pause");
    EXPECT_TRUE(has(text, name_of_1())) << text;
    ASSERT_TRUE(hosts_.connect(true, at));
    wait_for("the hosts to meet again", [&] { return try_pause(0); });
    (*job_)[0].ask("resume");
    check();
  }
  pause_and_resume({0, 1});
}

// The kernel gives the connection up after 10 s.
TEST_F(Hosts, ThatAreCutOffUntilTheConnectionBreaksConnectAgain) {
  start({0, 1});
  check();
  for (const int at : {0, 1}) {
    ASSERT_TRUE(hosts_.connect(false, at));
    std::string text;
    wait_for("the connection to break", [&] {
      text = (*job_)[0].ask_failing("pause");
      EXPECT_TRUE(has(text, name_of_1()) || has(text, "10.77.0.2")) << text;
      return has(text, "cannot be reached");
    });
    ASSERT_TRUE(hosts_.connect(true, at));
    check();  // the pauses were rolled back
    wait_for("the hosts to meet again", [&] { return try_pause(0); });
    (*job_)[0].ask("resume");
    check();
  }
  pause_and_resume({0, 1});
}

// Pauses, resumes and imports repeat what broken connections have lost.
TEST_F(Hosts, WhoseConnectionsBreakAgainAndAgainLoseNothing) {
  setup_.environment["AMEM_TIMEOUT_MS"] = milliseconds(20000);
  start({0, 1, 0, 1});
  check();
  const std::string connections = "ss --no-header --ipv6 --tcp state established";
  const std::string breaking = connections + " --kill | grep .";  // those that it has closed
  ASSERT_TRUE(hosts_.on(0, connections + " | grep ."));
  if (!hosts_.on(0, breaking)) GTEST_SKIP() << "this kernel has no INET_DIAG_DESTROY";
  std::atomic<bool> is_over = false;
  std::atomic<int> breaks = 0;
  std::thread breaker([&] {
    for (int host = 0; !is_over; host = 1 - host) breaks += hosts_.on(host, breaking) ? 1 : 0;
  });
  const auto rounds = [&] {
    for (const std::vector<int>& ranks : {std::vector<int>{0, 1, 2, 3}, {0}, {1, 2}, {3}}) {
      const int before = breaks;
      pause_and_resume(ranks);
      const std::string later = "later" + std::to_string(ranks.front());
      job_->make(later);
      job_->all("check " + later + counts());
      EXPECT_GT(breaks, before) << "the connections of this round have not been broken";
    }
  };
  EXPECT_NO_THROW(rounds());
  is_over = true;
  breaker.join();
}

TEST_F(Hosts, ThatAreCutOffWhilePausedResumeWhenTheyMeet) {
  start({0, 1});
  check();
  pause({0, 1});
  ASSERT_TRUE(hosts_.connect(false));
  const std::string text = (*job_)[0].ask_failing("resume");
  EXPECT_TRUE(has(text, name_of_1())) << text;
  ASSERT_TRUE(hosts_.connect(true));
  for (int rank : {0, 1})
    wait_for("the hosts to meet again", [&] {
      (*job_)[rank].order("resume");
      return (*job_)[rank].outcome().ok;
    });
  check();
  pause_and_resume({0, 1});
}

}  // namespace
}  // namespace amem
