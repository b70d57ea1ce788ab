"""The files of the source tree, for the tests of the house. Paths are relative to the root, with slashes."""
import os
import subprocess
import sys

SKIPPED_FOLDERS = {".git", "build", "out", "__pycache__"}


def tracked_files(root):
    """The files under version control; without git, all but those of build folders."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"], capture_output=True)
    if listed.returncode == 0 and os.path.exists(os.path.join(root, ".git")):
        names = [name.decode() for name in listed.stdout.split(b"\0") if name]
        return sorted(name for name in names if os.path.isfile(os.path.join(root, name)))
    found = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED_FOLDERS]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def is_cpp(path):
    return path.endswith((".h", ".cc"))


def read_lines(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read().splitlines()


def report(faults, success):
    """Ends the test: prints the faults, or what was found right."""
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(f"{len(faults)} faults")
    print(success)
