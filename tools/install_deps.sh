#!/bin/bash
# Installs the Debian packages that building, testing and checking Tutti needs: only those that are missing.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  # build
  g++ cmake ninja-build pkg-config
  libhwloc-dev           # what hardware is here
  libsodium-dev          # authentication of ranks
  libcli11-dev           # command lines
  nlohmann-json3-dev     # reports and profiles
  zlib1g-dev             # compressed data sets
  libopenblas-pthread-dev  # matrix products of the example model
  # tests, benchmarks, checks
  catch2 python3 git iproute2 libbenchmark-dev clang-format clang-tidy
  # a second data set for `tutti train`
  dataset-fashion-mnist
)

# with -p: what bench/peers measures Tutti against; the MPIs are installed side by side
peers=(
  openmpi-bin libopenmpi-dev
  mpich libmpich-dev
  libgloo-dev
)

usage() {
  cat <<END
usage: tools/install_deps.sh [-n] [-p] [-h]
Installs the Debian packages that Tutti needs and that are missing, as root or through sudo.
  -n   install nothing: print the command that would be run; exit status 1 if anything is missing
  -p   also the optional libraries that bench/peers measures Tutti against and that Debian
       has: Open MPI, MPICH, Gloo
  -h   this help
END
}

dry_run=no
while getopts nph option; do
  case $option in
    n) dry_run=yes ;;
    p) packages+=("${peers[@]}") ;;
    h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if (($# > 0)); then
  echo "install_deps.sh: unexpected argument '$1'" >&2
  usage >&2
  exit 2
fi

if ! command -v dpkg-query >/dev/null; then
  die "this is no Debian system. Install what corresponds to these packages of Debian 12, then build with --no-install:
  ${packages[*]}"
fi

missing=()
for package in "${packages[@]}"; do
  # shellcheck disable=SC2016
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1) || true
  if [[ $status != installed ]]; then missing+=("$package"); fi
done
if ((${#missing[@]} == 0)); then
  echo "All ${#packages[@]} packages are installed."
  exit 0
fi
command=(apt-get install -y --no-install-recommends "${missing[@]}")

run_as_root=()
may_install=yes
if [[ $(id -u) != 0 ]]; then
  if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
    run_as_root=(sudo)
  else
    may_install=no
  fi
fi
if [[ $dry_run == yes || $may_install == no ]]; then
  echo "Missing: ${missing[*]}"
  echo "Run as root:  apt-get update && ${command[*]}"
  exit 1
fi

echo "Installing: ${missing[*]}"
quiet=(env DEBIAN_FRONTEND=noninteractive)
# Old package lists may name versions that are gone, so a failure is tried once more with fresh lists.
if ! "${run_as_root[@]}" "${quiet[@]}" "${command[@]}" </dev/null; then
  "${run_as_root[@]}" "${quiet[@]}" apt-get update </dev/null
  "${run_as_root[@]}" "${quiet[@]}" "${command[@]}" </dev/null || die "packages could not be installed; run as root:
  apt-get update && ${command[*]}"
fi
