// --hosts, with a remote shell that runs the command here, as ssh would there: joined words, through a shell.
#include <signal.h>
#include <stdlib.h>

#include <catch2/catch.hpp>

#include "tests/tools/run_test_support.h"

using namespace run_test;
using Catch::Contains;

namespace {

// Makes the fake remote shell, which notes its words in "ssh.log" and cannot reach the host "gone".
void use_fake_shell(const Sandbox& sandbox) {
  const std::string shell_path =
      sandbox.write("fake-ssh",
                    "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '" + sandbox.path("ssh.log") +
                        "'\n[ \"$1\" = -q ] && shift\n[ \"$1\" != gone ] || exit 255\nFAKE_HOST=$1; export FAKE_HOST; "
                        "shift\nexec sh -c \"$*\"\n",
                    true);
  setenv("TUTTI_SSH", (shell_path + " -q").c_str(), 1);
}

std::vector<std::string> on_hosts(const std::string& hosts, const std::string& script,
                                  std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"run", "--hosts", hosts};
  arguments.insert(arguments.end(), more.begin(), more.end());
  for (const std::string& word : {std::string("--"), std::string("sh"), std::string("-c"), script})
    arguments.push_back(word);
  return arguments;
}

}  // namespace

TEST_CASE("ranks on hosts get their numbers, the directory and the settings, and the secret in no command line") {
  const Sandbox sandbox;
  use_fake_shell(sandbox);
  const std::string value = "it's \"q\" $HOME `x` \\ *";
  const Result result = run(
      sandbox,
      on_hosts("a:2,me@b:1",
               "{ echo \"$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_ADDR "
               "$FAKE_HOST $PWD\"; echo \"$X\"; echo $TUTTI_SECRET; echo $TUTTI_RENDEZVOUS; cat; } > seen-$RANK",
               {"--env", "X=" + value}),
      "not for remote ranks");
  CHECK(result.err.empty());
  REQUIRE(result.status == 0);
  const std::vector<std::string> expected{"0/3 0/2 0/2 a a ", "1/3 1/2 0/2 a a ", "2/3 0/1 1/2 a me@b "};
  const std::string directory = std::filesystem::canonical(sandbox.path()).string();
  std::string secret;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const auto seen = lines_of(sandbox.read("seen-" + std::to_string(rank)));
    REQUIRE(seen.size() == 4);
    CHECK(seen[0] == expected[rank] + directory);
    CHECK(seen[1] == value);
    CHECK(seen[2].size() == 64);
    CHECK(seen[3].substr(0, 2) == "a:");
    if (rank == 0) secret = seen[2];
    CHECK(seen[2] == secret);
  }
  const std::string log = sandbox.read("ssh.log");
  CHECK_THAT(log, Contains("-q a sh -c") && Contains("-q me@b sh -c"));
  CHECK(log.find(secret) == std::string::npos);
}

TEST_CASE("arguments reach remote programs unchanged") {
  const Sandbox sandbox;
  use_fake_shell(sandbox);
  const Result result = run(sandbox, {"run", "--hosts", "a", "--no-prefix", "--", "printf", "<%s>", "a b", "", "c'd",
                                      "$X", "\\n", "--", "e\nf"});
  CHECK(result.out == "<a b><><c'd><$X><\\n><--><e\nf>");
  CHECK(result.status == 0);
}

TEST_CASE("a remote rank's failure is named with its host") {
  const Sandbox sandbox;
  use_fake_shell(sandbox);
  const Result failed = run(sandbox, on_hosts("a:2,b:2", "[ $RANK != 3 ] || exit 6; exec sleep 300"));
  CHECK(failed.status == 6);
  CHECK_THAT(failed.err, Contains("tutti run: rank 3 on host b exited with status 6; ending ranks 0-2\n"));
  const Result killed = run(sandbox, on_hosts("a:2,b:2", "[ $RANK != 2 ] || kill -9 $$; exec sleep 300"));
  CHECK(killed.status == 137);
  CHECK_THAT(killed.err, Contains("rank 2 on host b exited with status 137 (as after signal 9 (Killed))"));
  const Result unreachable = run(sandbox, on_hosts("a:1,gone:1", "exec sleep 300"));
  CHECK(unreachable.status == 255);
  CHECK_THAT(unreachable.err, Contains("rank 1 on host gone exited with status 255 (the remote shell could not reach"));
  CHECK(sandbox.wait_for_no_process());
}

TEST_CASE("signals and timeouts reach remote programs, and nothing is left") {
  const Sandbox sandbox;
  use_fake_shell(sandbox);
  SECTION("a signal to the launcher") {
    const pid_t launcher = sandbox.start(
        on_hosts("a:2,b:1", "trap ': > got-$RANK; exit 0' TERM; : > up-$RANK; while :; do sleep 0.01; done"));
    for (const char* name : {"up-0", "up-1", "up-2"}) REQUIRE(sandbox.wait_for_file(name));
    kill(launcher, SIGTERM);
    CHECK(wait_for(launcher) == 143);
    for (const char* name : {"got-0", "got-1", "got-2"}) CHECK(sandbox.exists(name));
  }
  SECTION("a timeout with ranks that ignore SIGTERM") {
    const Result result = run(sandbox, on_hosts("a:2", "trap '' TERM; while :; do sleep 0.01; done",
                                                {"--timeout", "300ms", "--grace", "200ms"}));
    CHECK(result.status == 124);
  }
  SECTION("kill -9 of the launcher") {
    const pid_t launcher = sandbox.start(
        on_hosts("a:2", "trap '' TERM; : > up-$RANK; while :; do sleep 0.01; done", {"--grace", "200ms"}));
    for (const char* name : {"up-0", "up-1"}) REQUIRE(sandbox.wait_for_file(name));
    kill(launcher, SIGKILL);
    CHECK(wait_for(launcher) == 137);
  }
  CHECK(sandbox.wait_for_no_process());
}

TEST_CASE("wrong host lists name the value and what is valid") {
  const Sandbox sandbox;
  for (const std::string hosts : {"a:0", "a:x", ",a", "a,", "a:1,a:2", ":2", "-o:2", "localhost:2,b:2"}) {
    const Result result = run(sandbox, on_hosts(hosts, "true"));
    INFO(hosts << ": " << result.err);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, Contains("valid: ") || Contains("name it as the others reach it"));
  }
  CHECK_THAT(run(sandbox, on_hosts("a:2", "true", {"-n", "3"})).err, Contains("-n is '3', but --hosts has room for 2"));
  CHECK_THAT(run(sandbox, on_hosts("a:2", "true", {"--bind"})).err, Contains("cannot be combined with --hosts"));
}

TEST_CASE("with -n, it takes the first slots of the hosts") {
  const Sandbox sandbox;
  use_fake_shell(sandbox);
  REQUIRE(run(sandbox,
              on_hosts("a:2,b:4,c:1", "echo $FAKE_HOST $LOCAL_WORLD_SIZE $GROUP_WORLD_SIZE > at-$RANK", {"-n", "3"}))
              .status == 0);
  CHECK(sandbox.read("at-1") == "a 2 2\n");
  CHECK(sandbox.read("at-2") == "b 1 2\n");
}
