#!/usr/bin/env python3
"""Compares the speed of the working tree with that of a base commit, in one interleaved run: is anything slower?

The base is built beside the working tree (in a git worktree in a temporary folder), unless --base-build names a build
of it. Both builds' programs run by turns, base new new base, so that what disturbs the machine disturbs both: all-reduce
between processes on ordinary memory and between threads, the reduction kernels, and the making of communicators where
the base has a benchmark of it. Needs only Python, git and what a build needs.

    bench/regress/run.py main~5 --json regress.json

Each point gets the ratio of the medians, new / base, and a verdict: slower or faster is what lies beyond the larger of
5 % and the interquartile range of the ratios of neighbouring runs. Exit status: 0 nothing is slower, 1 something is (not
with --fail never), 2 a bad flag, 3 something could not be built or run.
"""
import argparse
import contextlib
import json
import os
import signal
import sys
import time

sys.dont_write_bytecode = True  # leave the source tree as it is
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "peers")]
import machine  # noqa: E402
from build import BuildFailed, base_build, build, build_type, commit_of  # noqa: E402
from compare import STATES, exit_status, judge_all, one_sided, order  # noqa: E402
from flags import list_of, one_of, size_from, whole  # noqa: E402
from programs import PROGRAMS, Failed, launches  # noqa: E402
from settings import KIB, MIB  # noqa: E402

DEFAULT_SIZES = [8, 256, 4 * KIB, 64 * KIB, 512 * KIB, 4 * MIB, 64 * MIB]
SETTINGS = ("tutti", "threads", "tutti-alloc")


def say(text):
    print(text, file=sys.stderr, flush=True)


def build_folder(text):
    if not os.path.isdir(os.path.join(text, "bin")):
        raise argparse.ArgumentTypeError(f"'{text}' is no build; valid: a folder of CMake's with bin/ in it")
    return os.path.abspath(text)


def commit(text):
    found = commit_of(text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no commit of this repository; valid: what git rev-parse takes")
    return found


def flags(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("base", type=commit, help="the commit to compare with: an id, main, HEAD~3")
    parser.add_argument("--base-build", type=build_folder, metavar="DIR", help="a build of the base, instead of making one")
    parser.add_argument("--build", type=build_folder, metavar="DIR",
                        help="the working tree's build, brought up to date first (default: the newest under build/)")
    parser.add_argument("--programs", type=list_of(one_of("program", PROGRAMS)), default=list(PROGRAMS),
                        help="default " + ",".join(PROGRAMS))
    parser.add_argument("--settings", type=list_of(one_of("setting", SETTINGS)), default=["tutti", "threads"],
                        help="of all_reduce: default tutti,threads; tutti-alloc is memory of tutti::alloc")
    parser.add_argument("--ranks", type=list_of(whole(1, 64)), default=[2, 4], help="default 2,4")
    parser.add_argument("--sizes", type=list_of(size_from), default=DEFAULT_SIZES,
                        help="default 8,256,4K,64K,512K,4M,64M")
    parser.add_argument("--variants", type=list_of(one_of("variant", ("touched", "untouched"))), default=["touched"],
                        help="default touched")
    parser.add_argument("--rounds", type=whole(1, 1000), default=4,
                        help="of base new new base, default 4; 3 are the fewest that decide")
    parser.add_argument("--loop-ms", type=whole(1, 60000), default=40, help="length of one timed loop, default 40")
    parser.add_argument("--point-ms", type=whole(1, 600000), default=1000,
                        help="about the most for a point where calls are slow, default 1000")
    parser.add_argument("--settle", type=whole(0, 3600), default=0,
                        help="seconds to wait, at most, for an idle machine before a launch, default 0")
    parser.add_argument("--seconds", type=whole(1, 86400), default=3600, help="no round begins later, default 3600")
    parser.add_argument("--launch-timeout", type=whole(1, 86400), default=240, help="of one launch, seconds")
    parser.add_argument("--jobs", type=whole(1, 1024), default=machine.cores(), help="of the compiler")
    parser.add_argument("--no-bind", action="store_true", help="do not bind ranks to cores")
    parser.add_argument("--fail", choices=("slower", "never"), default="slower",
                        help="what makes the exit status 1, default slower")
    parser.add_argument("--json", metavar="FILE", help="write all times, ratios and verdicts there")
    given = parser.parse_args(arguments)
    given.priority = False
    if not given.build:
        newest = machine.newest_build("tutti")
        if not newest:
            parser.error("there is no build under build/; make one, or name one with --build")
        given.build = os.path.dirname(newest)
    if given.json and not os.path.isdir(os.path.dirname(os.path.abspath(given.json))):
        parser.error(f"argument --json: '{given.json}' cannot be written; valid: a file in a folder that exists")
    return given


class Measurement:
    def __init__(self, given, folders):
        self.given, self.folders = given, folders
        self.times, self.errors = {}, []

    def run(self):
        """Every round has all launches, each by turns."""
        what = launches(self.given, self.folders.values())
        begin = time.monotonic()
        for turn in range(self.given.rounds):
            if time.monotonic() - begin > self.given.seconds:
                say(f"regress: --seconds {self.given.seconds} is over after {turn} rounds")
                break
            for name, launch_in in what:
                for side in order(1):
                    self.launch_one(name, side, launch_in)
            say(f"regress: round {turn + 1}/{self.given.rounds} done after {time.monotonic() - begin:.0f} s")

    def launch_one(self, name, side, launch_in):
        machine.settle(self.given.settle)
        try:
            for point, value in launch_in(self.folders[side]).items():
                self.times.setdefault(point, []).append((side, value))
        except Failed as error:
            self.errors.append(f"{side}: {name}: {error}")
            say(f"regress: {self.errors[-1]}")


def table(verdicts):
    lines = [f"{'':44} {'base':>10} {'new':>10} {'':2} {'ratio':>6}  quartiles    verdict"]
    for point, found in verdicts.items():
        lines.append(f"{point.text():44} {found['base']:10.4g} {found['new']:10.4g} {point.unit:2} {found['ratio']:6.3f}  "
                     f"{found['quartile_1']:.2f}-{found['quartile_3']:.2f}    {found['state']}")
    counts = {state: sum(found["state"] == state for found in verdicts.values()) for state in STATES}
    return "\n".join(lines + ["", ", ".join(f"{count} {state}" for state, count in counts.items() if count)])


def as_json(given, measurement, verdicts):
    points = [{"program": point.program, "case": point.case, "ranks": point.ranks, "bytes": point.size,
               "unit": point.unit, **found,
               "times": [{"side": side, "time": value} for side, value in measurement.times[point]]}
              for point, found in verdicts.items()]
    return {"base": given.base, "conditions": machine.conditions(set()), "rounds": given.rounds, "points": points,
            "errors": measurement.errors}


def compare_builds(given, base):
    folders = {side: os.path.join(folder, "bin") for side, folder in (("base", base), ("new", given.build))}
    kinds = {side: build_type(os.path.dirname(folder)) for side, folder in folders.items()}
    if kinds["base"] != kinds["new"]:
        raise BuildFailed(f"the base's build is '{kinds['base']}', the working tree's '{kinds['new']}' "
                          "(CMAKE_BUILD_TYPE); compare equal ones")
    measurement = Measurement(given, folders)
    measurement.run()
    verdicts = judge_all(measurement.times)
    verdicts = dict(sorted(verdicts.items(), key=lambda item: (PROGRAMS.index(item[0].program), item[0].ranks,
                                                               item[0].case, item[0].size)))
    print(table(verdicts))
    for point, side in one_sided(measurement.times).items():
        say(f"regress: {point.text()}: only the {side} build has it")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(as_json(given, measurement, verdicts), file, indent=1)
    if not verdicts:
        measurement.errors.append("there is nothing that both builds can run")
        say("regress: " + measurement.errors[-1])
    return exit_status(verdicts, measurement.errors, given.fail)


def main():
    given = flags(sys.argv[1:])
    machine.adopt_orphans()
    facts = machine.conditions(set())
    say(f"regress: {facts['cpu']}, {facts['cores']} cores; {facts['versions'][0]} against {given.base[:12]}")
    try:
        build(given.build, given.programs, given.jobs, None)
        base = (contextlib.nullcontext(given.base_build) if given.base_build
                else base_build(given.base, given.programs, given.jobs))
        with base as folder:
            return compare_builds(given, folder)
    except BuildFailed as error:
        say(f"regress: {error}")
        return 3


def end(*_):
    """So that the worktree is removed; a second signal (timeout sends two) would end that too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    sys.exit(main())
