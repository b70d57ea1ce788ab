#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "src/schedule/builders.h"
#include "src/schedule/render_svg.h"
#include "src/schedule/render_text.h"
#include "src/schedule/svg.h"
#include "src/schedule/timeline.h"
#include "tutti/error.h"

using namespace tutti;
using namespace tutti::schedule;

namespace {

Schedule built(const char* name, int ranks, Collective collective = Collective::all_reduce, int lanes = 1) {
  Shape shape;
  shape.ranks = ranks;
  shape.lanes = lanes;
  return find_builder(collective, name)->build(shape);
}

bool mentions(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

// Checks that tags are balanced and that text and attributes hold no raw markup. Answers how often each tag opens.
std::map<std::string, int> check_xml(const std::string& xml) {
  std::vector<std::string> open;
  std::map<std::string, int> tags;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] != '<') {
      REQUIRE(xml[at] != '>');
      if (xml[at] == '&') REQUIRE(xml.find(';', at) <= at + 6);
      ++at;
      continue;
    }
    const std::size_t end = xml.find('>', at);
    REQUIRE(end != std::string::npos);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    REQUIRE(!tag.empty());
    if (tag.front() == '/') {
      REQUIRE(!open.empty());
      REQUIRE(open.back() == tag.substr(1));
      open.pop_back();
    } else {
      const std::string name = tag.substr(0, tag.find_first_of(" \n"));
      ++tags[name];
      if (tag.back() != '/') open.push_back(name);
      // Attributes: quotes in pairs, no markup inside.
      REQUIRE(std::count(tag.begin(), tag.end(), '"') % 2 == 0);
      REQUIRE(tag.find('<') == std::string::npos);
    }
    at = end + 1;
  }
  REQUIRE(open.empty());
  return tags;
}

}  // namespace

TEST_CASE("times are those of the textbook") {
  const auto end_of = [](const Schedule& schedule) { return Timeline(schedule).end(); };
  for (int ranks = 2; ranks <= 17; ++ranks) {
    CAPTURE(ranks);
    CHECK(end_of(built("ring", ranks)) == 2 * (ranks - 1));
    CHECK(end_of(built("oneshot", ranks)) == 1);
    CHECK(end_of(built("twoshot", ranks)) == 2);
    CHECK(end_of(built("ring", ranks, Collective::all_gather)) == ranks - 1);
  }
  CHECK(end_of(built("tree", 8)) == 6);
  CHECK(end_of(built("halving_doubling", 8)) == 6);
  CHECK(end_of(built("halving_doubling", 1)) == 0);
}

TEST_CASE("no Step comes before what it needs, nor later than who needs it") {
  for (const Builder& builder : builders())
    for (const int ranks : {2, 5, 8, 13}) {
      Shape shape;
      shape.ranks = ranks;
      shape.lanes = 2;
      const Schedule schedule = builder.build(shape);
      const Timeline timeline(schedule);
      const Wiring& wiring = timeline.wiring();
      CAPTURE(builder.name, ranks);
      for (int id = 0; id < wiring.size(); ++id)
        wiring.for_each_before(id, [&](int before) {
          const int ticks = wiring.place(before).rank == wiring.place(id).rank ? 0 : 1;
          REQUIRE(timeline.moment(before).time + ticks <= timeline.moment(id).time);
        });
    }
}

TEST_CASE("contributions add up to the ranks where a result is complete") {
  for (const char* name : {"ring", "tree", "oneshot", "twoshot", "halving_doubling"})
    for (const int ranks : {2, 3, 6, 8, 11}) {
      const Schedule schedule = built(name, ranks);
      const Timeline timeline(schedule);
      CAPTURE(name, ranks);
      int most = 0;
      for (int id = 0; id < timeline.wiring().size(); ++id) most = std::max(most, timeline.moment(id).contributions);
      CHECK(most == ranks);
    }
}

TEST_CASE("phases have the names of the textbook") {
  const Schedule ring = built("ring", 4);
  const Timeline timeline(ring);
  for (int time = 0; time < 6; ++time) CHECK(timeline.phase(time) == (time < 3 ? "reduce-scatter" : "all-gather"));
  CHECK(timeline.phase(6) == "");
  const Schedule tree = built("tree", 8);
  CHECK(Timeline(tree).phase(0) == "reduce");
  CHECK(Timeline(tree).phase(5) == "broadcast");
}

TEST_CASE("the text says what every rank does") {
  const std::string ring = render_text(built("ring", 4));
  CHECK(mentions(ring, "ring all-reduce, 4 ranks\n4 chunks, 24 messages, 6 of them one after another\n"));
  CHECK(mentions(ring, "time 0 to 3: reduce-scatter\ntime 3 to 6: all-gather\n"));
  CHECK(mentions(ring, "     0     0     0  send my chunk 0 to 1\n"));
  CHECK(mentions(ring, "     1     0     1  receive chunk 3 from 3, add mine, send the sum to 1\n"));
  CHECK(mentions(ring,
                 "     3     0     3  receive chunk 1 from 3, add mine, store the sum, send it to 1  [complete]\n"));
  CHECK(mentions(ring, "     6     0     6  receive chunk 2 from 3, store it\n"));
  const std::string tree = render_text(built("tree", 3));
  CHECK(mentions(tree, "receive chunk 0 from 0 and 2, add mine, store the sum, send it to 0 and 2"));
  CHECK(mentions(render_text(built("oneshot", 3, Collective::barrier)), "hear from 1 and 2"));
  CHECK(mentions(render_text(built("tree", 1)), "copy my chunk 0"));
  // One line per Step.
  const Schedule schedule = built("halving_doubling", 5);
  std::size_t steps = 0;
  for (const Program& program : schedule.programs)
    for (const Lane& lane : program.lanes) steps += lane.size();
  const std::string text = render_text(schedule);
  std::size_t lines = 0;
  for (std::size_t at = text.find("\n  "); at != std::string::npos; at = text.find("\n  ", at + 1)) ++lines;
  CHECK(lines == steps + 5);  // and one heading per rank
}

TEST_CASE("pictures are well-formed for every algorithm and rank count, and show every message") {
  for (const Builder& builder : builders())
    for (const int ranks : {1, 2, 3, 4, 7, 8, 16}) {
      Shape shape;
      shape.ranks = ranks;
      const Schedule schedule = builder.build(shape);
      CAPTURE(builder.name, name_of(builder.collective), ranks);
      const std::string svg = render_svg(schedule);
      const auto tags = check_xml(svg);
      CHECK(tags.at("svg") == 1);
      CHECK(mentions(svg, title_of(schedule)));
      CHECK(!mentions(svg, "nan"));
      CHECK(!mentions(svg, "inf"));
      std::size_t heads = 0;
      for (std::size_t at = svg.find("Z\""); at != std::string::npos; at = svg.find("Z\"", at + 1)) ++heads;
      CHECK(heads >= Timeline(schedule).messages().size());
    }
}

TEST_CASE("the ring's picture names its phases and the tree's its trees") {
  const std::string ring = render_svg(built("ring", 8));
  CHECK(mentions(ring, ">reduce-scatter<"));
  CHECK(mentions(ring, ">all-gather<"));
  CHECK(mentions(ring, ">14 messages one after another<"));
  const std::string tree = render_svg(built("tree", 8));
  CHECK(mentions(tree, ">tree of chunk 0<"));
  CHECK(mentions(tree, ">tree of chunk 1<"));
  CHECK(mentions(tree, ">broadcast<"));
}

TEST_CASE("several schedules share one picture") {
  const std::vector<Schedule> both = {built("ring", 8), built("tree", 8)};
  const std::string svg = render_svg(std::span<const Schedule>(both));
  check_xml(svg);
  CHECK(mentions(svg, ">ring all-reduce, 8 ranks<"));
  CHECK(mentions(svg, ">tree all-reduce, 8 ranks<"));
}

TEST_CASE("text is escaped and numbers are plain") {
  CHECK(svg_escape("a<b>&\"c'\n") == "a&lt;b&gt;&amp;&quot;c&#39; ");
  CHECK(svg_number(1.0) == "1");
  CHECK(svg_number(-0.001) == "0");
  CHECK(svg_number(1234567.891) == "1234567.89");
  CHECK(svg_number(0.1 + 0.2) == "0.3");
  CHECK(svg_colour(1, 0, 0) == "#ffffff");
  CHECK(svg_colour(0, 0, 0) == "#000000");
  Schedule named = built("ring", 3);
  named.name = "<script>&\"";
  check_xml(render_svg(named));
  CHECK(!mentions(render_svg(named), "<script>"));
}

TEST_CASE("what would be too large to read is refused") {
  CHECK_THROWS_WITH(render_svg(built("tree", kMostDrawnRanks + 1)), Catch::Contains("33 ranks"));
  CHECK_NOTHROW(render_svg(built("tree", kMostDrawnRanks)));
}

TEST_CASE("schedules that wait in a circle are refused") {
  Schedule schedule = built("tree", 4);
  schedule.programs[0].lanes[0][0].after = {{1, 0}};
  schedule.programs[0].lanes[1][0].after = {{0, 0}};
  CHECK_THROWS_AS(render_text(schedule), Error);
}
