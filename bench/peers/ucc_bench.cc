// UCC's all-reduce under the harness, over its UCP transport. One process per rank, started by run.py with RANK and
// WORLD_SIZE in the environment; UCC's own variables choose the algorithm.
// What is timed: post, and progress until the collective is complete. The collective is initialised once per size, as
// persistent, and posted again and again: the cheapest way that UCC offers, and what training with fixed gradient
// buffers can do. UCC never gives its core away; where ranks share cores this program does after each test, as a caller
// that knows UCC would, because a call takes time slices of the scheduler otherwise.
#include <sched.h>
#include <ucc/api/ucc.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "bench/peers/harness.h"

namespace {

using tutti::peers::ControlPage;

void check(ucc_status_t status, const char* call) {
  if (status < 0) throw std::runtime_error(std::string(call) + ": " + ucc_status_string(status));
}

// UCC's out-of-band all-gather. It may be asynchronous; this one is done when it returns.
ucc_status_t all_gather(void* mine, void* all, std::size_t bytes, void* page, void** request) {
  *request = page;
  try {
    static_cast<ControlPage*>(page)->all_gather(mine, bytes, all);
    return UCC_OK;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ucc_bench: %s\n", error.what());
    return UCC_ERR_NO_MESSAGE;
  }
}
ucc_status_t all_gather_done(void*) { return UCC_OK; }

// The library, a context and a team of all ranks.
class Team {
 public:
  explicit Team(ControlPage& page) : yields_(tutti::peers::ranks_share_cores(page.ranks())) {
    ucc_lib_config_h lib_config = nullptr;
    check(ucc_lib_config_read(nullptr, nullptr, &lib_config), "ucc_lib_config_read");
    ucc_lib_params_t lib_parameters{};
    lib_parameters.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
    lib_parameters.thread_mode = UCC_THREAD_SINGLE;
    check(ucc_init(&lib_parameters, lib_config, &lib_), "ucc_init");
    ucc_lib_config_release(lib_config);

    const ucc_oob_coll_t exchange = {
        .allgather = all_gather,
        .req_test = all_gather_done,
        .req_free = all_gather_done,
        .coll_info = &page,
        .n_oob_eps = static_cast<std::uint32_t>(page.ranks()),
        .oob_ep = static_cast<std::uint32_t>(page.rank()),
    };
    ucc_context_config_h context_config = nullptr;
    check(ucc_context_config_read(lib_, nullptr, &context_config), "ucc_context_config_read");
    ucc_context_params_t context_parameters{};
    context_parameters.mask = UCC_CONTEXT_PARAM_FIELD_OOB;
    context_parameters.oob = exchange;
    check(ucc_context_create(lib_, &context_parameters, context_config, &context_), "ucc_context_create");
    ucc_context_config_release(context_config);

    ucc_team_params_t team_parameters{};
    team_parameters.mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE | UCC_TEAM_PARAM_FIELD_OOB;
    team_parameters.ep = exchange.oob_ep;
    team_parameters.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    team_parameters.oob = exchange;
    check(ucc_team_create_post(&context_, 1, &team_parameters, &team_), "ucc_team_create_post");
    wait([&] { return ucc_team_create_test(team_); }, "ucc_team_create_test");
  }

  ~Team() {  // the program ends, whatever these say
    while (ucc_team_destroy(team_) == UCC_INPROGRESS) ucc_context_progress(context_);
    ucc_context_destroy(context_);
    ucc_finalize(lib_);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  ucc_team_h handle() const { return team_; }

  void run(ucc_coll_req_h request) const {
    check(ucc_collective_post(request), "ucc_collective_post");
    wait([&] { return ucc_collective_test(request); }, "ucc_collective_test");
  }

 private:
  template <class Test>
  void wait(const Test& test, const char* call) const {
    for (ucc_status_t status = test(); status != UCC_OK;) {  // run.py ends a launch that hangs
      check(status, call);
      check(ucc_context_progress(context_), "ucc_context_progress");
      status = test();
      if (yields_ && status == UCC_INPROGRESS) sched_yield();
    }
  }

  bool yields_;
  ucc_lib_h lib_ = nullptr;
  ucc_context_h context_ = nullptr;
  ucc_team_h team_ = nullptr;
};

struct Finalize {
  void operator()(ucc_coll_req_h request) const { ucc_collective_finalize(request); }
};

std::shared_ptr<ucc_coll_req> persistent(const Team& team, const float* input, float* output, std::size_t count) {
  ucc_coll_args_t arguments{};
  arguments.mask = UCC_COLL_ARGS_FIELD_FLAGS;
  arguments.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
  arguments.coll_type = UCC_COLL_TYPE_ALLREDUCE;
  arguments.op = UCC_OP_SUM;
  arguments.src.info = {const_cast<float*>(input), count, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
  arguments.dst.info = {output, count, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
  ucc_coll_req_h request = nullptr;
  check(ucc_collective_init(&arguments, &request, team.handle()), "ucc_collective_init");
  return {request, Finalize()};
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace tutti::peers;
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::printf("%s\n", ucc_get_version_string());
    return 0;
  }
  const Settings settings = Settings::from_arguments(argc, argv);
  const int rank = std::stoi(variable("RANK"));
  if (settings.bind) bind_to_cpu(rank);
  ControlPage page(settings.page, rank, std::stoi(variable("WORLD_SIZE")));
  const Team team(page);
  const auto prepare = [&](const float* input, float* output, std::size_t count) {
    return [&team, request = persistent(team, input, output, count)] { team.run(request.get()); };
  };
  measure_sizes(settings, page, "default", Placement::out_of_place, prepare, [](std::size_t) { return std::string(); });
  page.barrier();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "ucc_bench: %s\n", error.what());
  return 1;
}
