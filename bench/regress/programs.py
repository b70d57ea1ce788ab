"""The programs of a build that are timed, and their times as {Point: time}."""
import json
import os
import subprocess
import tempfile

from compare import Point
from launch import launch
from settings import SETTINGS, clean_environment

PROGRAMS = ("all_reduce", "reduce", "create")
TARGETS = {"all_reduce": ("tutti_command", "tutti_bench", "all_reduce_perf"), "reduce": ("reduce_bench",),
           "create": ("create_bench",)}


class Failed(Exception):
    pass


def has(folder, program):
    return os.access(os.path.join(folder, program), os.X_OK)


def output(command, seconds):
    try:
        done = subprocess.run(command, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{os.path.basename(command[0])} ran for more than {seconds} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().split("\n")[-3:]
        raise Failed(f"{os.path.basename(command[0])}: exit status {done.returncode}: " + " | ".join(words))
    return done.stdout


def written(command, flag, seconds):
    """The JSON that a command writes into the file that `flag`, with its blank or equals sign, names."""
    with tempfile.TemporaryDirectory(prefix="regress-") as folder:
        path = os.path.join(folder, "out.json")
        output(command + (flag + path).split(" "), seconds)
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as error:
            raise Failed(f"{os.path.basename(command[0])}: its JSON cannot be read: {error}") from None


def harness_times(rows, key):
    """Of launch()'s rows; wrong data is no time."""
    for row in rows:
        if row["wrong"]:
            raise Failed(f"tutti_bench, {key}: {row['wrong']} wrong elements of {row['bytes']} bytes")
    return {(row["variant"], row["bytes"]): row["us"] for row in rows}


def all_reduce(folder, key, ranks, given):
    """By tutti_bench, which bench/peers uses too."""
    given.bin = folder
    rows, error = launch(SETTINGS[key], ranks, given)
    if error:
        raise Failed(f"tutti_bench, {key}, {ranks} ranks: {error}")
    return {Point("all_reduce", f"{key} {variant}", ranks, size, "us"): us
            for (variant, size), us in harness_times(rows, key).items()}


def perf_times(report, key, ranks):
    """Of the JSON of all_reduce_perf."""
    return {Point("all_reduce", f"{key} touched", ranks, row["size"], "us"): row["out_of_place"]["time"]
            for row in report["results"]}


def all_reduce_perf(folder, key, ranks, given):
    """By all_reduce_perf, for bases without tutti_bench: sizes from the least to the most by 8."""
    program = [os.path.join(folder, "all_reduce_perf")]
    if key == "threads":
        command = program + ["-g", str(ranks)]
    else:
        command = [os.path.join(folder, "tutti"), "run", "-n", str(ranks), "--no-prefix", "--"] + program
    flags = ["-b", str(min(given.sizes)), "-e", str(max(given.sizes)), "-f", "8", "-n", "50", "-w", "5", "--touch"]
    return perf_times(written(command + flags, "-J ", given.launch_timeout), key, ranks)


def reduce_times(report):
    """Of Google Benchmark's JSON: names are CASE/WHO/BYTES, and only what is Tutti's counts."""
    found = {}
    for row in report["benchmarks"]:
        case, _, rest = row["name"].partition("/")
        who, _, size = rest.partition("/")
        if who == "tutti" and row.get("run_type", "iteration") == "iteration":
            digits = size.split("/")[0]
            found[Point("reduce", case, 0, int(digits) if digits.isdigit() else 0, row["time_unit"])] = row["real_time"]
    return found


def reduce(folder, given):
    command = [os.path.join(folder, "reduce_bench"), "--benchmark_out_format=json", "--benchmark_filter=/tutti",
               f"--benchmark_min_time={given.loop_ms / 1000}"]
    return reduce_times(written(command, "--benchmark_out=", given.launch_timeout))


def create_times(report):
    return {Point("create", f"{row['kind']} {row['phase']}", row["ranks"], 0, "ms"): row["median_ms"]
            for row in report["results"]}


def create(folder, given):
    command = [os.path.join(folder, "create_bench"), "--rounds", "7", "--ranks", ",".join(map(str, given.ranks))]
    return create_times(written(command, "--json ", given.launch_timeout))


def launches(given, folders):
    """What to launch, as pairs of a name and a function of a build's folder; only what both builds have."""
    def both(program):
        return all(has(folder, program) for folder in folders)

    found = []
    by = all_reduce if both("tutti_bench") else all_reduce_perf
    if "all_reduce" in given.programs and both("tutti") and (both("tutti_bench") or both("all_reduce_perf")):
        found += [(f"all_reduce, {key}, {ranks} ranks", lambda folder, key=key, ranks=ranks: by(folder, key, ranks, given))
                  for ranks in given.ranks for key in given.settings]
    if "reduce" in given.programs and both("reduce_bench"):
        found.append(("reduce", lambda folder: reduce(folder, given)))
    if "create" in given.programs and both("create_bench"):
        found.append(("create", lambda folder: create(folder, given)))
    return found
