// How jobs end: exit statuses, who is named, and that nothing is left behind.
#include <signal.h>

#include <catch2/catch.hpp>

#include "tests/tools/run_test_support.h"

using namespace run_test;
using Catch::Contains;

namespace {

// Every rank reports itself and then waits, with a child in its group and one that has left it.
const std::string kLingering =
    "sleep 300 & setsid sleep 300 & echo $$ > pid-$RANK.new; mv pid-$RANK.new pid-$RANK; wait; sleep 300";

void wait_for_ranks(const Sandbox& sandbox, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) REQUIRE(sandbox.wait_for_file("pid-" + std::to_string(rank)));
}

}  // namespace

TEST_CASE("a job whose ranks all succeed succeeds in silence") {
  const Sandbox sandbox;
  const Result result = run(sandbox, {"run", "-n", "4", "--", "true"});
  CHECK(result.status == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
}

TEST_CASE("a rank that fails is named, its status is the job's, and the others end") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(3, "[ $RANK != 1 ] || exit 3; sleep 300"));
  CHECK(result.status == 3);
  CHECK(result.err == "tutti run: rank 1 exited with status 3; ending ranks 0,2\n");
  CHECK(sandbox.wait_for_no_process());
}

TEST_CASE("a rank that is killed is named with its pid and the signal") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(3, "echo $$ > pid-$RANK; [ $RANK != 2 ] || kill -9 $$; sleep 300"));
  CHECK(result.status == 137);
  const std::string pid = lines_of(sandbox.read("pid-2")).at(0);
  CHECK(result.err == "tutti run: rank 2 (pid " + pid + ") was killed by signal 9 (Killed); ending ranks 0-1\n");
}

TEST_CASE("the first failure counts, not those that follow from it") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(2,
                                           "trap 'exit 7' TERM; if [ $RANK = 1 ]; then while [ ! -e ready ]; do sleep "
                                           "0.01; done; exit 5; fi; : > ready; while :; do sleep 0.01; done"));
  CHECK(result.status == 5);
  CHECK_THAT(result.err, Contains("tutti run: rank 1 exited with status 5; ending rank 0\n"));
  CHECK_THAT(result.err, !Contains("status 7"));
}

TEST_CASE("a job that takes too long ends with status 124 and the ranks still running") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(4, "[ $RANK = 1 ] || sleep 300", {"--timeout", "1500ms"}));
  CHECK(result.status == 124);
  CHECK(result.err == "tutti run: timed out after 1.5 s; still running: ranks 0,2-3\n");
  CHECK(sandbox.wait_for_no_process());
}

TEST_CASE("ranks that ignore SIGTERM are killed after the grace") {
  const Sandbox sandbox;
  const Result result =
      run(sandbox, shell(2,
                         "trap '' TERM; : > set-$RANK; while [ ! -e set-0 ] || [ ! -e set-1 ]; do sleep 0.01; done; "
                         "[ $RANK = 0 ] || exit 9; sleep 300",
                         {"--grace", "200ms"}));
  CHECK(result.status == 9);
  CHECK_THAT(result.err, Contains("killing rank 0 (no end within 0.2 s)"));
  CHECK(sandbox.wait_for_no_process());
}

TEST_CASE("a program that cannot be executed is named, with the shells' status") {
  const Sandbox sandbox;
  const Result missing = run(sandbox, {"run", "-n", "2", "--", "no-such-program"});
  CHECK(missing.status == 127);
  CHECK(missing.err ==
        "tutti run: cannot run 'no-such-program': No such file or directory (errno 2); it is not in PATH\n");
  const Result refused = run(sandbox, {"run", "-n", "2", "--", sandbox.path("in")});
  CHECK(refused.status == 126);
  CHECK_THAT(refused.err, Contains("cannot run '" + sandbox.path("in") + "': Permission denied"));
}

TEST_CASE("wrong command lines name the value and what is valid, with status 2") {
  const Sandbox sandbox;
  for (const std::string ranks : {"0", "-1", "two", "1.5", "5000"}) {
    const Result result = run(sandbox, {"run", "-n", ranks, "--", "true"});
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("-n is '" + ranks + "'; valid: a whole number from 1 to 4096"));
  }
  const auto complaint = [&](const std::vector<std::string>& arguments) {
    const Result result = run(sandbox, arguments);
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(complaint({"run", "-n", "2"}), Contains("PROGRAM") && Contains("required"));
  CHECK_THAT(complaint({"run", "-n", "2", "--"}), Contains("PROGRAM") && Contains("required"));
  CHECK_THAT(complaint({"run", "--", "true"}), Contains("-n is missing"));
  CHECK_THAT(complaint({"run", "-n", "2", "--frob", "--", "true"}), Contains("'--frob'") && Contains("--timeout"));
  CHECK_THAT(complaint({"run", "-n", "1", "--timeout", "soon", "--", "true"}), Contains("--timeout is 'soon'"));
  CHECK_THAT(complaint({"run", "-n", "1", "--timeout", "0", "--", "true"}), Contains("--timeout is '0'"));
  CHECK_THAT(complaint({"run", "-n", "1", "--env", "X", "--", "true"}), Contains("--env is 'X'; valid: NAME=VALUE"));
  CHECK_THAT(complaint({"run", "-n", "1", "--env", "RANK=5", "--", "true"}), Contains("--env sets RANK"));
  CHECK_THAT(complaint({"run", "-n", "1", "--master-port", "0", "--", "true"}), Contains("--master-port is '0'"));
  CHECK_THAT(complaint({"runn"}), Contains("unknown command 'runn'; valid: ") && Contains("run") && Contains("topo"));
  CHECK_THAT(complaint({"--frob"}), Contains("unknown flag '--frob'; valid: ") && Contains("--version"));
}

TEST_CASE("a signal to the launcher reaches the ranks and ends the job without leftovers") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const Sandbox sandbox;
    const pid_t launcher = sandbox.start(
        shell(3, "trap ': > got-$RANK; kill $p; exit 0' INT TERM HUP; setsid sleep 300 & p=$!; : > pid-$RANK; wait"));
    wait_for_ranks(sandbox, 3);
    kill(launcher, number);
    CHECK(wait_for(launcher) == 128 + number);
    CHECK(sandbox.processes().empty());
    for (const std::string rank : {"0", "1", "2"}) CHECK(sandbox.exists("got-" + rank));
    CHECK_THAT(sandbox.read("err"), Contains("got signal " + std::to_string(number)));
  }
}

TEST_CASE("SIGTERM to the launcher ends grandchildren too, those that left their process group among them") {
  const Sandbox sandbox;
  const pid_t launcher = sandbox.start(shell(3, kLingering));
  wait_for_ranks(sandbox, 3);
  kill(launcher, SIGTERM);
  CHECK(wait_for(launcher) == 143);
  CHECK(sandbox.processes().empty());
}

TEST_CASE("kill -9 of the launcher leaves no process") {
  const Sandbox sandbox;
  const pid_t launcher = sandbox.start(shell(3, kLingering));
  wait_for_ranks(sandbox, 3);
  CHECK(sandbox.processes().size() >= 11);  // launcher, guard, three ranks with two children each
  kill(launcher, SIGKILL);
  CHECK(wait_for(launcher) == 137);
  CHECK(sandbox.wait_for_no_process());
}

TEST_CASE("the second SIGINT kills") {
  const Sandbox sandbox;
  const pid_t launcher = sandbox.start(
      shell(2, "trap ': > got-$RANK' INT; : > pid-$RANK; while :; do sleep 0.01; done", {"--grace", "1h"}));
  wait_for_ranks(sandbox, 2);
  kill(launcher, SIGINT);
  REQUIRE(sandbox.wait_for_file("got-0"));
  REQUIRE(sandbox.wait_for_file("got-1"));
  kill(launcher, SIGINT);
  CHECK(wait_for(launcher) == 130);
  CHECK_THAT(sandbox.read("err"), Contains("killing ranks 0-1 (a second SIGINT)"));
  CHECK(sandbox.processes().empty());
}

TEST_CASE("a rank killed from outside ends the job and is named") {
  const Sandbox sandbox;
  const pid_t launcher = sandbox.start(shell(3, kLingering));
  wait_for_ranks(sandbox, 3);
  const std::string pid = lines_of(sandbox.read("pid-1")).at(0);
  kill(std::stoi(pid), SIGKILL);
  CHECK(wait_for(launcher) == 137);
  CHECK_THAT(sandbox.read("err"), Contains("rank 1 (pid " + pid + ") was killed by signal 9 (Killed)"));
  CHECK(sandbox.processes().empty());
}

TEST_CASE("what ranks leave running after a good end is ended too") {
  const Sandbox sandbox;
  const Result result = run(sandbox, shell(2, "sleep 300 & setsid sleep 300 & exit 0"));
  CHECK(result.status == 0);
  CHECK(sandbox.processes().empty());
}
