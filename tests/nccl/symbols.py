#!/usr/bin/env python3
"""Checks what libnccl.so.2 shows: every function of the headers and its twin, and nothing else.

usage: symbols.py ROOT LIBRARY
"""
import os
import re
import subprocess
import sys

import toolkit

# In NCCL's library but in none of its headers.
HIDDEN = {"ncclResetDebugInitInternal"}


def exported(library):
    """name -> the letter that nm gives it"""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], text=True, capture_output=True,
                           check=True).stdout.splitlines()
    return {line.split()[2]: line.split()[1] for line in lines}


def declared(root):
    names = set()
    for header in ("nccl.h", "nccl_later.h", "nccl_device.h"):
        with open(os.path.join(root, "include", header), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.DOTALL)
        names |= set(re.findall(r"\b(p?nccl[A-Z]\w*)\s*\((?!\()", text))
    return names


def main():
    root, library = sys.argv[1:]
    found, wanted = exported(library), declared(root)
    faults = [f"{name} is exported, but no function of the headers" for name in sorted(set(found) - wanted - HIDDEN)]
    faults += [f"{name} is declared, but not exported" for name in sorted((wanted | HIDDEN) - set(found))]
    plain = {name for name in wanted if not name.startswith("p")}
    faults += [f"{name} has no twin" for name in sorted(plain ^ {name[1:] for name in wanted - plain})]
    faults += [f"{name} is {found[name]}, not weak" for name in sorted(plain & set(found)) if found[name] != "W"]
    faults += [f"p{name} is not strong" for name in sorted(plain) if found.get("p" + name) != "T"]
    if len(plain) < 60:
        faults.append(f"only {len(plain)} functions were found in the headers")
    include = toolkit.folder()
    real = include and os.path.join(os.path.dirname(os.path.realpath(include)), "lib", "libnccl.so.2")
    if real and os.path.exists(real):
        faults += [f"{name} is missing: the toolkit's library has it" for name in sorted(set(exported(real)) - set(found))]
    dynamic = subprocess.run(["readelf", "-d", library], text=True, capture_output=True, check=True).stdout
    if "[libnccl.so.2]" not in dynamic:
        faults.append("its SONAME is not libnccl.so.2")
    if "libstdc++" in dynamic or "libgcc" in dynamic:
        faults.append("it needs libstdc++ or libgcc")
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(found)} symbols, those of the headers")


main()
