#!/usr/bin/env python3
"""Checks that programs shown in the documents are the ones that are built and tested, and that links lead somewhere.

usage: documents.py ROOT
"""
import os
import re
import sys

import tree

# Document -> the file whose whole text it shows between ```cpp and ```.
SHOWN = {
    "README.md": "examples/all_reduce.cc",
    "docs/training.md": "examples/mlp/minimal.cc",
}
# Where the library's environment variables are listed, and where explained.
VARIABLES, TABLE = "src/base/variables.h", "docs/design.md"
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|<img [^>]*src=\"([^\"]+)\"")


def main():
    root = sys.argv[1]
    faults = []
    for document, source in SHOWN.items():
        with open(os.path.join(root, document), encoding="utf-8") as file:
            blocks = re.findall(r"^```cpp\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        with open(os.path.join(root, source), encoding="utf-8") as file:
            if file.read() not in blocks:
                faults.append(f"{document} does not show {source} as it is; copy the file into its ```cpp block")
    with open(os.path.join(root, VARIABLES), encoding="utf-8") as file:
        known = set(re.findall(r'"(TUTTI_\w+)"', file.read()))
    rows = [line.split("|")[1] for line in tree.read_lines(root, TABLE) if line.startswith("| `TUTTI_")]
    explained = set(re.findall(r"`(TUTTI_\w+)`", " ".join(rows)))
    for name in sorted(known ^ explained):
        faults.append(f"{name} is in {VARIABLES if name in known else TABLE} only, not in the other of {VARIABLES} and {TABLE}")
    documents = [path for path in tree.tracked_files(root) if path.endswith(".md")]
    for document in documents:
        for number, line in enumerate(tree.read_lines(root, document), 1):
            for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
                target = match[1] or match[2]
                if "://" in target:
                    continue
                if not os.path.exists(os.path.join(root, os.path.dirname(document), target)):
                    faults.append(f"{document}:{number}: the link to {target} leads nowhere")
    tree.report(faults, f"{len(documents)} documents show what is there")


main()
