// The launchers' environments as data: what each of them sets, and what is made of it.
#include "src/runtime/job.h"

#include <catch2/catch.hpp>
#include <map>

#include "src/runtime/job_launchers.h"
#include "src/runtime/job_slurm.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::runtime;
using Catch::Matchers::Contains;

namespace {

using Variables = std::map<std::string, std::string>;

Job job_in(const Variables& variables) {
  return job_from_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
  });
}

std::string error_in(const Variables& variables) {
  try {
    job_in(variables);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return "no error";
}

Variables with(Variables base, const Variables& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "10.0.0.4"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "r7"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
// Of srun -N3 -n5 with cyclic distribution.
const Variables kSrun{{"SLURM_STEP_ID", "0"},
                      {"SLURM_JOB_ID", "2"},
                      {"SLURM_PROCID", "3"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "0"},
                      {"SLURM_NTASKS", "5"},
                      {"SLURM_NPROCS", "5"},
                      {"SLURM_STEP_NUM_TASKS", "5"},
                      {"SLURM_STEP_NODELIST", "n[01-03]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                      {"SLURM_LAUNCH_NODE_IPADDR", "192.0.2.9"},
                      {"SLURMD_NODENAME", "n01"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                         {"OMPI_UNIVERSE_SIZE", "2"},
                         {"PMIX_RANK", "1"},
                         {"PMIX_NAMESPACE", "210632705"}};
const Variables kHydra{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_FD", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

}  // namespace

TEST_CASE("without a launcher a process is alone", "[job]") {
  const Variables variables =
      GENERATE(Variables{}, Variables{{"RANK", ""}, {"WORLD_SIZE", ""}}, Variables{{"WORLD_SIZE", "4"}},
               Variables{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}},
               // A batch script, or a shell of salloc: Slurm's variables without a step.
               Variables{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "16"}});
  const Job job = job_in(variables);
  CHECK(job.source == "alone");
  CHECK(job.rank == 0);
  CHECK(job.size == 1);
}

TEST_CASE("torchrun: the agent's store owns MASTER_PORT", "[job]") {
  const Job job = job_in(kTorchrun);
  CHECK(job.source == "torchrun");
  CHECK(job.rank == 3);
  CHECK(job.size == 8);
  CHECK(job.local_rank == 1);
  CHECK(job.local_size == 2);
  CHECK(job.meeting.hosts == std::vector<std::string>{"10.0.0.4"});
  CHECK(job.meeting.torch_store_port == 29500);
  CHECK_FALSE(job.meeting.serve);
  CHECK(job.meeting.name == "torchrun run r7 restart 2");
  CHECK_FALSE(job_in(with(kTorchrun, {{"RANK", "0"}})).meeting.serve);
  // Restarts and runs do not mix, ranks of one run do.
  CHECK(job_in(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}})).meeting.name != job.meeting.name);
  CHECK(job_in(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "r8"}})).meeting.secret != job.meeting.secret);
  CHECK(job_in(with(kTorchrun, {{"RANK", "5"}, {"LOCAL_RANK", "0"}})).meeting.secret == job.meeting.secret);
}

TEST_CASE("RANK and WORLD_SIZE without the agent's store: rank 0 listens at MASTER_PORT", "[job]") {
  const Variables elastic = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}});
  const Variables plain{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "fd00::4"}, {"MASTER_PORT", "29500"}};
  CHECK_FALSE(job_in(elastic).meeting.torch_store_port);
  CHECK_FALSE(job_in(elastic).meeting.serve);
  CHECK(job_in(with(elastic, {{"RANK", "0"}})).meeting.serve);
  const Job job = job_in(plain);
  CHECK(job.meeting.serve);
  CHECK(job.meeting.port == 29500);
  CHECK(job.meeting.hosts == std::vector<std::string>{"fd00::4"});
  CHECK_FALSE(job.local_rank);
}

TEST_CASE("tutti run: torchrun's variables, a meeting point and a secret of its own", "[job]") {
  const Job job = job_in({{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "127.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TUTTI_RENDEZVOUS", "[fd00::2]:4567"},
                          {"TUTTI_SECRET", std::string(62, '0') + "aB"}});
  CHECK(job.source == "tutti run");
  CHECK(job.meeting.hosts == std::vector<std::string>{"fd00::2"});
  CHECK(job.meeting.port == 4567);
  CHECK(job.meeting.secret[30] == std::byte{0});
  CHECK(job.meeting.secret[31] == std::byte{0xab});
}

TEST_CASE("srun: a step's variables, rank 0 on the first host of its list", "[job]") {
  const Job job = job_in(kSrun);
  CHECK(job.source == "srun");
  CHECK(job.rank == 3);
  CHECK(job.size == 5);
  CHECK(job.local_rank == 1);
  CHECK(job.local_size == 2);
  CHECK(job.meeting.hosts == std::vector<std::string>{"n01"});
  CHECK(job.meeting.port == 10000 + (2 * 101 + 0) % 20000);
  // A step with fewer tasks than the job has.
  CHECK(job_in(with(kSrun, {{"SLURM_NTASKS", "16"}, {"SLURM_NPROCS", "16"}})).size == 5);
  // Other steps and jobs meet elsewhere.
  CHECK(job_in(with(kSrun, {{"SLURM_STEP_ID", "1"}})).meeting.port == job.meeting.port + 1);
  CHECK(job_in(with(kSrun, {{"SLURM_JOB_ID", "4294967295"}})).meeting.port >= 10000);
  CHECK(job_in(with(kSrun, {{"SLURM_JOB_ID", "3"}})).meeting.secret != job.meeting.secret);
  // A user's MASTER_ADDR and MASTER_PORT count more.
  const Job given = job_in(with(kSrun, {{"MASTER_ADDR", "n03"}, {"MASTER_PORT", "9"}, {"WORLD_SIZE", "5"}}));
  CHECK(given.source == "srun");
  CHECK(given.meeting.hosts == std::vector<std::string>{"n03"});
  CHECK(given.meeting.port == 9);
}

TEST_CASE("mpirun on one host: ranks meet at a name made of the job's id", "[job]") {
  const Job open_mpi = job_in(kOpenMpi);
  CHECK(open_mpi.source == "Open MPI");
  CHECK(open_mpi.rank == 1);
  CHECK(open_mpi.size == 2);
  CHECK(open_mpi.meeting.port == 0);
  CHECK(open_mpi.meeting.hosts.empty());
  CHECK(open_mpi.meeting.name == "Open MPI 210632705");
  CHECK(job_in(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}})).meeting.serve);
  CHECK(job_in(with(kOpenMpi, {{"PMIX_NAMESPACE", "9"}})).meeting.secret != open_mpi.meeting.secret);

  const Job hydra = job_in(kHydra);
  CHECK(hydra.source == "MPICH");
  CHECK(hydra.local_rank == 1);
  CHECK(hydra.meeting.port == 0);
  CHECK(hydra.meeting.name.size() > std::string("MPICH ").size());
  const Job cray = job_in(
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"PMI_LOCAL_RANK", "2"}, {"PMI_LOCAL_SIZE", "3"}, {"PMI_JOBID", "2.0"}});
  CHECK(cray.local_size == 3);
  CHECK(cray.meeting.name == "MPICH 2.0");
  const Job mvapich = job_in({{"MV2_COMM_WORLD_RANK", "1"},
                              {"MV2_COMM_WORLD_SIZE", "2"},
                              {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                              {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
                              {"MPIRUN_ID", "5"}});
  CHECK(mvapich.source == "MVAPICH");
}

TEST_CASE("mpirun across hosts needs a meeting point, and says so", "[job]") {
  const Variables across = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  CHECK_THAT(error_in(across), Contains("OMPI_COMM_WORLD_RANK") && Contains("TUTTI_RENDEZVOUS=host:port"));
  CHECK_THAT(error_in(with(kHydra, {{"PMI_SIZE", "4"}})), Contains("TUTTI_RENDEZVOUS=host:port"));
  const Job job = job_in(with(across, {{"TUTTI_RENDEZVOUS", "head:4000"}}));
  CHECK(job.meeting.hosts == std::vector<std::string>{"head"});
  CHECK(job.meeting.port == 4000);
}

TEST_CASE("the order of precedence", "[job]") {
  Variables all = with(kSrun, kHydra);
  CHECK(job_in(all).source == "MPICH");
  all = with(all, kOpenMpi);
  CHECK(job_in(all).source == "Open MPI");
  all = with(all, kTorchrun);
  CHECK(job_in(all).source == "torchrun");
  CHECK(job_in(all).rank == 3);
  all = with(all, {{"TUTTI_RANK", "6"}, {"TUTTI_SIZE", "7"}});
  CHECK(job_in(all).rank == 6);
  CHECK(job_in(all).size == 7);
  CHECK(job_in(all).source == "TUTTI_RANK");
  // What lies below the source that counts may be nonsense left from an outer launcher.
  CHECK(job_in(with(kTorchrun, {{"SLURM_STEP_ID", "x"}, {"SLURM_PROCID", "9"}, {"SLURM_NTASKS", "2"}})).rank == 3);
}

TEST_CASE("two launchers that number the same ranks differently are an error", "[job]") {
  const Variables plain{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  CHECK_THAT(error_in(with(kOpenMpi, plain)), Contains("RANK=0 of 2") && Contains("OMPI_COMM_WORLD_RANK=1 of 2"));
  // torchrun numbers its ranks as it likes, so under it this is no contradiction.
  CHECK(job_in(with(with(kOpenMpi, plain), {{"TORCHELASTIC_RUN_ID", "r"}})).source == "torchrun");
}

TEST_CASE("nonsense is named, with its value and what is valid", "[job]") {
  struct Case {
    Variables variables;
    std::vector<std::string> says;
  };
  const Variables pair{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "1"}};
  const Case test = GENERATE_COPY(values<Case>({
      {{{"RANK", "3"}}, {"RANK is '3'", "WORLD_SIZE is not set"}},
      {with(pair, {{"RANK", "2"}}), {"RANK", "'2'", "1"}},
      {with(pair, {{"RANK", "-1"}}), {"RANK", "'-1'"}},
      {with(pair, {{"RANK", "one"}}), {"RANK", "'one'"}},
      {with(pair, {{"WORLD_SIZE", "0"}}), {"WORLD_SIZE", "'0'"}},
      {with(pair, {{"WORLD_SIZE", "99999999999999999999"}}), {"WORLD_SIZE", "99999999999999999999"}},
      {with(pair, {{"LOCAL_RANK", "2"}}), {"LOCAL_RANK", "'2'"}},
      {with(pair, {{"LOCAL_WORLD_SIZE", "3"}}), {"LOCAL_WORLD_SIZE", "'3'"}},
      {with(pair, {{"MASTER_PORT", "70000"}}), {"MASTER_PORT", "'70000'", "65535"}},
      {with(pair, {{"MASTER_PORT", ""}}), {"MASTER_PORT is not"}},
      {with(pair, {{"MASTER_ADDR", ""}}), {"MASTER_ADDR is not set"}},
      {with(pair, {{"TORCHELASTIC_USE_AGENT_STORE", "maybe"}}), {"TORCHELASTIC_USE_AGENT_STORE", "'maybe'", "True"}},
      {with(pair, {{"TUTTI_RENDEZVOUS", "host"}}), {"TUTTI_RENDEZVOUS", "'host'", "host:port"}},
      {with(pair, {{"TUTTI_RENDEZVOUS", "::1:5"}}), {"TUTTI_RENDEZVOUS", "'::1:5'", "[IPv6 address]:port"}},
      {with(pair, {{"TUTTI_RENDEZVOUS", "h:0"}}), {"TUTTI_RENDEZVOUS", "'h:0'"}},
      {with(pair, {{"TUTTI_RENDEZVOUS", "[::1]:99999"}}), {"TUTTI_RENDEZVOUS"}},
      {with(pair, {{"TUTTI_SECRET", "abc"}}), {"TUTTI_SECRET has 3 characters", "64 hexadecimal digits"}},
      {with(pair, {{"TUTTI_SECRET", std::string(64, 'g')}}), {"TUTTI_SECRET", "64 hexadecimal digits"}},
      {{{"TUTTI_RANK", "0"}}, {"TUTTI_RANK is '0'", "TUTTI_SIZE is not set"}},
      {{{"TUTTI_SIZE", "2"}}, {"TUTTI_SIZE is '2'", "TUTTI_RANK is not set"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "2"}},
       {"TUTTI_RANK is '0' of 2 ranks, and TUTTI_RANK does not say whether they share this host",
        "TUTTI_RENDEZVOUS=host:port"}},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_SIZE", "4"}, {"TUTTI_LOCAL_SIZE", "2"}},
       {"of 4 ranks, 2 of them on this host, and TUTTI_RANK does not say where they meet"}},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE is not set"}},
      {{{"PMI_RANK", "1"}}, {"PMI_RANK", "PMI_SIZE is not set"}},
      {{{"PMIX_RANK", "1"}}, {"PMIX_RANK is '1'", "TUTTI_SIZE"}},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}}, {"SLURM_PROCID", "SLURM_NTASKS"}},
      {with(kSrun, {{"SLURM_STEP_NODELIST", "x[1-2]-ib0"}}), {"SLURM_STEP_NODELIST is 'x[1-2]-ib0'"}},
  }));
  const std::string error = error_in(test.variables);
  for (const std::string& part : test.says) CHECK_THAT(error, Contains(part));
}

TEST_CASE("a secret never appears in a message", "[job]") {
  const std::string secret = "5ecret5ecret5ecret";
  CHECK_THAT(error_in(with(kTorchrun, {{"TUTTI_SECRET", secret}})), !Contains(secret));
}

TEST_CASE("Slurm's host lists", "[job]") {
  CHECK(first_host("V", "tux[1-3]") == "tux1");
  CHECK(first_host("V", "n[01-03,07,10-12]") == "n01");
  CHECK(first_host("V", "rack[0-1]n[00-01]") == "rack0n00");
  CHECK(first_host("V", "a1,b[2-3],c") == "a1");
  CHECK(first_host("V", "node[008-011]") == "node008");
  CHECK(first_host("V", "n[7,9]") == "n7");
  CHECK(first_host("V", "login.example.org") == "login.example.org");
  for (const char* bad : {"", ",", "n[", "n[]", "n[1-", "n[1-2", "n[1-2]x", "n[2-1]", "n[a]", "a,,b", "a,", "[1-2]",
                          "n[1]]", "a b", "n[12345678901]"})
    CHECK_THROWS_AS(first_host("V", bad), Error);
}

TEST_CASE("Slurm's tasks per node", "[job]") {
  CHECK(tasks_per_node("V", "2(x2),1") == std::vector<int>{2, 2, 1});
  CHECK(tasks_per_node("V", "4") == std::vector<int>{4});
  for (const char* bad : {"", "x", "2(x", "2(x2", "2(2)", "2,", "1(x99999999)"})
    CHECK_THROWS_AS(tasks_per_node("V", bad), Error);
}

TEST_CASE("a unique id survives its text, and other text is refused", "[job]") {
  UniqueId id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i) id.bytes[i] = static_cast<std::byte>(i * 7);
  CHECK(UniqueId::from_hex(id.to_hex()).bytes == id.bytes);
  CHECK_THROWS_WITH(UniqueId::from_hex("00"), Contains("256") && Contains("2 characters"));
  CHECK_THROWS_WITH(UniqueId::from_hex(std::string(255, '0') + "g"), Contains("character 256"));
  CHECK_THROWS_WITH(job_from_unique_id(UniqueId{}, 0, 1), Contains("not a unique id"));
  const UniqueId real = UniqueId::create();
  CHECK_THROWS_WITH(job_from_unique_id(real, 2, 2), Contains("rank 2 of 2"));
  CHECK_THROWS_WITH(job_from_unique_id(real, 0, 0), Contains("number of ranks is 0"));
  CHECK(job_from_unique_id(real, 1, 2).meeting.port > 0);
}
