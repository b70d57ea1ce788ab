#!/bin/sh
# neon_test.sh CXX QEMU SOURCE_DIR BUILD_DIR: builds the kernels and their tests for 64-bit ARM and runs them.
set -eu
cxx=$1
qemu=$2
source=$3
build=$4
mkdir -p "$build"
cd "$source"
flags="-std=c++20 -O2 -Wall -Wextra -Werror -ffp-contract=off -I. -Iinclude"
# Catch2 is one header for every architecture; it is taken from the host without the host's other headers.
mkdir -p "$build/include"
ln -sfn /usr/include/catch2 "$build/include/catch2"

objects=
for file in kernels/host/kernels.cc kernels/host/floats.cc kernels/host/isa_plain.cc kernels/host/isa_neon.cc \
  src/base/env.cc src/base/error.cc src/base/types.cc tests/main.cc tests/kernels/conversions_test.cc \
  tests/kernels/reduce_test.cc tests/kernels/choice_test.cc tests/kernels/kernel_case.cc tests/kernels/reference.cc; do
  object="$build/$(basename "$file" .cc).o"
  case $file in */isa_*) optimise=-O3 ;; *) optimise= ;; esac
  "$cxx" $flags $optimise -isystem "$build/include" -c "$file" -o "$object"
  objects="$objects $object"
done
"$cxx" -static $objects -o "$build/kernels_test"
"$qemu" "$build/kernels_test"
