"""One launch of one setting: starts its processes, waits for them, ends them, and reads their rows."""
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time

from machine import reap_orphans
from settings import commands


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


def rows_in(path):
    """What harness.h's write_row wrote."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        parts = [line.rstrip("\n").split("\t") for line in file if line.endswith("\n")]
    return [{"algorithm": p[0], "variant": p[1], "bytes": int(p[2]), "us": float(p[3]), "calls": int(p[4]),
             "wrong": int(p[5]), "quartile_1": float(p[6]), "quartile_3": float(p[7]), "mean": float(p[8]),
             "cpu_us": float(p[9]), "detail": p[10]} for p in parts]


def launch(setting, ranks, given):
    """The rows of one launch, and an error text or None."""
    folder = tempfile.mkdtemp(prefix="peers-", dir="/tmp")
    started = time.time()
    log = open(os.path.join(folder, "log"), "w+", encoding="utf-8", errors="replace")
    processes = []
    try:
        for command, environment in commands(setting, ranks, given, folder):
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
        if killed and setting.column == "openmpi":
            remove_segments(started)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)
