#include <catch2/catch.hpp>
#include <cmath>

#include "bench/compare/analysis.h"
#include "bench/compare/experiment.h"
#include "bench/compare/measure.h"
#include "bench/compare/plot.h"
#include "bench/compare/report.h"
#include "tests/tools/perf_test_fake.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::compare;

namespace {

// Every round at exactly the given time; 0 for a size at which the algorithm does not run.
Outcome outcome(std::vector<std::size_t> sizes, std::vector<std::string> algorithms,
                const std::vector<std::vector<double>>& times) {
  Outcome o{4, std::move(sizes), std::move(algorithms), {}};
  for (std::size_t a = 0; a < times.size(); ++a) {
    o.cells.emplace_back();
    for (const double time : times[a])
      o.cells.back().push_back(time > 0 ? Cell{{time, time, time}, o.algorithms[a]} : Cell{});
  }
  return o;
}

const std::vector<std::size_t> kSizes{8, 64, 512, 4096};

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Conditions conditions() {
  Conditions c;
  c.host = "a,b";
  c.cpu = "<CPU \"X\" & co>";
  c.type = "float", c.op = "sum", c.date = "today", c.version = "1", c.rounds = 3;
  c.command_line = "tutti compare --algos '<script>'";
  return c;
}

}  // namespace

TEST_CASE("sizes are given as a factor, a step or a list") {
  CHECK(parse_sizes("s", "8:512:x4") == std::vector<std::size_t>{8, 32, 128, 512});
  CHECK(parse_sizes("s", "1K:4k:+1.5K") == std::vector<std::size_t>{1024, 2560, 4096});
  CHECK(parse_sizes("s", "1M,8,64,8") == std::vector<std::size_t>{8, 64, 1048576});
  CHECK(parse_ranks("r", "2,8") == std::vector<int>{2, 8});
  for (const char* bad : {"", "x", "8:64", "8:64:4", "8:64:x1", "8:64:x", "64:8:x2", "0:64:x2", "8:64:+0", "8,0",
                          "1:9:x2:3", "1:1G:+1"}) {
    INFO(bad);
    CHECK_THROWS_WITH(parse_sizes("--sizes", bad), Catch::Contains("--sizes is '") && Catch::Contains("valid:"));
  }
  for (const char* bad : {"", "0", "2,", "two", "-1", "5000"}) CHECK_THROWS_AS(parse_ranks("--ranks", bad), Error);
}

TEST_CASE("a line is recovered exactly, over six decades of sizes") {
  std::vector<double> x, t;
  for (double bytes = 8; bytes <= 8e6; bytes *= 10) x.push_back(bytes), t.push_back(3.5 + bytes / 2000);
  const auto fit = fit_line(x, t);
  REQUIRE(fit);
  CHECK(fit->alpha_us == Approx(3.5));
  CHECK(fit->gb_per_s() == Approx(2.0));  // 2000 bytes per us
  CHECK(fit->rms_error == Approx(0).margin(1e-9));
}

TEST_CASE("the fit minimises the relative error: small messages count") {
  // Two points at 1 byte, 10% above and below 10 us, and one far away: alpha lies between the two.
  const auto fit = fit_line({1, 1, 1e6}, {9, 11, 1010});
  REQUIRE(fit);
  // Weighted mean of 9 and 11 with weights 1/81 and 1/121: (1/9 + 1/11) / (1/81 + 1/121) = 9.80198...
  CHECK(fit->at(1) == Approx(9.80198).epsilon(1e-5));
  CHECK(fit->at(1e6) == Approx(1010).epsilon(1e-9));
  CHECK(fit->worst_bytes == 1);
  CHECK(fit->worst_error == Approx(9.80198 / 11 - 1).epsilon(1e-4));
}

TEST_CASE("neither part of a fit is negative") {
  const auto steep = fit_line({10, 20}, {1, 4});  // the free line starts at -2
  REQUIRE(steep);
  CHECK(steep->alpha_us == 0);
  // Least squares of relative errors through the origin: b = sum(x/t) / sum(x^2/t^2) = 15 / 125.
  CHECK(steep->us_per_byte == Approx(0.12));
  const auto falling = fit_line({10, 1000}, {2, 1});
  REQUIRE(falling);
  CHECK(falling->us_per_byte == 0);
  CHECK(falling->gb_per_s() == 0);
  CHECK(falling->alpha_us == Approx((1 / 2.0 + 1) / (1 / 4.0 + 1)));
  CHECK_FALSE(fit_line({8}, {1}));
  CHECK_FALSE(fit_line({8, 8}, {1, 2}));
  CHECK_FALSE(fit_line({}, {}));
}

TEST_CASE("curves cross where straight lines on logarithmic axes do") {
  // 1 to 16 against a constant 4: in the middle of the exponents.
  CHECK(crossing(16, 4096, 1, 16, 4, 4).value() == Approx(256));
  CHECK(crossing(10, 1000, 2, 2, 2, 5).value() == Approx(10));  // they touch at the left end
  CHECK_FALSE(crossing(16, 4096, 1, 2, 4, 4));
  CHECK_FALSE(crossing(16, 4096, 3, 3, 3, 3));
}

TEST_CASE("leads change hands at crossovers, not for noise") {
  const Outcome o = outcome(kSizes, {"tree", "ring", "auto"}, {{1, 1, 4, 64}, {4, 4, 4.1, 16}, {1, 1, 5, 16}});
  const std::vector<Lead> list = leads(o);
  REQUIRE(list.size() == 2);
  CHECK(o.algorithms[list[0].algorithm] == "tree");
  CHECK(list[0].last_size == 2);
  CHECK(o.algorithms[list[1].algorithm] == "ring");
  // Between 512 and 4096 the ratio goes from 4/4.1 to 64/16.
  const double share = std::log(4.1 / 4) / (std::log(4.1 / 4) + std::log(4.0));
  CHECK(list[1].from_bytes == Approx(512 * std::pow(8, share)));
  CHECK(fastest(o, 3) == std::size_t{1});

  // 3% faster at one size only is no lead.
  const Outcome noisy = outcome(kSizes, {"a", "b", "auto"}, {{1, 1, 1, 1}, {2, 0.97, 2, 2}, {1, 1, 1, 1}});
  CHECK(leads(noisy).size() == 1);
  // A crossover found late, because of the noise, lies where the curves crossed.
  const Outcome slow = outcome(kSizes, {"a", "b", "auto"}, {{1, 1, 1, 2}, {2, 1.02, 0.98, 1}, {1, 1, 1, 1}});
  REQUIRE(leads(slow).size() == 2);
  CHECK(leads(slow)[1].from_bytes > 64);
  CHECK(leads(slow)[1].from_bytes < 512);
}

TEST_CASE("an algorithm that stops running loses its lead") {
  const Outcome o = outcome(kSizes, {"oneshot", "ring", "auto"}, {{1, 1, 0, 0}, {2, 2, 2, 2}, {1, 1, 2, 2}});
  const std::vector<Lead> list = leads(o);
  REQUIRE(list.size() == 2);
  CHECK(list[1].from_bytes == 512);
  CHECK_THAT(report_text(o), Catch::Contains("With 4 ranks oneshot is fastest up to 512 B, then ring."));
}

TEST_CASE("the automatic choice is judged against the best forced algorithm") {
  const Outcome o = outcome(kSizes, {"tree", "ring", "auto"}, {{1, 1, 4, 64}, {4, 4, 8, 16}, {1, 1.5, 4, 16}});
  CHECK(auto_ratio(o, 1).value() == Approx(1.5));
  CHECK(auto_gap(o)->worst_ratio == Approx(1.5));
  CHECK(auto_gap(o)->worst_size == 1);
  CHECK(auto_gap(o)->median_ratio == Approx(1));
  CHECK_THAT(summary(o), Catch::Contains("up to 50% behind the best (at 64 B)"));
  CHECK(bus_bandwidth(1000, 1, 4) == Approx(1.5));
}

TEST_CASE("a disturbed measurement is called one") {
  Outcome o = outcome(kSizes, {"tree", "auto"}, {{1, 1, 4, 64}, {1, 1, 4, 64}});
  CHECK(typical_spread(o) == 0);
  CHECK_THAT(summary(o), !Catch::Contains("Take this with care"));
  for (auto& row : o.cells)
    for (Cell& cell : row) cell.round_us = {1, 2, 3};  // quartiles 1.5 and 2.5
  CHECK(typical_spread(o) == Approx(0.5));
  CHECK_THAT(summary(o), Catch::Contains("Take this with care") && Catch::Contains("varied by 50%"));
}

TEST_CASE("labels of crossovers do not lie on each other") {
  Plot plot{"t", "y", {{"s", 0, false, {{8, 1, 1, 1, "p"}, {8192, 9, 9, 9, "q"}}}}, {}, {}};
  for (double x = 16; x < 64; x += 4) plot.marks.push_back({x, "a long name of one -> another"});
  const std::string svg = to_svg(plot);
  CHECK(occurrences(svg, "class=\"mark\"") == 12);
  CHECK(occurrences(svg, "class=\"marktext\"") >= 3);
  CHECK(occurrences(svg, "class=\"marktext\"") <= 6);
}

TEST_CASE("results travel from the ranks unchanged") {
  Outcome o = outcome(kSizes, {"tree", "auto"}, {{1, 0.1, 4, 0}, {1.0 / 3, 2, 3, 4}});
  const Outcome back = outcome_from_json_text(to_json_text(o));
  CHECK(back.ranks == 4);
  CHECK(back.sizes == o.sizes);
  CHECK(back.algorithms == o.algorithms);
  for (std::size_t a = 0; a < 2; ++a)
    for (std::size_t s = 0; s < 4; ++s) CHECK(back.at(a, s).round_us == o.at(a, s).round_us);
  CHECK_THROWS_AS(outcome_from_json_text("{"), Error);
  CHECK_THROWS_AS(outcome_from_json_text("{\"ranks\": \"x\"}"), Error);
}

TEST_CASE("CSV fields are quoted where they must be") {
  CHECK(escape_csv("plain") == "plain");
  CHECK(escape_csv("a,b") == "\"a,b\"");
  CHECK(escape_csv("say \"x\"\n") == "\"say \"\"x\"\"\n\"");
  const std::string csv = report_csv({outcome(kSizes, {"tree", "auto"}, {{1, 0, 3, 4}, {1, 2, 3, 4}})}, conditions());
  CHECK(occurrences(csv, "\n") == 1 + 3 + 4);
  CHECK_THAT(csv,
             Catch::Contains("\n4,tree,tree,8,float,sum,1,1,1,3,0.012,1,0,\"a,b\",\"<CPU \"\"X\"\" & co>\",today,1\n"));
}

TEST_CASE("the reports say at each size how far the automatic choice is behind, and mark more than 10%") {
  const Outcome o = outcome(kSizes, {"tree", "ring", "auto"}, {{10, 10, 10, 0}, {20, 20, 20, 20}, {11, 12.5, 9, 30}});
  const std::string text = report_text(o);
  CHECK_THAT(text, Catch::Contains("+10%\n") && Catch::Contains("+25% <<\n") && Catch::Contains("-10%\n") &&
                       Catch::Contains("+50% <<\n") && Catch::Contains("at 2 of 4 sizes"));
  CHECK(occurrences(text, " <<\n") == 2);
  const std::string csv = report_csv({o}, conditions());
  CHECK_THAT(csv, Catch::Contains(",behind_best,") && Catch::Contains("auto,auto,64,float,sum,12.5,"));
  CHECK(occurrences(csv, ",0,0.25,\"a,b\"") == 1);
  CHECK(occurrences(report_html({o}, conditions()), "<td class=\"behind\">") == 2);
  CHECK(occurrences(report_text(outcome({8}, {"tree", "auto"}, {{10}, {10}})), "<<") == 0);
}

TEST_CASE("the page is escaped, whole, and asks for nothing outside") {
  const Outcome o = outcome(kSizes, {"<tree>", "ring", "auto"}, {{1, 1, 4, 64}, {4, 4, 4.1, 16}, {1, 1, 5, 16}});
  const std::string html = report_html({o}, conditions());
  CHECK(html.find("<tree>") == std::string::npos);
  CHECK(html.find("<script>") == std::string::npos);
  CHECK(html.find("&lt;CPU &quot;X&quot; &amp; co&gt;") != std::string::npos);
  for (const char* outside : {"http://", "https://", "src=", "url(", "@import", "<link"})
    CHECK(html.find(outside) == std::string::npos);
  CHECK(occurrences(html, "<svg class=\"plot\"") == 2);
  CHECK(occurrences(html, "<title>") == 1 + 2 * (3 * kSizes.size() + 1));  // the page, every point and the mark
  CHECK(occurrences(html, "class=\"mark\"") == 2);
  for (const char* element : {"svg", "table", "tr", "div", "section", "text", "g"})
    CHECK(occurrences(html, std::string("<") + element + " ") + occurrences(html, std::string("<") + element + ">") ==
          occurrences(html, std::string("</") + element + ">"));
  for (const char* bad : {"nan", "inf\"", "-nan"}) CHECK(html.find(std::string("\"") + bad) == std::string::npos);
}

TEST_CASE("a plot without points, or with one, is still a picture") {
  CHECK_THAT(to_svg({}), Catch::Contains("nothing to show") && !Catch::Contains("nan"));
  CHECK_THAT(to_svg({"t", "y", {{"s", 0, false, {{8, 1, 1, 1, "p"}}}}, {}, {}}), !Catch::Contains("nan"));
}

TEST_CASE("numbers have three digits") {
  CHECK(number_text(0.2345) == "0.234");
  CHECK(number_text(12.345) == "12.3");
  CHECK(number_text(1234.5) == "1234");
  CHECK(number_text(2.0) == "2");
  CHECK(number_text(100) == "100");
  CHECK(number_text(1.5e7) == "1.5e+07");
  CHECK(bytes_text(1.5 * 1024) == "1.5 KiB");
}

TEST_CASE("every rank measures every algorithm at every size, and a wrong result ends it") {
  Experiment experiment;
  experiment.sizes = {8, 1000};
  experiment.rounds = 2;
  perf::test::FakeJob(2).run([&](perf::Peer& peer) {
    const Outcome o = measure(peer, experiment);
    // The fake says that "fake" always runs: forced "other" does not, so its cells stay empty.
    if (peer.rank() != 0) return;
    CHECK(o.algorithms == std::vector<std::string>{"fake", "other", "small", "auto"});
    CHECK(o.at(2, 0).measured());
    CHECK_FALSE(o.at(2, 1).measured());  // "small" takes at most 100 elements
    for (std::size_t s = 0; s < 2; ++s) {
      CHECK(o.at(0, s).round_us.size() == 2);
      CHECK_FALSE(o.at(1, s).measured());
      CHECK(o.at(3, s).round_us.size() == 2);
      CHECK(o.at(3, s).chosen == "fake");
    }
  });
  perf::test::FakeJob faulty(2, [](int rank, int call, std::byte* output, std::size_t) {
    if (rank == 1 && call == 0) output[3] ^= std::byte{1};
  });
  std::vector<std::string> messages(2);
  faulty.run([&](perf::Peer& peer) {
    try {
      measure(peer, experiment);
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(peer.rank())] = error.what();
    }
  });
  CHECK_THAT(messages[0],
             Catch::Contains("algorithm fake gives wrong data") && Catch::Contains("seen by another rank"));
  CHECK_THAT(messages[1], Catch::Contains("1 wrong elements on rank 1, element 0 is 0x"));
}
