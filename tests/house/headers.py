#!/usr/bin/env python3
"""Compiles every header alone, so that each can be included first.

usage: headers.py ROOT COMPILER             all headers of the tree
       headers.py --public ROOT COMPILER    those under include/, which are given the public include path only
       headers.py --self-test COMPILER
"""
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import tree

FLAGS = ["-x", "c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-O0"]
# Parts of one source text, which is compiled once per instruction set; reduce.h says which macros it wants.
EXCEPT = {"kernels/host/reduce.h", "kernels/host/elements.h", "kernels/host/vector.h"}


def complaint(root, compiler, header):
    """What the compiler says about the header alone; empty when it is content."""
    public = header.startswith("include/")
    name = header[len("include/"):] if public else header
    paths = ["-I", os.path.join(root, "include")] + ([] if public else ["-I", root])
    # Twice: a header without #pragma once shows itself.
    text = f'#include "{name}"\n#include "{name}"\n'
    done = subprocess.run([compiler] + FLAGS + paths + ["-"], input=text, text=True, capture_output=True)
    return f"{header} does not compile alone:\n{done.stderr}" if done.returncode != 0 else ""


def self_test(compiler):
    cases = {
        "include/tutti/good.h": ("#pragma once\n#include <string>\nstd::string f();\n", True),
        "include/tutti/forgets.h": ("#pragma once\nstd::string f();\n", False),
        "include/tutti/once.h": ("struct A {};\n", False),
        "include/tutti/inner.h": ('#pragma once\n#include "src/base/good.h"\n', False),
        "src/base/good.h": ('#pragma once\n#include "tutti/good.h"\n', True),
    }
    faults = []
    with tempfile.TemporaryDirectory() as root:
        for path, (text, _) in cases.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        for path, (_, right) in cases.items():
            said = complaint(root, compiler, path)
            if (said == "") != right:
                faults.append(f"{path}: {said or 'no complaint'}")
    tree.report(faults, "headers that do not compile alone are found")


def main():
    if sys.argv[1] == "--self-test":
        return self_test(sys.argv[2])
    public = sys.argv[1] == "--public"
    root, compiler = sys.argv[1 + public:]
    folder, fewest = ("include/", 5) if public else ("", 50)
    headers = [path for path in tree.tracked_files(root)
               if path.startswith(folder) and path.endswith(".h") and path not in EXCEPT]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda header: complaint(root, compiler, header), headers))
    if len(headers) < fewest:
        sys.exit(f"only {len(headers)} headers found under {root}")
    tree.report([text for text in said if text], f"{len(headers)} headers compile alone")


main()
