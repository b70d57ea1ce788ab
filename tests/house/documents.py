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
