#!/usr/bin/env python3
"""Checks Tutti's nccl.h: compiled as C99 and C++, without and with CUDA's headers, and value by value.

usage: header.py compiles ROOT WORK CC CXX           without CUDA's headers, whether the machine has them or not
       header.py compiles-with-cuda ROOT WORK CC CXX
       header.py numbers ROOT WORK CC                values, sizes and offsets are those written in values.expected
       header.py equals-toolkit ROOT WORK CC         and those of the toolkit's own header, function types included
"""
import os
import re
import subprocess
import sys

import toolkit

HEADERS = ["nccl.h", "nccl_later.h", "nccl_device.h"]
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
DIALECTS = [("c", "-std=c99"), ("c", "-std=c11"), ("c++", "-std=c++11"), ("c++", "-std=c++20")]


def system_folders(compiler):
    """Those that the compiler searches by itself, without those of locally installed software."""
    done = subprocess.run([compiler, "-xc", "-E", "-v", os.devnull], text=True, capture_output=True, check=True)
    listed = done.stderr.split("#include <...> search starts here:")[1].split("End of search list.")[0].split()
    return [name for name in listed if "/local/" not in name]


def without_cuda(compiler):
    return ["-nostdinc"] + [part for name in system_folders(compiler) for part in ("-isystem", name)]


def compile_all(root, compilers, flags):
    for language, dialect in DIALECTS:
        compiler = compilers[language]
        for header in HEADERS:
            # C++'s own headers are not needed: these are C.
            toolkit.run(compiler, "-x", language, dialect, *STRICT, *flags(compiler),
                        os.path.join(root, "include", header))
    print(f"{len(HEADERS)} headers compile in {len(DIALECTS)} dialects")


def values_of(include, work, compiler, name, flags):
    program = os.path.join(work, name)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.c")
    toolkit.run(compiler, "-std=c11", "-I", include, *flags, source, "-o", program)
    return toolkit.run(program)


def compare(what, ours, theirs):
    ours, theirs = ours.splitlines(), theirs.splitlines()
    faults = [f"{a!r} here, {b!r} there" for a, b in zip(ours, theirs) if a != b]
    if faults or len(ours) != len(theirs):
        sys.exit(f"{what}: {len(ours)} lines here, {len(theirs)} there\n" + "\n".join(faults))
    print(f"{len(ours)} values are those of {what}")


def prototypes(include, compiler):
    """name -> its type, as the compiler prints it without names of parameters."""
    text = toolkit.run(compiler, "-x", "c", "-E", "-P", "-I", include, os.path.join(include, "nccl.h"))
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)\)?", " ", text)
    found = {}
    for result, name, parameters in re.findall(r"(ncclResult_t|const char\s*\*|void)\s+(p?nccl\w+)\s*\(([^;{}]*?)\)\s*;",
                                               text):
        types = []
        for parameter in parameters.split(","):
            words = re.findall(r"\w+|\*", parameter)
            stars = [word for word in words if word == "*"]
            names = [word for word in words if word != "*"]
            types.append(" ".join((names[:-1] if len(names) > 1 else names) + stars))
        found[name] = f"{''.join(result.split())}({', '.join(types) or 'void'})"
    return {name: kind.replace("(void)", "()") for name, kind in found.items()}


def main():
    mode, root, work, cc = sys.argv[1:5]
    os.makedirs(work, exist_ok=True)
    ours = os.path.join(root, "include")
    compilers = {"c": cc, "c++": sys.argv[-1]}
    if mode == "compiles":
        return compile_all(root, compilers, without_cuda)
    if mode == "compiles-with-cuda":
        cuda = toolkit.folder_or_skip()
        return compile_all(root, compilers, lambda _: ["-isystem", cuda])
    if mode == "numbers":
        expected = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.expected")
        with open(expected, encoding="utf-8") as file:
            return compare("NCCL 2.28.9 on 64-bit Linux",
                           values_of(ours, work, cc, "ours", ["-DTUTTI_NO_CUDA_HEADERS"]), file.read())
    theirs = toolkit.folder_or_skip()
    code = toolkit.run(cc, "-x", "c", "-E", "-dM", "-I", theirs, os.path.join(theirs, "nccl.h"))
    version = re.search(r"#define NCCL_VERSION_CODE (\d+)", code)[1]
    if version != "22809":
        print(f"skipped: the toolkit's NCCL is {version}, not 22809")
        sys.exit(toolkit.SKIPPED)
    compare("the toolkit's header", values_of(ours, work, cc, "ours", ["-isystem", theirs]),
            values_of(theirs, work, cc, "theirs", []))
    own, real = prototypes(ours, cc), prototypes(theirs, cc)
    if len(real) < 80 or own != real:
        sys.exit(f"functions differ: {sorted(set(own.items()) ^ set(real.items()))}")
    print(f"{len(own)} functions have the types of the toolkit's")


main()
