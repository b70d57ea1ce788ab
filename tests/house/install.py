#!/usr/bin/env python3
"""Installs Tutti into a temporary folder, moves it, and builds and runs a program there: by CMake and by pkg-config.

usage: install.py SOURCE BUILD WORK COMPILER                installs what is built in BUILD
       install.py --shared SOURCE BUILD WORK COMPILER       builds shared libraries in BUILD first
"""
import os
import shutil
import subprocess
import sys


def run(*command, env=None, cwd=None):
    done = subprocess.run(command, text=True, capture_output=True, cwd=cwd, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def find(prefix, name):
    for folder, _, names in os.walk(prefix):
        if name in names:
            return folder
    sys.exit(f"{name} was not installed in {prefix}")


def expect(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found!r}; expected {wanted!r}")


def build_shared(source, build, compiler):
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DBUILD_SHARED_LIBS=ON", "-DTUTTI_TESTS=OFF",
        "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={compiler}",
        *(["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []))
    run("cmake", "--build", build)


def main():
    shared = sys.argv[1] == "--shared"
    source, build, work, compiler = sys.argv[1 + shared:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    if shared:
        build_shared(source, build, compiler)
    first, prefix = os.path.join(work, "first"), os.path.join(work, "prefix")
    run("cmake", "--install", build, "--prefix", first)
    os.rename(first, prefix)

    # Nothing of the source tree is needed; libraries are found by the commands themselves.
    tutti = os.path.join(prefix, "bin", "tutti")
    run(tutti, "--version", cwd=work)
    run(os.path.join(prefix, "bin", "all_reduce_perf"), "-g", "2", "-b", "8", "-e", "8", "-n", "1", cwd=work)
    trained = run(tutti, "train", "--epochs", "1", "--ranks", "2", cwd=work)
    if "digits: 1348 training" not in trained:
        sys.exit(f"the installed command does not train on the installed digits:\n{trained}")
    find(prefix, "digits.csv.gz")
    headers = sorted(os.listdir(os.path.join(source, "include", "tutti")))
    expect("headers", sorted(os.listdir(os.path.join(prefix, "include", "tutti"))), headers)
    find(prefix, "libnccl.so.2")
    expect("C headers", sorted(name for name in os.listdir(os.path.join(prefix, "include")) if name.endswith(".h")),
           ["nccl.h", "nccl_device.h", "nccl_later.h"])
    library = find(prefix, "libtutti.so" if shared else "libtutti.a")

    here = os.path.dirname(os.path.abspath(__file__))
    environment = {"LD_LIBRARY_PATH": library}

    by_cmake = os.path.join(work, "by_cmake")
    run("cmake", "-G", "Ninja", "-S", os.path.join(here, "consumer"), "-B", by_cmake,
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run("cmake", "--build", by_cmake)
    expect("the program built by CMake", run(os.path.join(by_cmake, "consumer")), "ok")

    pkg_config_path = {"PKG_CONFIG_PATH": find(prefix, "tutti.pc")}
    flags = run("pkg-config", "--cflags", "--libs", "tutti_ddp", env=pkg_config_path).split()
    by_pkg_config = os.path.join(work, "by_pkg_config")
    run(compiler, "-std=c++20", os.path.join(here, "consumer", "consumer.cc"), "-o", by_pkg_config, *flags)
    expect("the program built by pkg-config", run(by_pkg_config, env=environment), "ok")
    shutil.rmtree(work)
    print("the installation works after it was moved")


main()
