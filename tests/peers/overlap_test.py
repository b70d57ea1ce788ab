"""bench/overlap/run.py: its arithmetic and its errors, then one short round.

usage: overlap_test.py FOLDER_OF_RUN_PY FOLDER_OF_PROGRAMS
"""
import importlib.util
import os
import subprocess
import sys

folder, programs = sys.argv[1:]
script = os.path.join(folder, "run.py")
spec = importlib.util.spec_from_file_location("overlap_run", script)
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

failures = []


def check(what, found, expected):
    if found != expected:
        failures.append(f"{what}: {found!r}, expected {expected!r}")


check("nothing hides", run.hidden({"blocking": 10, "compute": 30, "both": 40, "polled": 40}), (0, 0))
check("all or half hides", run.hidden({"blocking": 10, "compute": 30, "both": 30, "polled": 35}), (1, 0.5))
check("sizes", [run.size_of(text) for text in ("64", "4K", "2M")], [64, 4096, 2 << 20])
check("texts", [run.text_of(size) for size in (64, 4096, 3 << 20)], ["64 B", "4 KiB", "3 MiB"])
one = {("tutti", 64): [{"blocking": 10, "compute": 30, "both": us, "polled": 30} for us in (35, 40, 30)]}
check("medians", run.table(one, [64], ["tutti"]).split("\n")[-1], "| 64 B | 10 | 30 | 35 | 50 % | 100 % |")

for bad, words in ((["--sizes", "7"], "'7' is no size"), (["--sizes", "x"], "'x' is no size"),
                   (["--ranks", "0"], "'0' is no number above 0"), (["--rounds", "-1"], "-1")):
    ended = subprocess.run([sys.executable, script, "--bin", programs, *bad], capture_output=True, text=True)
    check(f"{bad} is refused", (ended.returncode, words in ended.stderr), (2, True))

ended = subprocess.run([sys.executable, script, "--bin", programs, "--rounds", "1", "--sizes", "64K", "--loop-ms", "5"],
                       capture_output=True, text=True)
check("a short round: " + ended.stderr, ended.returncode, 0)
check("its table", "| 64 KiB | " in ended.stdout, True)

print("\n".join(failures) or "All is as expected.")
sys.exit(1 if failures else 0)
