#!/usr/bin/env python3
"""Compiles client.c against a header of NCCL's, links it with Tutti's library, and runs it on 1 to 4 ranks.

usage: client.py HEADER WORK CC LIBRARY     HEADER: tutti (in ROOT/include) or toolkit
"""
import os
import sys

import toolkit


def main():
    header, work, cc, library = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    include = toolkit.folder_or_skip() if header == "toolkit" else os.path.join(here, "..", "..", "include")
    os.makedirs(work, exist_ok=True)
    program = os.path.join(work, f"client_{header}")
    toolkit.run(cc, "-std=gnu11", "-Wall", "-I", include, os.path.join(here, "client.c"), "-o", program, library)
    # By its SONAME, as an installed program does.
    environment = {"LD_LIBRARY_PATH": os.path.dirname(library)}
    for ranks in range(1, 5):
        for mode in ("threads", "processes", "leave"):
            said = toolkit.run(program, mode, str(ranks), env=environment)
            if said.strip() != f"ok: {ranks} {mode}":
                sys.exit(f"{program} {mode} {ranks} said {said!r}")
    print(f"a program compiled with the {header}'s header runs")


main()
