"""The driver's figures and verdicts, from rows whose answer is known.

usage: results_test.py FOLDER_OF_RUN_PY
"""
import argparse
import sys

sys.path.insert(0, sys.argv[1])
from documents import wrapped  # noqa: E402
from plot import COLOURS  # noqa: E402
from results import judge, RULES, summarise  # noqa: E402
from settings import COLUMNS, commands, SETTINGS  # noqa: E402

failures = []


def check(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found!r}, expected {expected!r}")


def rows(setting, times, size, algorithm="default"):
    return [{"setting": setting, "algorithm": algorithm, "ranks": 2, "variant": "touched", "bytes": size, "us": us,
             "round": turn, "detail": "", "cpu_us": 1.0} for turn, us in enumerate(times)]


def verdict(name, size, *groups):
    summary = summarise([row for group in groups for row in group])
    return judge(summary, next(rule for rule in RULES if rule.name == name), 2, "touched", size)


KIB = 1024
seven = [10.0] * 7

# The best of a column's settings counts, and the best peer is the best of those.
found = verdict("Tutti / best peer", 8, rows("tutti", seven, 8), rows("openmpi", [30.0] * 7, 8),
                rows("openmpi-ucx", [20.0] * 7, 8), rows("mpich", [25.0] * 7, 8),
                rows("gloo", [90.0] * 7, 8, "ring"), rows("gloo", [40.0] * 7, 8, "halving_doubling"))
check("best peer", (found["against"], found["candidate"], found["ratio"], found["state"]),
      ("openmpi", "openmpi-ucx", 0.5, "holds"))

# limit_bench's rows are two columns.
summary = summarise(rows("limit", seven, 8, "staged one-shot") + rows("limit", [4.0] * 7, 8, "mapped two-shot"))
check("columns", {key[3]: entry["us"] for key, entry in summary.items()}, {"staged": 10.0, "mapped": 4.0})

# 5 % are allowed where the rounds agree, the interquartile range where it is larger.
for us, state in ((10.4, "holds"), (10.6, "misses")):
    check(f"{us} to 10", verdict("Tutti / best peer", 8, rows("tutti", [us] * 7, 8), rows("mpich", seven, 8))["state"],
          state)
spread = [9.0, 9.5, 10.5, 11.5, 12.5, 13.0, 14.0]
check("within the range", verdict("Tutti / best peer", 8, rows("tutti", spread, 8), rows("mpich", seven, 8))["state"],
      "holds")

# Ratios are taken within a round: both slow in one round is no spread.
together = [10.0, 10.0, 50.0, 50.0, 10.0, 50.0, 10.0]
found = verdict("Tutti / staged", 4 * KIB, rows("tutti", together, 4 * KIB),
                rows("limit", [us / 1.4 for us in together], 4 * KIB, "staged one-shot"))
check("paired", (round(found["ratio"], 9), found["tolerance"], found["state"]), (1.4, 0.05, "misses"))

# Memory of tutti::alloc has a column of its own, beside threads, and is judged like them.
for setting, rule in (("tutti-alloc", "tutti::alloc / mapped"), ("threads", "threads / mapped")):
    for us, state in ((12.0, "holds"), (14.0, "misses")):
        found = verdict(rule, 64 * KIB, rows(setting, [us] * 7, 64 * KIB),
                        rows("limit", seven, 64 * KIB, "mapped two-shot"))
        check(f"{setting} {us}", (found["candidate"], found["state"]), ("mapped two-shot", state))
given = argparse.Namespace(bin="/bin", sizes=[8], loop_ms=1, point_ms=1, variants=["touched"], no_bind=True,
                           priority=False)
for key in ("tutti", "tutti-alloc"):
    command = commands(SETTINGS[key], 2, given, "/folder")[0][0]
    check(f"memory of {key}", (command[:4], "--memory" in command),
          (["/bin/tutti", "run", "-n", "2"], key == "tutti-alloc"))

# UCC and oneCCL are peers like the others, the better of UCC's settings counts, and each rank is a process of its own.
found = verdict("Tutti / best peer", 8, rows("tutti", seven, 8), rows("openmpi", [30.0] * 7, 8),
                rows("ucc-knomial", [5.0] * 7, 8), rows("ucc-sra", [6.0] * 7, 8), rows("oneccl", [8.0] * 7, 8))
check("best of UCC", (found["against"], found["candidate"], found["ratio"], found["state"]),
      ("ucc", "ucc-knomial", 2.0, "misses"))
check("oneCCL", verdict("Tutti / best peer", 8, rows("tutti", seven, 8), rows("oneccl", [20.0] * 7, 8))["against"],
      "oneccl")
for key, variable, value in (("ucc-knomial", "UCC_TL_UCP_TUNE", "allreduce:@knomial:inf"),
                             ("ucc-sra", "UCC_TL_UCP_TUNE", "allreduce:@sra_knomial:inf"),
                             ("oneccl", "CCL_WORKER_OFFLOAD", "0")):
    started = commands(SETTINGS[key], 3, given, "/folder")
    check(f"processes of {key}", [(command[0], command[-2:], environment["RANK"], environment["WORLD_SIZE"],
                                   environment[variable]) for command, environment in started],
          [("/bin/" + SETTINGS[key].program, ["--bind", "0"], str(rank), "3", value) for rank in range(3)])
check("columns without a name or a colour", [column for column in {setting.column for setting in SETTINGS.values()}
                                             if column not in COLUMNS or column not in COLOURS], [])

# 1.5 is allowed below 1 KiB only.
for size, state in ((256, "holds"), (KIB, "misses")):
    check(f"staged at {size}", verdict("Tutti / staged", size, rows("tutti", [14.5] * 7, size),
                                       rows("limit", seven, size, "flag in line"))["state"], state)

# Below 64 KiB nothing is asked against one MPI; six rounds decide nothing; nothing to compare with is no verdict.
check("32 KiB", verdict("Tutti / MPICH", 32 * KIB, rows("tutti", seven, 32 * KIB), rows("mpich", seven, 32 * KIB)), None)
check("six rounds", verdict("Tutti / MPICH", 64 * KIB, rows("tutti", seven, 64 * KIB),
                            rows("mpich", [100.0] * 6, 64 * KIB))["state"], "undecided")
check("no peer", verdict("Tutti / best peer", 8, rows("tutti", seven, 8)), None)

check("wrapped", [len(line) <= 120 for line in wrapped("- " + "word " * 60 + "\n| " + "x" * 200).split("\n")],
      [True, True, True, False])

for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
