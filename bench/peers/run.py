#!/usr/bin/env python3
"""Measures Tutti, Open MPI and Gloo against each other: all-reduce of float32, sum, between processes of this host.

The programs beside this file do the timing (harness.h says how). This driver starts them by turns, round after round
(Tutti, Open MPI, Gloo, Tutti, ...), so that what disturbs the machine disturbs all alike, and reports the median of the
rounds. It needs only Python; the peers come from the packages openmpi-bin, libopenmpi-dev and libgloo-dev.

    bench/peers/run.py --bin build/bin --json peers.json --csv peers.csv --markdown peers.md

Exit status: 0 when all launches ended well and all data were right, 1 when not, 2 for a bad flag, 77 when neither peer
was built (for CTest, a skipped test).
"""
import argparse
import ctypes
import datetime
import glob
import json
import os
import platform
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # leave the source tree as it is
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from report import KIB, MIB, NAMES, VARIANTS, report, summarise, write_csv  # noqa: E402

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEFAULT_SIZES = [8, 64, 256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
QUICK_SIZES = [8, 4 * KIB, 256 * KIB]
PROGRAMS = {"tutti": "tutti_bench", "openmpi": "mpi_bench", "gloo": "gloo_bench"}
SKIPPED = 77


# ---- flags ---------------------------------------------------------------------------------------------------------

def size_from(text):
    scale = {"K": KIB, "M": MIB, "G": 1 << 30}.get(text[-1:].upper(), 1)
    digits = text[:-1] if scale > 1 else text
    if not digits.isdigit() or int(digits) * scale < 4 or int(digits) * scale % 4:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; valid: bytes, a multiple of 4, with K, M or G")
    return int(digits) * scale


def list_of(item):
    def parse(text):
        return [item(part) for part in text.split(",")]
    parse.__name__ = "list"
    return parse


def whole(least, most):
    def parse(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is out of range; valid: {least} to {most}")
        return int(text)
    return parse


def peer_name(text):
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"'{text}' is no peer; valid: {', '.join(NAMES)}")
    return text


def flags():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", help="directory with tutti, tutti_bench, ... (default: the newest under build/)")
    parser.add_argument("--rounds", type=whole(1, 1000), default=5)
    parser.add_argument("--ranks", type=list_of(whole(1, 64)), default=[2, 4, 8], help="default 2,4,8")
    parser.add_argument("--sizes", type=list_of(size_from), default=DEFAULT_SIZES,
                        help="default 8, then 64 to 64M by 4")
    parser.add_argument("--peers", type=list_of(peer_name), default=list(NAMES), help="default tutti,openmpi,gloo")
    parser.add_argument("--loop-ms", type=whole(1, 60000), default=40, help="length of one timed loop, default 40")
    parser.add_argument("--seconds", type=whole(1, 86400), default=560,
                        help="no launch begins later than this; the table says how many rounds there were")
    parser.add_argument("--launch-timeout", type=whole(1, 86400), default=120, help="of one launch, seconds")
    parser.add_argument("--settle", type=whole(0, 3600), default=3,
                        help="seconds to wait, at most, for an idle machine before a launch")
    parser.add_argument("--no-bind", action="store_true",
                        help="do not bind Tutti's ranks to cores (mpirun binds its ranks when each has a core)")
    parser.add_argument("--priority", action="store_true",
                        help="run before other sessions' programs, all peers alike; for root on a machine in use")
    parser.add_argument("--quick", action="store_true", help="one short round with 2 ranks, a check of the machinery")
    for kind in ("json", "csv", "markdown"):
        parser.add_argument(f"--{kind}", metavar="FILE", help=f"write the results as {kind}")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.ranks, given.sizes, given.loop_ms, given.settle = 1, [2], QUICK_SIZES, 2, 0
    given.bin = given.bin or newest_build()
    return given


def newest_build():
    found = glob.glob(os.path.join(REPOSITORY, "build", "**", "bin", "tutti_bench"), recursive=True)
    if not found:
        sys.exit("run.py: no tutti_bench under build/; build the target tutti_bench or give its directory with --bin")
    return os.path.dirname(max(found, key=os.path.getmtime))


# ---- the machine ---------------------------------------------------------------------------------------------------

def busy_seconds():
    """CPU seconds used on this machine so far, by everybody."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    """Makes this process the parent of ranks whose launcher has ended, so that their CPU time is known here."""
    set_child_subreaper = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def reap_orphans():
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def settle(limit):
    """Waits until less than a tenth of the machine is busy, at most `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        before, start = busy_seconds(), time.monotonic()
        time.sleep(0.3)
        if busy_seconds() - before < 0.1 * os.cpu_count() * (time.monotonic() - start):
            return


def take_priority():
    """Linux shares the CPU among sessions; this one gets the largest share, and its children with it."""
    if os.getpid() != os.getsid(0):
        if os.getpid() == os.getpgid(0):
            sys.exit("run.py: --priority needs a session of its own here: start it as `setsid -w run.py ...`")
        os.setsid()
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("-20")
    except OSError as error:
        sys.exit(f"run.py: --priority needs root and a kernel with sched_autogroup_enabled: {error}")


def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, cwd=REPOSITORY)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def conditions(given, peers):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    versions = {"tutti": "Tutti " + (output_of("git", "describe", "--always", "--dirty") or "of unknown version")}
    banner = output_of(mpirun() or "mpirun", "--version").split("\n")[0]  # "mpirun.openmpi (OpenRTE) 4.1.4"
    versions["openmpi"] = "Open MPI " + (banner.split() or ["of unknown version"])[-1]
    versions["gloo"] = "Gloo " + (output_of("dpkg-query", "-W", "-f", "${Version}", "libgloo0") or "of unknown version")
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.system() + " " + platform.release(),
        "versions": [versions[peer] for peer in peers],
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join([os.path.relpath(sys.argv[0], REPOSITORY)] + sys.argv[1:]),
    }


# ---- launches ------------------------------------------------------------------------------------------------------

def mpirun():
    return shutil.which("mpirun.openmpi") or shutil.which("mpirun")


def clean_environment():
    foreign = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "TUTTI_", "GLOO_", "MASTER_")
    exact = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign) and name not in exact}


def commands_of(peer, ranks, given, folder):
    """The processes to start for one launch: pairs of command and environment."""
    program = [os.path.join(given.bin, PROGRAMS[peer]), "--page", os.path.join(folder, "page"),
               "--out", os.path.join(folder, "rows"), "--sizes", ",".join(map(str, given.sizes)),
               "--loop-ms", str(given.loop_ms)]
    environment = clean_environment()
    if peer == "tutti":
        bind = ["--bind"] if not given.no_bind and ranks <= len(os.sched_getaffinity(0)) else []
        return [([os.path.join(given.bin, "tutti"), "run", "-n", str(ranks), *bind, "--", *program], environment)]
    if peer == "openmpi":
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [([mpirun(), *root, "--oversubscribe", "-np", str(ranks), *program], environment)]
    store = os.path.join(folder, "store")
    os.mkdir(store)
    return [(program, {**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks), "GLOO_STORE": store})
            for rank in range(ranks)]


def end(processes):
    """Ends what still runs: gently, so that launchers end their ranks and remove their files, then by force."""
    for sign, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        running = [process for process in processes if process.poll() is None]
        for process in running:
            os.killpg(process.pid, sign)
        for process in running:
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                pass


def remove_segments(since):
    """Open MPI's shared memory files, which stay behind when its processes are killed."""
    for path in glob.glob("/dev/shm/vader_segment.*"):
        try:
            if os.stat(path).st_uid == os.geteuid() and os.stat(path).st_mtime >= since:
                os.unlink(path)
        except OSError:
            pass


def wait_for(processes, seconds):
    """None when all ended well, or what went wrong. One failed process is enough: the others would wait for it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        states = [process.poll() for process in processes]
        failed = [state for state in states if state]
        if failed:
            return f"exit status {failed[0]}"
        if None not in states:
            return None
        time.sleep(0.02)
    return f"still running after {seconds} s"


def launch(peer, ranks, given):
    """One launch of one peer: its rows, and an error text or None."""
    folder = tempfile.mkdtemp(prefix="peers-", dir="/tmp")
    started = time.time()
    log = open(os.path.join(folder, "log"), "w+", encoding="utf-8", errors="replace")
    processes = []
    try:
        for command, environment in commands_of(peer, ranks, given, folder):
            processes.append(subprocess.Popen(command, env={**environment, "TMPDIR": folder}, stdin=subprocess.DEVNULL,
                                              stdout=log, stderr=log, process_group=0))
        error = wait_for(processes, given.launch_timeout)
        rows = rows_in(os.path.join(folder, "rows"))
        if error is None and not rows:
            error = "no results"
        if error is not None:
            log.seek(0)
            error += "; its last words: " + " | ".join(log.read().strip().split("\n")[-5:])
        return rows, error
    finally:
        killed = any(process.poll() is None for process in processes)
        end(processes)
        reap_orphans()
        if killed and peer == "openmpi":
            remove_segments(started)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def rows_in(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        parts = [line.rstrip("\n").split("\t") for line in file if line.endswith("\n")]
    return [{"algorithm": p[0], "variant": p[1], "bytes": int(p[2]), "us": float(p[3]), "calls": int(p[4]),
             "wrong": int(p[5]), "detail": p[6]} for p in parts]


def measure_limits(given, limits):
    """Adds what the machine itself gives now (limit.cc) to `limits`: name and unit to a list of values."""
    for line in output_of(os.path.join(given.bin, "limit")).splitlines():
        name, value, unit = line.split("\t")
        limits.setdefault((name, unit), []).append(float(value))


def run_rounds(given, peers, limits):
    """All launches: rows with peer, ranks and round, error texts, and the CPU that others took per launch."""
    rows, errors, disturbance = [], [], []
    begin = time.monotonic()
    for turn in range(given.rounds):
        measure_limits(given, limits)
        for ranks in given.ranks:
            for peer in peers:
                if time.monotonic() - begin > given.seconds:
                    return rows, errors, disturbance
                settle(given.settle)
                start, busy, own = time.monotonic(), busy_seconds(), children_seconds()
                launched, error = launch(peer, ranks, given)
                wall = time.monotonic() - start
                others = max(0.0, busy_seconds() - busy - (children_seconds() - own)) / (wall * os.cpu_count())
                disturbance.append(others)
                rows += [{**row, "peer": peer, "ranks": ranks, "round": turn} for row in launched]
                failed = f"{NAMES[peer]}, {ranks} ranks, round {turn + 1}: {error}" if error else None
                if failed:
                    errors.append(failed)
                print(f"round {turn + 1}/{given.rounds}, {ranks} ranks, {NAMES[peer]}: {wall:.1f} s, others' CPU "
                      f"{others:.0%}" + (f"; FAILED: {failed}" if failed else ""), file=sys.stderr, flush=True)
    return rows, errors, disturbance


def built(given):
    """The peers that can run here; says on stderr what is missing."""
    found = []
    for peer in given.peers:
        missing = [name for name in [PROGRAMS[peer]] + (["tutti"] if peer == "tutti" else [])
                   if not os.access(os.path.join(given.bin, name), os.X_OK)]
        if peer == "openmpi" and mpirun() is None:
            missing.append("mpirun")
        if missing:
            print(f"run.py: without {NAMES[peer]}: no {' and no '.join(missing)} ({given.bin})", file=sys.stderr)
        else:
            found.append(peer)
    return found


def main():
    given = flags()
    peers = built(given)
    if "tutti" in given.peers and "tutti" not in peers:
        sys.exit("run.py: Tutti's own programs are missing; build the targets tutti_command and tutti_bench")
    if not set(peers) - {"tutti"}:
        print("run.py: neither Open MPI nor Gloo was built here: nothing to compare with, skipped", file=sys.stderr)
        return SKIPPED
    adopt_orphans()
    if given.priority:
        take_priority()
    facts = conditions(given, peers)
    limits = {}
    rows, errors, disturbance = run_rounds(given, peers, limits)
    summary = summarise(rows)
    wrong = sum(row["wrong"] for row in rows)
    text = report(given, facts, summary, limits, errors, disturbance, wrong)
    print(text)
    if given.markdown:
        with open(given.markdown, "w", encoding="utf-8") as file:
            file.write(text)
    if given.csv:
        write_csv(given.csv, summary)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            named = {name: {"unit": unit, "values": values} for (name, unit), values in limits.items()}
            json.dump({"conditions": facts, "limits": named, "others_cpu": disturbance, "errors": errors, "rows": rows},
                      file, indent=1)
    expected = {(ranks, variant, size, peer) for ranks in given.ranks for variant in VARIANTS for size in given.sizes
                for peer in peers}
    lacking = expected - set(summary)
    if lacking:
        print(f"run.py: {len(lacking)} of {len(expected)} figures are missing", file=sys.stderr)
    return 1 if errors or wrong or lacking else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that ranks and files are cleaned up
    sys.exit(main())
