#!/usr/bin/env python3
"""Checks the include directions of the house.

usage: includes.py ROOT          checks the tree
       includes.py --self-test   checks that each kind of violation is found, in small planted trees
"""
import os
import re
import sys
import tempfile

import tree

PUBLIC = "include/tutti/"
PUBLIC_C = "include/nccl"
ANYTHING = [""]

# Folder (or file) -> what it may include, besides itself: prefixes of paths. The longest matching key counts.
RULES = {
    PUBLIC: [],
    PUBLIC_C: [],  # the C interface: headers of its own
    "src/base/": [PUBLIC],
    "src/topology/": [PUBLIC, "src/base/"],
    "src/schedule/": [PUBLIC, "src/base/", "src/topology/"],
    "src/planner/": [PUBLIC, "src/base/", "src/topology/", "src/schedule/"],
    "src/simulator/": [PUBLIC, "src/base/", "src/topology/", "src/schedule/"],
    "src/runtime/": [PUBLIC, "src/base/", "src/topology/", "src/schedule/", "src/planner/", "src/simulator/"],
    "src/ddp/": [PUBLIC, "src/base/", "src/topology/", "src/schedule/", "src/planner/", "src/simulator/",
                 "src/runtime/"],
    "src/nccl/": [PUBLIC, PUBLIC_C, "src/base/"],  # over the public C++ interface alone
    "src/tutti.cc": ANYTHING,  # the one file that names concrete transports and kernels
    "transport/": [PUBLIC, "src/base/", "src/runtime/"],
    "kernels/": [PUBLIC, "src/base/", "src/runtime/reducer.h", "src/schedule/step.h"],
    "tools/": [PUBLIC, "src/", "bench/", "examples/"],
    "bench/": ANYTHING,
    "examples/": [PUBLIC],
    "tests/": ANYTHING,
}
# One transport knows nothing of another, nor do kernels of different devices.
SEPARATE = ("transport/", "kernels/")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def owner_of(path):
    """The key of RULES that speaks for this file."""
    keys = [key for key in RULES if path.startswith(key)]
    return max(keys, key=len) if keys else None


def home_of(path):
    """The folder whose files may always include each other."""
    owner = owner_of(path)
    return "/".join(path.split("/")[:2]) + "/" if owner in SEPARATE else owner


def included_path(name, bracket):
    """The path in the tree of an included header; None for headers of the system and of other projects."""
    if name.startswith("tutti/") or re.fullmatch(r"nccl(_\w+)?\.h", name):
        return "include/" + name
    return name if bracket == '"' else None


def faults_of(root, path):
    if owner_of(path) is None:
        yield f"{path}: no rule says what this folder may include"
        return
    for number, line in enumerate(tree.read_lines(root, path), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = included_path(match[2], match[1])
        if target is None:
            continue
        where = f"{path}:{number}: "
        if not os.path.isfile(os.path.join(root, target)):
            yield where + f'"{match[2]}" is no file of this project; includes are written from the root of the tree'
        elif not target.startswith(tuple([home_of(path)] + RULES[owner_of(path)])):
            yield where + f"{owner_of(path)} may not include {target}"


def faults_of_tree(root, paths):
    return [fault for path in paths if tree.is_cpp(path) for fault in faults_of(root, path)]


# ---- self-test ------------------------------------------------------------------------------------------------------

LAYERS = ["src/base", "src/topology", "src/schedule", "src/planner", "src/runtime", "src/ddp"]


def planted_cases():
    """(file, what it includes, whether that is right)"""
    for low in range(len(LAYERS)):
        for high in range(len(LAYERS)):
            yield f"{LAYERS[low]}/a.h", f"{LAYERS[high]}/b.h", high <= low
    yield "src/planner/a.cc", "src/simulator/b.h", False
    yield "src/simulator/a.cc", "src/planner/b.h", False
    yield "src/simulator/a.cc", "src/schedule/b.h", True
    yield "src/runtime/a.cc", "src/simulator/b.h", True
    yield "src/simulator/a.cc", "src/runtime/b.h", False
    for user in ["src/runtime/a.cc", "src/ddp/a.cc", "src/base/a.cc", "tools/tutti/a.cc", "examples/a.cc"]:
        yield user, "transport/shm/b.h", False
        yield user, "kernels/host/b.h", False
    for user in ["src/tutti.cc", "tests/runtime/a.cc", "bench/a.cc"]:
        yield user, "transport/shm/b.h", True
        yield user, "kernels/host/b.h", True
    yield "transport/tcp/a.cc", "transport/tcp/b.h", True
    yield "transport/tcp/a.cc", "transport/shm/b.h", False
    yield "transport/tcp/a.cc", "src/runtime/b.h", True
    yield "transport/tcp/a.cc", "src/schedule/b.h", False
    yield "transport/tcp/a.cc", "kernels/host/b.h", False
    yield "kernels/host/a.cc", "src/runtime/reducer.h", True
    yield "kernels/host/a.cc", "src/runtime/b.h", False
    yield "kernels/host/a.cc", "src/schedule/step.h", True
    yield "kernels/host/a.cc", "src/schedule/b.h", False
    yield "include/tutti/a.h", "include/tutti/b.h", True
    yield "include/nccl_a.h", "include/nccl.h", True
    yield "include/nccl.h", "include/tutti/b.h", False
    yield "src/nccl/a.cc", "include/nccl.h", True
    yield "src/nccl/a.cc", "include/tutti/b.h", True
    yield "src/nccl/a.cc", "src/base/b.h", True
    yield "src/nccl/a.cc", "src/runtime/b.h", False
    yield "src/runtime/a.cc", "src/nccl/b.h", False
    yield "src/runtime/a.cc", "include/nccl.h", False
    yield "include/tutti/a.h", "src/base/b.h", False
    yield "examples/a.cc", "include/tutti/b.h", True
    yield "examples/a.cc", "src/base/b.h", False
    yield "tools/tutti/a.cc", "src/planner/b.h", True
    yield "elsewhere/a.cc", "include/tutti/b.h", False


def write(root, path, text):
    os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def self_test():
    faults = []

    def expect(user, line, right, included=None):
        with tempfile.TemporaryDirectory() as root:
            if included:
                write(root, included, "#pragma once\n")
            write(root, user, f"// a comment\n{line}\n")
            found = faults_of_tree(root, [user])
            if (not found) != right or (owner_of(user) and not all(f.startswith(user + ":2:") for f in found)):
                faults.append(f"{user} with {line}: found {found}")

    for user, included, right in planted_cases():
        name = included[len("include/"):] if included.startswith("include/") else included
        expect(user, f'#include "{name}"', right, included)
    expect("src/base/a.cc", "#include <src/runtime/b.h>", True)  # not of this tree
    expect("src/base/a.cc", "#include <tutti/b.h>", True, "include/tutti/b.h")
    expect("src/base/a.cc", '#include "b.h"', False, "src/base/b.h")
    expect("src/base/a.cc", '#  include  "src/runtime/b.h"', False, "src/runtime/b.h")
    expect("src/base/a.cc", '// #include "src/runtime/b.h"', True, "src/runtime/b.h")
    tree.report(faults, "every planted violation is found, and nothing else")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1]
    paths = [path for path in tree.tracked_files(root) if tree.is_cpp(path)]
    if len(paths) < 100:
        sys.exit(f"only {len(paths)} source files found under {root}")
    tree.report(faults_of_tree(root, paths), f"{len(paths)} files include only what they may")


main()
