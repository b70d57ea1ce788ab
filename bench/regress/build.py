"""The two builds: the working tree's, brought up to date, and the base commit's in a git worktree of its own."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

from machine import REPOSITORY, output_of
from programs import TARGETS


class BuildFailed(Exception):
    pass


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise BuildFailed(f"`{' '.join(command)}` failed:\n" + "\n".join(done.stdout.strip().split("\n")[-15:]))
    return done.stdout


def commit_of(name):
    """The full id of a commit, or None."""
    return output_of("git", "rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}") or None


def targets_of(folder, programs):
    """Those of the programs' targets that the build in `folder` has; an old base lacks some."""
    known = run(["cmake", "--build", folder, "--target", "help"])
    words = set(known.replace(":", " ").split())
    return [target for program in programs for target in TARGETS[program] if target in words]


def build(folder, programs, jobs, environment):
    for target in targets_of(folder, programs):
        run(["cmake", "--build", folder, "--target", target, "-j", str(jobs)], env=environment)


def build_type(folder):
    try:
        with open(os.path.join(folder, "CMakeCache.txt"), encoding="utf-8") as cache:
            return next((line.split("=", 1)[1].strip() for line in cache if line.startswith("CMAKE_BUILD_TYPE:")), "")
    except OSError:
        return ""


def configure(source, folder):
    command = ["cmake", "--preset", "release", "-S", source, "-B", folder]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    if shutil.which("ccache"):
        command += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    run(command, cwd=source)


@contextlib.contextmanager
def base_build(commit, programs, jobs):
    """The base's build folder; gone at the end, with its worktree."""
    folder = tempfile.mkdtemp(prefix="tutti-base-")
    source = os.path.join(folder, "source")
    try:
        run(["git", "worktree", "add", "--detach", source, commit], cwd=REPOSITORY)
        environment = {**os.environ, "CCACHE_BASEDIR": source, "CCACHE_NOHASHDIR": "1"}
        print(f"regress: building {commit[:12]} in {source}", file=sys.stderr, flush=True)
        configure(source, os.path.join(source, "build"))
        build(os.path.join(source, "build"), programs, jobs, environment)
        yield os.path.join(source, "build")
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", source], cwd=REPOSITORY, capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)
