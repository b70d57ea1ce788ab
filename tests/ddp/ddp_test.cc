#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/ddp/thread_group.h"
#include "tutti/communicator.h"
#include "tutti/ddp.h"

using Catch::Contains;
using tutti::Ddp;
using tutti::DdpOptions;
using tutti::Parameter;
using tutti::test::ThreadGroups;

namespace {

std::string name_of(std::size_t p) { return std::string("p").append(std::to_string(p)); }

// Some tensors of float32 and one of float64, all values small integers so that sums are exact.
struct Model {
  std::vector<std::vector<float>> data, gradient;
  std::vector<double> wide_data, wide_gradient;

  explicit Model(std::vector<std::size_t> counts, int rank = 0) {
    for (std::size_t p = 0; p < counts.size(); ++p) {
      data.emplace_back(counts[p], static_cast<float>(100 * rank) + static_cast<float>(p));
      gradient.emplace_back(counts[p]);
    }
    wide_data.assign(5, 0.1 + rank);
    wide_gradient.assign(5, 0);
  }
  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (std::size_t p = 0; p < data.size(); ++p)
      all.push_back({name_of(p), data[p].data(), gradient[p].data(), {data[p].size()}});
    all.push_back({"wide", wide_data.data(), wide_gradient.data(), {5}, tutti::DataType::float64});
    return all;
  }
  std::size_t size() const { return data.size() + 1; }
  void fill(float value) {
    for (std::size_t p = 0; p < data.size(); ++p)
      for (std::size_t i = 0; i < gradient[p].size(); ++i)
        gradient[p][i] = value + static_cast<float>(p) + static_cast<float>(i % 4);
    for (double& g : wide_gradient) g = value;
  }
};

const std::vector<std::size_t> kCounts = {3, 0, 17, 256, 1, 40};

std::vector<std::string> none(int ranks) { return std::vector<std::string>(static_cast<std::size_t>(ranks)); }

}  // namespace

TEST_CASE("gradients become the mean over all samples, for any numbers of samples and any order of readiness") {
  const auto ranks = GENERATE(1, 2, 3, 5);
  const auto bucket = GENERATE(std::size_t{0}, std::size_t{100}, std::size_t{1} << 20);
  CAPTURE(ranks, bucket);
  ThreadGroups all(ranks);
  CHECK(all.run([&](int rank, auto group) {
    Model model(kCounts, rank);
    Ddp ddp(group, model.parameters(), {.first_bucket_bytes = bucket, .bucket_bytes = bucket});
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int step = 0; step < 4; ++step) {
      // rank r has (r + step) % 3 samples, and a mean gradient of 3 + r
      std::size_t total = 0;
      double weighted = 0;
      for (int r = 0; r < ranks; ++r) {
        total += static_cast<std::size_t>((r + step) % 3);
        weighted += (r + step) % 3 * (3.0 + r);
      }
      const auto mine = static_cast<std::size_t>((rank + step) % 3);
      model.fill(mine == 0 ? NAN : static_cast<float>(3 + rank));
      ddp.begin_backward(mine);
      std::vector<std::size_t> order(model.size());
      for (std::size_t p = 0; p < order.size(); ++p) order[p] = p;
      std::shuffle(order.begin(), order.end(), random);
      if (mine > 0 || step == 0)
        for (const std::size_t p : order) ddp.gradient_ready(p);
      if (ddp.finish() != total) throw std::runtime_error("wrong number of samples");
      const double mean = total == 0 ? 0 : weighted / static_cast<double>(total);
      for (std::size_t p = 0; p < kCounts.size(); ++p)
        for (std::size_t i = 0; i < kCounts[p]; ++i) {
          const double extra = total == 0 ? 0 : static_cast<double>(p) + static_cast<double>(i % 4);
          if (std::abs(model.gradient[p][i] - (mean + extra)) > 1e-5) throw std::runtime_error("wrong mean");
        }
      for (const double g : model.wide_gradient)
        if (std::abs(g - mean) > 1e-14) throw std::runtime_error("wrong mean in float64");
    }
  }) == none(ranks));
  for (int r = 1; r < ranks; ++r) CHECK(all.calls(r) == all.calls(0));
}

TEST_CASE("all ranks start with the values of rank 0, also of what has no gradient") {
  ThreadGroups all(3);
  CHECK(all.run([](int rank, auto group) {
    Model model({4, 2}, rank);
    std::vector<float> running_mean(3, static_cast<float>(rank));
    auto parameters = model.parameters();
    parameters.push_back({"running_mean", running_mean.data(), nullptr, {3}});
    Ddp ddp(group, parameters);
    if (model.data[1] != std::vector<float>(2, 1.0f)) throw std::runtime_error("not rank 0's");
    if (model.wide_data != std::vector<double>(5, 0.1)) throw std::runtime_error("not rank 0's");
    if (running_mean != std::vector<float>(3, 0.0f)) throw std::runtime_error("not rank 0's");
    ddp.assert_in_sync();
  }) == none(3));
}

TEST_CASE("buckets are filled from the last parameter, the first of them is small") {
  ThreadGroups all(1);
  std::vector<float> memory(100);
  std::vector<Parameter> parameters;
  for (const std::size_t count : {10u, 30u, 20u, 5u, 5u, 1u})
    parameters.push_back({name_of(parameters.size()), memory.data(), memory.data(), {count}});
  const Ddp ddp(all.group(0), parameters, {.first_bucket_bytes = 4 * 10, .bucket_bytes = 4 * 50});
  CHECK(ddp.buckets() == std::vector<std::vector<std::size_t>>{{5, 4}, {3, 2}, {1, 0}});
}

TEST_CASE("a bucket's sum starts while the backward pass runs, in index order, whatever is ready first") {
  ThreadGroups all(1);
  Model model({8, 8, 8});  // and `wide`: 4 buckets, of parameters 3, 2, 1, 0
  Ddp ddp(all.group(0), model.parameters(), {.first_bucket_bytes = 0, .bucket_bytes = 0});
  const std::size_t before = all.calls(0).size();
  const auto started = [&] { return all.calls(0).size() - before; };
  ddp.begin_backward(1);
  ddp.gradient_ready(std::size_t{0});
  ddp.gradient_ready("p2");
  CHECK(started() == 0);  // bucket 0 holds "wide"
  ddp.gradient_ready("wide");
  CHECK(started() == 2);
  ddp.gradient_ready(std::size_t{1});
  CHECK(started() == 4);
  ddp.finish();
  CHECK(started() == 4);
  CHECK(ddp.statistics().steps == 1);
  CHECK(ddp.statistics().bytes == 4 * (8 + 2) * 3 + 8 * (5 + 2));

  SECTION("without overlap everything starts in finish()") {
    Ddp late(all.group(0), model.parameters(), {.first_bucket_bytes = 0, .bucket_bytes = 0, .overlap = false});
    const std::size_t calls = all.calls(0).size();
    late.begin_backward(1);
    for (std::size_t p = 4; p-- > 0;) late.gradient_ready(p);
    CHECK(all.calls(0).size() == calls);
    late.finish();
    CHECK(all.calls(0).size() == calls + 4);
  }
}

TEST_CASE("gradients may become ready on many threads") {
  ThreadGroups all(2);
  CHECK(all.run([](int rank, auto group) {
    Model model(std::vector<std::size_t>(64, 33), rank);
    Ddp ddp(group, model.parameters(), {.first_bucket_bytes = 300, .bucket_bytes = 300});
    for (int step = 0; step < 20; ++step) {
      model.fill(static_cast<float>(2 * rank));
      ddp.begin_backward(1);
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
          for (std::size_t p = t; p < model.size(); p += 4) ddp.gradient_ready(p);
        });
      for (std::thread& thread : threads) thread.join();
      ddp.finish();
      for (std::size_t p = 0; p < 64; ++p)
        if (model.gradient[p][0] != 1 + static_cast<float>(p)) throw std::runtime_error("wrong mean");
    }
  }) == none(2));
}

TEST_CASE("passes in a no_sync scope are averaged with the next pass, by samples") {
  ThreadGroups all(2);
  CHECK(all.run([&](int rank, auto group) {
    Model model(kCounts, rank);
    Ddp ddp(group, model.parameters(), {.first_bucket_bytes = 80, .bucket_bytes = 80});
    const auto pass = [&](std::size_t samples, float gradient) {
      model.fill(gradient);
      ddp.begin_backward(samples);
      for (std::size_t p = 0; p < model.size(); ++p) ddp.gradient_ready(p);
      return ddp.finish();
    };
    for (int step = 0; step < 2; ++step) {
      const std::size_t before = all.calls(rank).size();
      {
        const auto quiet = ddp.no_sync();
        if (pass(2, 1) != 2) throw std::runtime_error("wrong samples");
        const auto quieter = ddp.no_sync();
        if (pass(rank == 0 ? 0 : 4, 7) != (rank == 0 ? 2u : 6u)) throw std::runtime_error("wrong samples");
      }
      if (all.calls(rank).size() != before) throw std::runtime_error("no_sync communicated");
      if (pass(1, 3) != 10) throw std::runtime_error("wrong total");  // 2 + 0 + 1 and 2 + 4 + 1
      const double mean = (2 * 1 + 1 * 3 + 2 * 1 + 4 * 7 + 1 * 3) / 10.0;
      if (std::abs(model.gradient[0][0] - mean) > 1e-6) throw std::runtime_error("wrong mean");
      if (std::abs(model.wide_gradient[2] - mean) > 1e-14) throw std::runtime_error("wrong mean");
    }
  }) == none(2));
}

TEST_CASE("a gradient that was never ready is named on every rank, with the ranks") {
  ThreadGroups all(3);
  const auto overlap = GENERATE(true, false);
  const auto errors = all.run([&](int rank, auto group) {
    Model model({4, 4}, rank);
    Ddp ddp(group, model.parameters(), {.first_bucket_bytes = 0, .bucket_bytes = 0, .overlap = overlap});
    ddp.begin_backward(1);
    ddp.gradient_ready("wide");
    if (rank != 1) ddp.gradient_ready("p1");
    if (rank == 0) ddp.gradient_ready("p0");
    std::string text;
    try {
      ddp.finish();
    } catch (const tutti::Error& error) {
      text = error.code() == tutti::ErrorCode::invalid_usage ? error.what() : "wrong code";
    }
    // the next step is sound again
    model.fill(2);
    ddp.begin_backward(1);
    for (std::size_t p = 0; p < 3; ++p) ddp.gradient_ready(p);
    ddp.finish();
    if (model.gradient[1][0] != 3) throw std::runtime_error("wrong mean after the error");
    throw std::runtime_error(text);
  });
  for (const std::string& text : errors) CHECK_THAT(text, Contains("'p0' on ranks 1, 2; 'p1' on rank 1."));
}

TEST_CASE("calls that make no sense are refused where they are made") {
  ThreadGroups all(1);
  Model model({4});
  float state = 0;
  auto parameters = model.parameters();
  parameters.push_back({"state", &state, nullptr, {}});
  Ddp ddp(all.group(0), parameters);
  CHECK_THROWS_WITH(ddp.gradient_ready("p0"), Contains("call begin_backward() first"));
  CHECK_THROWS_WITH(ddp.finish(), Contains("without begin_backward()"));
  ddp.begin_backward(1);
  CHECK_THROWS_WITH(ddp.begin_backward(1), Contains("before finish()"));
  CHECK_THROWS_WITH(ddp.gradient_ready("p9"), Contains("'p9') names no parameter; valid: 'p0', 'wide', 'state'"));
  CHECK_THROWS_WITH(ddp.gradient_ready("state"), Contains("no parameter with a gradient"));
  CHECK_THROWS_WITH(ddp.gradient_ready(std::size_t{3}), Contains("gradient_ready(3)"));
  ddp.gradient_ready("p0");
  CHECK_THROWS_WITH(ddp.gradient_ready("p0"), Contains("'p0' is ready a second time"));
}

TEST_CASE("ranks that register different things all learn what and who") {
  struct Case {
    std::function<void(int, std::vector<Parameter>&, DdpOptions&)> change;
    std::string expected;
  };
  static float memory[64];
  const std::vector<Case> cases = {
      {[](int rank, auto& p, auto&) {
         if (rank == 2) p.pop_back();
       },
       "rank 0 has 3 parameters, rank 2 has 2; rank 2 lacks 'c' float [3]"},
      {[](int rank, auto& p, auto&) {
         if (rank == 1) p.push_back({"d", memory, memory, {1}});
       },
       "rank 0 has 3 parameters, rank 1 has 4; rank 0 lacks 'd' float [1]"},
      {[](int rank, auto& p, auto&) {
         if (rank == 1) p[1].name = "x";
       },
       "parameter 1 differs: rank 0 has 'b' float [2, 2], rank 1 has 'x' float [2, 2]"},
      {[](int rank, auto& p, auto&) {
         if (rank == 2) p[1].shape = {4};
       },
       "rank 0 has 'b' float [2, 2], rank 2 has 'b' float [4]"},
      {[](int rank, auto& p, auto&) {
         if (rank == 0) p[2].type = tutti::DataType::float64;
       },
       "rank 0 has 'c' double [3], rank 1 has 'c' float [3]"},
      {[](int rank, auto& p, auto&) {
         if (rank == 1) p[0].gradient = nullptr;
       },
       "rank 1 has 'a' float [5] without gradient"},
      {[](int rank, auto&, auto& o) {
         if (rank == 2) o.bucket_bytes = 7;
       },
       "rank 0 has buckets of 1048576 bytes, then 26214400; rank 2 has buckets of 1048576 bytes, then 7"},
      {[](int rank, auto& p, auto&) {
         if (rank == 1) p[1].name = "a";
       },
       "on rank 1 two parameters are called 'a'"},
      {[](int, auto& p, auto&) { p.clear(); }, "on rank 0 there is no parameter with a gradient"},
      {[](int rank, auto& p, auto&) {
         if (rank == 2) p[0].data = nullptr;
       },
       "on rank 2 parameter 'a' has no data"},
      {[](int rank, auto& p, auto&) {
         if (rank == 2) p[0].type = tutti::DataType::int32;
       },
       "on rank 2 parameter 'a' int32 [5] has a type that cannot be averaged"},
      {[](int rank, auto& p, auto&) {
         if (rank == 2) p[0].name = "";
       },
       "on rank 2 a parameter's name is empty"},
  };
  for (const Case& c : cases) {
    ThreadGroups all(3);
    const auto errors = all.run([&](int rank, auto group) {
      std::vector<Parameter> parameters = {
          {"a", memory, memory, {5}}, {"b", memory, memory, {2, 2}}, {"c", memory, memory, {3}}};
      DdpOptions options;
      c.change(rank, parameters, options);
      Ddp ddp(group, parameters, options);
    });
    for (const std::string& text : errors) {
      CHECK_THAT(text, Contains(c.expected));
      CHECK(text == errors[0]);
    }
  }
}

TEST_CASE("assert_in_sync names the parameter and the ranks that differ in one bit") {
  ThreadGroups all(4);
  std::vector<std::uint64_t> sums(4);
  const auto errors = all.run([&](int rank, auto group) {
    Model model(kCounts, rank);
    Ddp ddp(group, model.parameters());
    sums[static_cast<std::size_t>(rank)] = ddp.assert_in_sync();
    if (rank == 1 || rank == 3) model.data[3][200] = std::nextafter(model.data[3][200], 1e9f);
    ddp.assert_in_sync();
  });
  for (const std::string& text : errors)
    CHECK_THAT(text, Contains("parameter 'p3' on ranks 1, 3 are not those of rank 0"));
  CHECK(sums == std::vector<std::uint64_t>(4, sums[0]));
}

TEST_CASE("a Ddp that was moved from says so") {
  std::vector<tutti::Communicator> alone = tutti::Communicator::connect_threads(1);
  Model model({3});
  Ddp first(alone[0], model.parameters());
  Ddp second = std::move(first);
  CHECK_THROWS_WITH(first.begin_backward(1), Contains("Ddp") && Contains("moved from"));
  CHECK_THROWS_WITH(first.gradient_ready(0), Contains("moved from"));
  CHECK_THROWS_WITH(first.finish(), Contains("moved from"));
  CHECK_THROWS_WITH(first.statistics(), Contains("moved from"));
  second.begin_backward(0);
  CHECK(second.finish() == 0);
}
