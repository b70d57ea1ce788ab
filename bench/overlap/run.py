#!/usr/bin/env python3
"""Measures how much of an all-reduce hides behind computation: Tutti's asynchronous one beside MPI_Iallreduce.

The libraries take turns, round after round; a figure is the median of the rounds (bench/overlap/overlap.h says of what).
"""
import argparse
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "peers"))

import launch as peers_launch  # noqa: E402
import settings as peers_settings  # noqa: E402

PHASES = ("blocking", "compute", "both", "polled")
SETTINGS = {
    "tutti": peers_settings.Setting("tutti", "tutti", "tutti_overlap", "`tutti run`"),
    "openmpi": peers_settings.Setting("openmpi", "openmpi", "mpi_overlap_openmpi", "`mpirun --oversubscribe`"),
    "mpich": peers_settings.Setting("mpich", "mpich", "mpi_overlap_mpich", "`mpiexec -launcher fork`"),
}


def hidden(times):
    """The shares of the all-reduce that hid, without and with polling, from the microseconds of the phases."""
    return tuple((times["blocking"] + times["compute"] - times[phase]) / times["blocking"]
                 for phase in ("both", "polled"))


def size_of(text):
    factors = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, factor = (text[:-1], factors[text[-1]]) if text[-1:] in factors else (text, 1)
    if not number.isdecimal() or int(number) * factor % 4 or int(number) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; valid: multiples of 4 such as 64, 64K, 1M")
    return int(number) * factor


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return int(text)


def text_of(size):
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def table(found, sizes, keys):
    lines = ["| size | " + " | ".join(f"{key}: alone us | computing us | both us | hidden | hidden, polled"
                                      for key in keys) + " |", "|---:|" + "---:|" * (5 * len(keys))]
    for size in sizes:
        cells = []
        for key in keys:
            rounds = found.get((key, size), [])
            if not rounds:
                cells.append("- | - | - | - | -")
                continue
            middle = {phase: statistics.median(times[phase] for times in rounds) for phase in PHASES}
            shares = [statistics.median(column) for column in zip(*map(hidden, rounds))]
            cells.append(" | ".join(f"{middle[phase]:.3g}" for phase in PHASES[:3]) +
                         "".join(f" | {100 * share:.0f} %" for share in shares))
        lines.append(f"| {text_of(size)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", required=True, help="directory with tutti, tutti_overlap, ...")
    parser.add_argument("--ranks", type=positive, default=2)
    parser.add_argument("--rounds", type=positive, default=7)
    parser.add_argument("--sizes", default="64K,1M,16M", type=lambda text: [size_of(s) for s in text.split(",")])
    parser.add_argument("--loop-ms", type=positive, default=100, help="length of one phase")
    given = parser.parse_args(arguments)
    given.point_ms, given.variants, given.no_bind, given.priority = 4000, ("touched",), False, False
    given.launch_timeout = 300
    return given


def main(arguments):
    given = parse(arguments)
    keys = []
    for key, setting in SETTINGS.items():
        lacking = peers_settings.missing(setting, given.bin)
        if lacking:
            print(f"without {key}: {', '.join(lacking)} is not in {given.bin}", file=sys.stderr)
        else:
            keys.append(key)
    if "tutti" not in keys:
        return 1
    found = {}
    for number in range(given.rounds):
        for key in keys:
            rows, error = peers_launch.launch(SETTINGS[key], given.ranks, given)
            if error is not None:
                print(f"{key}: {error}", file=sys.stderr)
                return 1
            for size in given.sizes:
                times = {row["algorithm"]: row["us"] for row in rows if row["bytes"] == size}
                found.setdefault((key, size), []).append(times)
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr)
    print(f"{given.ranks} ranks on {len(os.sched_getaffinity(0))} cores; {given.rounds} rounds, interleaved\n")
    print(table(found, given.sizes, keys))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
