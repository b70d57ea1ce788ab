"""The machine that run.py measures on: what it is, how busy others keep it, and a share of it."""
import ctypes
import datetime
import glob
import os
import platform
import resource
import shlex
import subprocess
import sys
import time

from settings import launcher

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def newest_build(program):
    """The bin/ of the build under build/ whose `program` is the newest, or None."""
    found = glob.glob(os.path.join(REPOSITORY, "build", "**", "bin", program), recursive=True)
    return os.path.dirname(max(found, key=os.path.getmtime)) if found else None


def cores():
    return len(os.sched_getaffinity(0))


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
    """Standard output of a command, or nothing when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=REPOSITORY)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def package_version(package):
    return output_of("dpkg-query", "-W", "-f", "${Version}", package) or "of unknown version"


def versions(columns, folder):
    """Names and versions of what is measured, for the columns that are, by the programs in `folder`."""
    unknown = ["of unknown version"]
    found = ["Tutti " + (output_of("git", "describe", "--always", "--dirty") or unknown[0])]
    if "openmpi" in columns:
        banner = output_of(launcher("openmpi"), "--version").split("\n")[0]  # "mpirun.openmpi (OpenRTE) 4.1.4"
        found.append(f"Open MPI {(banner.split() or unknown)[-1]} with UCX {package_version('libucx0')}")
    if "mpich" in columns:
        banner = output_of(launcher("mpich"), "--version")  # "...\n    Version:    4.0.2\n..."
        number = [line.split()[-1] for line in banner.split("\n") if line.strip().startswith("Version:")]
        found.append("MPICH " + (number or unknown)[0])
    if "gloo" in columns:
        found.append("Gloo " + package_version("libgloo0"))
    for column, name in (("ucc", "UCC"), ("oneccl", "oneCCL")):
        if column in columns:
            number = output_of(os.path.join(folder, f"{column}_bench"), "--version")
            found.append(f"{name} {number or unknown[0]}")
    return found


def conditions(columns, folder=""):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": cores(),
        "kernel": platform.system() + " " + platform.release(),
        "versions": versions(columns, folder),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join([os.path.relpath(sys.argv[0], REPOSITORY)] + sys.argv[1:]),
    }
