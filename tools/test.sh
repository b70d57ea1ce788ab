#!/bin/bash
# Builds everything and runs the tests; the last lines are the summary.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<END
usage: tools/test.sh [--all] [-j N] [--no-install] [-h] [-- CTEST_FLAGS]
Installs missing packages, builds Tutti with its tests in build/release and runs them.
  --all          with the slow tests (label "slow")
  -j N           compilers at a time (default here: $(default_jobs))
  --no-install   do not install packages
  -h, --help     this help
What follows -- goes to ctest: tools/test.sh -- -R ring
END
}

jobs=$(default_jobs)
install=yes
filter=(-LE slow)
while (($# > 0)); do
  case $1 in
    --all) filter=() ;;
    -j) shift; check_jobs "${1-}"; jobs=$1 ;;
    -j*) check_jobs "${1#-j}"; jobs=${1#-j} ;;
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    *) echo "test.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

if [[ $install == yes ]]; then "$root/tools/install_deps.sh"; fi
configure_release
build_release "$jobs"
# One test at a time: many tests run several ranks, which want the cores for themselves.
# Ranks share cores with whatever else the machine does; a test that fails once is run again, and ctest shows both.
exec ctest --repeat until-pass:2 --test-dir "$root/build/release" --output-on-failure --no-tests=error "${filter[@]}" "$@" </dev/null
