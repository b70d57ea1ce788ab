"""bench/regress: its arithmetic, what it reads from programs, and its errors; nothing is built or measured.

usage: regress_test.py FOLDER_OF_RUN_PY
"""
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [sys.argv[1], os.path.join(os.path.dirname(sys.argv[1]), "peers")]
from compare import Point, exit_status, judge, judge_all, one_sided, order, pairs  # noqa: E402
from programs import Failed, create_times, harness_times, launches, perf_times, reduce_times  # noqa: E402

failures = []


def check(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found!r}, expected {expected!r}")


def turns(base, new):
    """In the order of running, from each side's times."""
    sides = {"base": iter(base), "new": iter(new)}
    return [(side, next(sides[side])) for side in order(len(base) // 2)]


check("order", order(2), ["base", "new", "new", "base", "base", "new", "new", "base"])
check("pairs", pairs(turns([1.0, 4.0], [2.0, 3.0])), [(1.0, 2.0), (4.0, 3.0)])

# 5 % where runs agree.
for new, state in ((10.4, "same"), (10.6, "slower"), (9.6, "same"), (9.4, "faster")):
    check(f"{new} to 10", judge(turns([10.0] * 6, [new] * 6))["state"], state)
# The interquartile range where it is larger: ratios 1, 1.1, 1.2, 1.2, 1.3, 1.4 have quartiles 1.125 and 1.275.
found = judge(turns([10.0] * 6, [10.0, 11.0, 12.0, 12.0, 13.0, 14.0]))
check("wide", (found["ratio"], round(found["tolerance"], 9), found["state"]), (1.2, 0.125, "slower"))
check("wider", judge(turns([10.0] * 6, [8.0, 9.0, 12.0, 12.0, 14.0, 15.0]))["state"], "same")
# The machine's drift is no spread: neighbours are compared.
found = judge(turns([10.0, 20.0, 20.0, 40.0, 40.0, 80.0], [11.0, 22.0, 22.0, 44.0, 44.0, 88.0]))
check("drift", (round(found["ratio"], 9), found["tolerance"], found["state"]), (1.1, 0.05, "slower"))
check("two rounds", judge(turns([10.0] * 4, [20.0] * 4))["state"], "undecided")
check("one side", judge([("new", 1.0)]), None)

point, other = Point("all_reduce", "tutti touched", 2, 8, "us"), Point("create", "threads destroy", 2, 0, "ms")
times = {point: turns([10.0] * 6, [20.0] * 6), other: [("new", 1.0)]}
check("both", list(judge_all(times)), [point])
check("only one", one_sided(times), {other: "new"})
check("text", (point.text(), other.text()),
      ("all_reduce: tutti touched, 2 ranks, 8 B", "create: threads destroy, 2 ranks"))
slower = judge_all(times)
check("status", [exit_status(slower, [], "slower"), exit_status(slower, [], "never"), exit_status({}, [], "slower"),
                 exit_status(slower, ["x"], "never")], [1, 0, 0, 3])

# What programs write.
row = {"variant": "touched", "bytes": 8, "us": 0.5, "wrong": 0}
check("harness", harness_times([row], "tutti"), {("touched", 8): 0.5})
try:
    harness_times([{**row, "wrong": 3}], "tutti")
    failures.append("wrong elements are no failure")
except Failed as error:
    check("wrong", str(error), "tutti_bench, tutti: 3 wrong elements of 8 bytes")
check("perf", perf_times({"results": [{"size": 64, "out_of_place": {"time": 2.5}}]}, "threads", 4),
      {Point("all_reduce", "threads touched", 4, 64, "us"): 2.5})
check("reduce", reduce_times({"benchmarks": [
    {"name": "sum2_float/tutti/131072", "real_time": 7.0, "time_unit": "ns"},
    {"name": "sum2_float/hand/131072", "real_time": 6.0, "time_unit": "ns"}]}),
      {Point("reduce", "sum2_float", 0, 131072, "ns"): 7.0})
check("create", create_times({"results": [{"kind": "threads", "phase": "create", "ranks": 2, "median_ms": 3.0}]}),
      {Point("create", "threads create", 2, 0, "ms"): 3.0})


class Given:
    programs, settings, ranks, sizes = ["all_reduce", "reduce", "create"], ["tutti", "threads"], [2, 4], [8]


# Only what both builds have is launched.
with tempfile.TemporaryDirectory() as folder:
    builds = [os.path.join(folder, name) for name in ("base", "new")]
    for build in builds:
        os.mkdir(build)
        for program in ["tutti", "tutti_bench", "reduce_bench"] + (["create_bench"] if build.endswith("new") else []):
            path = os.path.join(build, program)
            with open(path, "w", encoding="utf-8"):
                pass
            os.chmod(path, 0o755)
    check("launches", [name for name, _ in launches(Given, builds)],
          ["all_reduce, tutti, 2 ranks", "all_reduce, threads, 2 ranks", "all_reduce, tutti, 4 ranks",
           "all_reduce, threads, 4 ranks", "reduce"])

# Flags: status 2, and the value with the valid ones.
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "bin"))
    for arguments, words in ((["nonsense~99"], "'nonsense~99' is no commit"),
                             (["HEAD", "--base-build", "/nowhere"], "'/nowhere' is no build"),
                             (["HEAD", "--ranks", "0"], "'0' is out of range; valid: 1 to 64"),
                             (["HEAD", "--sizes", "6"], "'6' is no size"),
                             (["HEAD", "--programs", "tune"], "'tune' is no program; valid: all_reduce, reduce, create"),
                             (["HEAD", "--settings", "gloo"], "valid: tutti, threads, tutti-alloc"),
                             (["HEAD", "--fail", "maybe"], "maybe"),
                             (["HEAD", "--build", folder, "--json", "/nowhere/x"], "'/nowhere/x' cannot be written"),
                             ([], "base")):
        if arguments[:1] == ["HEAD"]:
            repository = os.path.dirname(os.path.dirname(sys.argv[1]))
            if not os.path.exists(os.path.join(repository, ".git")):
                continue  # a source tree without its history has no commit to name
        done = subprocess.run([sys.executable, "-B", os.path.join(sys.argv[1], "run.py"), *arguments],
                              capture_output=True, text=True, timeout=60, check=False)
        check(f"status of {arguments}", done.returncode, 2)
        if words not in done.stderr:
            failures.append(f"{arguments}: {words!r} is not in {done.stderr!r}")

for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
