#!/usr/bin/env python3
"""Measures Tutti, Open MPI, MPICH, Gloo, UCC, oneCCL and hand-written references: all-reduce of float32, sum, on this
host.

The programs beside this file do the timing (harness.h says how). This driver starts them by turns, round after round
(A B C ... A B C ...), so that what disturbs the machine disturbs all alike, and reports the median of the rounds. It
needs only Python; the peers come from Debian's packages (tools/install_deps.sh -p), but for UCC and oneCCL.

    bench/peers/run.py --bin build/bin --json peers.json --html report.html --markdown peers.md

Exit status: 0 when all launches ended well and all data were right, 1 when not, 2 for a bad flag, 77 when no peer was
built (for CTest, a skipped test). Ratios that miss do not change it.
"""
import argparse
import os
import signal
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree as it is
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from documents import update  # noqa: E402
from flags import list_of, one_of, size_from, whole  # noqa: E402
from launch import launch  # noqa: E402
from report import Report  # noqa: E402
from results import ROUNDS_ASKED, summarise, verdicts  # noqa: E402
from settings import COLUMNS, KIB, MIB, NEEDS, PEERS, SETTINGS, missing  # noqa: E402

DEFAULT_SIZES = [8, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
QUICK_SIZES = [8, 4 * KIB, 256 * KIB]
VARIANTS = ["touched", "untouched"]
FAILURES_ENOUGH = 2  # of one setting with one number of ranks; then it is left out
SKIPPED = 77


# ---- flags ---------------------------------------------------------------------------------------------------------

def flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", help="directory with tutti, tutti_bench, ... (default: the newest under build/)")
    parser.add_argument("--rounds", type=whole(1, 1000), default=ROUNDS_ASKED,
                        help=f"default {ROUNDS_ASKED}, the fewest that decide whether a ratio holds")
    parser.add_argument("--ranks", type=list_of(whole(1, 64)), default=[2, 4, 8], help="default 2,4,8")
    parser.add_argument("--sizes", type=list_of(size_from), default=DEFAULT_SIZES,
                        help="default 8, then 64 to 64M by 4")
    parser.add_argument("--settings", type=list_of(one_of("setting", list(SETTINGS))), default=list(SETTINGS),
                        help="default: all of " + ",".join(SETTINGS))
    parser.add_argument("--variants", type=list_of(one_of("variant", VARIANTS)), default=VARIANTS,
                        help="default touched,untouched; the first is the main one")
    parser.add_argument("--loop-ms", type=whole(1, 60000), default=40, help="length of one timed loop, default 40")
    parser.add_argument("--point-ms", type=whole(1, 600000), default=2000,
                        help="about the most that one size and variant may take where calls are slow, default 2000")
    parser.add_argument("--seconds", type=whole(1, 86400), default=5400,
                        help="no launch begins later than this, default 5400; the report says how many rounds "
                        "there were")
    parser.add_argument("--launch-timeout", type=whole(1, 86400), default=240, help="of one launch, seconds")
    parser.add_argument("--settle", type=whole(0, 3600), default=3,
                        help="seconds to wait, at most, for an idle machine before a launch")
    parser.add_argument("--no-bind", action="store_true",
                        help="do not bind ranks to cores (see docs/peers.md)")
    parser.add_argument("--priority", action="store_true",
                        help="run before other sessions' programs, all peers alike; for root on a machine in use")
    parser.add_argument("--quick", action="store_true", help="one short round with 2 ranks, a check of the machinery")
    parser.add_argument("--update-documents", action="store_true",
                        help="put the results between the peers marks of README.md and docs/peers.md")
    for kind in ("json", "csv", "markdown", "html"):
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write the results as {kind}")
    given = parser.parse_args()
    given.variants = [variant for variant in VARIANTS if variant in given.variants]
    if given.quick:
        given.rounds, given.ranks, given.sizes, given.loop_ms, given.settle = 1, [2], QUICK_SIZES, 2, 0
    given.bin = given.bin or machine.newest_build("tutti_bench")
    if not given.bin:
        sys.exit("run.py: no tutti_bench under build/; build the target tutti_bench or give its directory with --bin")
    return given


# ---- how long it will take -----------------------------------------------------------------------------------------

def estimate(setting, ranks, given):
    """Seconds of one launch, roughly: the loops, passes over the data at 1 GB/s per core, and time slices where a
    library waits without giving its core away."""
    crowd = max(1, ranks / machine.cores())
    algorithms = {"limit": 5, "gloo": 2}.get(setting.key, 1)
    seconds = 0.5
    for size in given.sizes:
        calls_s = 12 * 4 * size * crowd / 1e9
        if setting.column == "mpich" and crowd > 1:
            calls_s += 8 * 0.01 * crowd
        most = given.point_ms / 1000 * 1.5
        seconds += algorithms * len(given.variants) * min(most, given.loop_ms / 1000 * 1.4 + calls_s)
    return seconds


def print_estimate(settings, given):
    each = {key: given.rounds * sum(estimate(SETTINGS[key], ranks, given) for ranks in given.ranks) for key in settings}
    total = sum(each.values())
    say(f"{given.rounds} rounds of {len(settings) * len(given.ranks)} launches, {len(given.sizes)} sizes, "
        f"{' and '.join(given.variants)}: about {total / 60:.0f} min ("
        + ", ".join(f"{key} {seconds / 60:.1f}" for key, seconds in each.items()) + "), and what waiting for an idle "
        "machine takes")
    if total > given.seconds:
        say(f"--seconds {given.seconds} ends it earlier; fewer --ranks, --sizes or --settings fit")


def say(text):
    print(text, file=sys.stderr, flush=True)


# ---- rounds --------------------------------------------------------------------------------------------------------

def limits_now(given, *arguments):
    """What the machine itself gives now (limit.cc): name and unit to value."""
    lines = machine.output_of(os.path.join(given.bin, "limit"), *arguments).splitlines()
    return {(name, unit): float(value) for name, value, unit in (line.split("\t") for line in lines)}


class Rounds:
    """All launches: rows with setting, ranks and round, error texts, and the CPU that others took per launch."""

    def __init__(self, given, settings):
        self.given, self.settings = given, settings
        self.rows, self.errors, self.disturbance, self.limits = [], [], [], {}
        self.failures = {}
        self.distances = []  # of the cores, by the way of a cache line, before each launch; a host may move them

    def run(self):
        begin = time.monotonic()
        for turn in range(self.given.rounds):
            for figure, value in limits_now(self.given).items():
                self.limits.setdefault(figure, []).append(value)
            for ranks in self.given.ranks:
                for key in self.settings:
                    if time.monotonic() - begin > self.given.seconds:
                        say(f"--seconds {self.given.seconds} is over in round {turn + 1}")
                        return
                    if self.failures.get((key, ranks), 0) < FAILURES_ENOUGH:
                        self.launch_one(SETTINGS[key], ranks, turn)
            if turn == 0 and self.given.rounds > 1:
                rest = (time.monotonic() - begin) * (self.given.rounds - 1)
                say(f"round 1 took {time.monotonic() - begin:.0f} s; the others about {rest / 60:.0f} min more")

    def launch_one(self, setting, ranks, turn):
        machine.settle(self.given.settle)
        distance = next(iter(limits_now(self.given, "--cache-line").values()), None)
        self.distances += [distance] if distance else []
        start, busy, own = time.monotonic(), machine.busy_seconds(), machine.children_seconds()
        launched, error = launch(setting, ranks, self.given)
        wall = time.monotonic() - start
        taken = machine.busy_seconds() - busy - (machine.children_seconds() - own)
        others = max(0.0, taken) / (wall * os.cpu_count())
        self.disturbance.append(others)
        self.rows += [{**row, "setting": setting.key, "ranks": ranks, "round": turn, "cache_line_ns": distance}
                      for row in launched]
        failed = f"{setting.key}, {ranks} ranks, round {turn + 1}: {error}" if error else None
        if failed:
            self.errors.append(failed)
            self.failures[setting.key, ranks] = self.failures.get((setting.key, ranks), 0) + 1
        say(f"round {turn + 1}/{self.given.rounds}, {ranks} ranks, {setting.key}: {wall:.1f} s, others' CPU "
            f"{others:.0%}, cache line {distance or 0:.0f} ns" + (f"; FAILED: {failed}" if failed else ""))


def runnable(given):
    """The settings that can run here; says on stderr what is missing."""
    found = []
    for key in given.settings:
        lacking = missing(SETTINGS[key], given.bin)
        need = NEEDS.get(SETTINGS[key].column)
        if lacking:
            say(f"run.py: without {key}: no {' and no '.join(lacking)} ({given.bin})" +
                (f"; {need}" if need else ""))
        else:
            found.append(key)
    return found


def lacking_figures(given, settings, summary):
    """Points without a figure. The references are made for some sizes each, together for all."""
    columns = {SETTINGS[key].column for key in settings} | ({"mapped"} if "limit" in settings else set())
    expected = {(ranks, variant, size, column) for ranks in given.ranks for variant in given.variants
                for size in given.sizes for column in columns}
    return sorted(expected - set(summary))


def main():
    given = flags()
    settings = runnable(given)
    if "tutti" in given.settings and "tutti" not in settings:
        sys.exit("run.py: Tutti's own programs are missing; build the targets tutti_command and tutti_bench")
    columns = {SETTINGS[key].column for key in settings}
    if not columns & set(PEERS):
        say(f"run.py: none of {', '.join(COLUMNS[peer] for peer in PEERS)} can run here: nothing to compare with, "
            "skipped")
        return SKIPPED
    machine.adopt_orphans()
    if given.priority:
        machine.take_priority()
    facts = machine.conditions(columns, given.bin)
    say(f"{facts['cpu']}, {facts['cores']} cores; {'; '.join(facts['versions'])}")
    print_estimate(settings, given)
    rounds = Rounds(given, settings)
    rounds.run()
    summary = summarise(rounds.rows)
    report = Report(given, facts, rounds, summary, verdicts(summary, given))
    print(report.markdown())
    for path, text in ((given.markdown, report.markdown), (given.html, report.html)):
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text())
    if given.csv:
        report.write_csv(given.csv)
    if given.json:
        report.write_json(given.json)
    if given.update_documents:
        update(machine.REPOSITORY, report)
    lacking = lacking_figures(given, settings, summary)
    for ranks, variant, size, column in lacking:
        say(f"run.py: no figure of {COLUMNS[column]} with {ranks} ranks, {variant}, {size} bytes")
    return 1 if rounds.errors or report.wrong or lacking else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that ranks and files are cleaned up
    sys.exit(main())
