"""Where NVIDIA's own NCCL header lies on this machine, and how tests that need it say that there is none."""
import glob
import os
import subprocess
import sys

SKIPPED = 77  # tests/nccl/CMakeLists.txt tells CTest


def folder():
    """The include folder of a CUDA toolkit that has nccl.h and cuda_runtime.h; None without one."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    homes += sorted(glob.glob("/usr/local/cuda-*"), reverse=True)
    for home in filter(None, homes):
        include = os.path.join(home, "include")
        if all(os.path.isfile(os.path.join(include, name)) for name in ("nccl.h", "cuda_runtime.h")):
            return include
    return None


def folder_or_skip():
    include = folder()
    if include is None:
        print("skipped: no CUDA toolkit with nccl.h was found (CUDA_HOME, /usr/local/cuda)")
        sys.exit(SKIPPED)
    return include


def run(*command, env=None):
    """Its output; ends the test when it fails."""
    done = subprocess.run(command, text=True, capture_output=True, timeout=100, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout
