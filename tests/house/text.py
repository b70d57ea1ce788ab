#!/usr/bin/env python3
"""Checks the text of the tree: the length of files, paths of somebody's own machine, leftovers of merges.

usage: text.py ROOT
       text.py --self-test
"""
import os
import re
import sys
import tempfile

import tree

MOST_LINES = 450
# Longer files, each with its limit. Split a file rather than adding it here.
LONGER = {}

TEXT = (".h", ".cc", ".cmake", ".txt", ".py", ".sh", ".md", ".json", ".in", ".tsv", ".yml", ".yaml")
TEXT_NAMES = {"LICENSE", "run", ".clang-format", ".clang-tidy", ".gitignore"}

# (what is wrong, pattern); written so that they do not match themselves.
PATTERNS = [
    ("a path of somebody's machine", re.compile(r"(?<![\w.$}{*-])/(?:wor[k]|hom[e]/\w+|roo[t]|Use[r]s/\w+)/")),
    ("a leftover of a merge", re.compile(r"^(?:<{7} |>{7} |={7}$)")),
    ("white space at the end of a line", re.compile(r"[ \t\r]$")),
]
TAB = re.compile("\t")


def is_text(path):
    name = path.rsplit("/", 1)[-1]
    return name.endswith(TEXT) or name in TEXT_NAMES


def faults_of(root, path):
    try:
        lines = tree.read_lines(root, path)
    except UnicodeDecodeError as error:
        yield f"{path}: is not UTF-8: {error}"
        return
    limit = LONGER.get(path, MOST_LINES)
    if len(lines) > limit:
        yield f"{path}: has {len(lines)} lines; at most {limit}"
    for number, line in enumerate(lines, 1):
        for what, pattern in PATTERNS:
            if pattern.search(line):
                yield f"{path}:{number}: {what}: {line.strip()}"
        if tree.is_cpp(path) and TAB.search(line):
            yield f"{path}:{number}: a tab"


def self_test():
    work, root_folder = "/wo" + "rk/", "/ro" + "ot/"
    cases = [
        ("a.cc", "int x;\n" * MOST_LINES, True),
        ("a.cc", "int x;\n" * (MOST_LINES + 1), False),
        ("a.md", f"see {work}main\n", False),
        ("a.sh", f"cd {root_folder}x\n", False),
        ("a.md", "see /ho" + "me/somebody/file\n", False),
        ("a.md", "the answer lies in src" + work + "file and in $HOME" + root_folder + "x\n", True),
        ("a.cc", "<" * 7 + " HEAD\n", False),
        ("a.md", "=" * 7 + "\n", False),
        ("a.md", "=" * 8 + "\n", True),
        ("a.py", "x = 1 \n", False),
        ("a.cc", "\tint x;\n", False),
        ("a.sh", "\techo\n", True),
    ]
    faults = []
    for path, text, right in cases:
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
            found = list(faults_of(root, path))
            if (not found) != right:
                faults.append(f"{path} with {text[:40]!r}: found {found}")
    tree.report(faults, "every planted fault is found, and nothing else")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = sys.argv[1]
    paths = [path for path in tree.tracked_files(root) if is_text(path)]
    if len(paths) < 100:
        sys.exit(f"only {len(paths)} files of text found under {root}")
    faults = [fault for path in paths for fault in faults_of(root, path)]
    tree.report(faults, f"{len(paths)} files of text are in order")


main()
