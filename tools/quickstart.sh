#!/bin/bash
# From a fresh clone to numbers: builds Tutti, measures its algorithms on this machine, trains a model with two ranks.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<END
usage: tools/quickstart.sh [-j N] [--out DIR] [--no-install] [-h]
Installs missing packages, builds Tutti in build/release, compares the all-reduce algorithms for 2 and 4 ranks and
trains a small neural network on handwritten digits with 2 ranks. After the build it takes less than a minute.
  -j N           compilers at a time (default here: $(default_jobs))
  --out DIR      folder for report.html, report.csv and a picture (default: out/quickstart in the source tree)
  --no-install   do not install packages
  -h, --help     this help
END
}

jobs=$(default_jobs)
install=yes
out=$root/out/quickstart
while (($# > 0)); do
  case $1 in
    -j) shift; check_jobs "${1-}"; jobs=$1 ;;
    -j*) check_jobs "${1#-j}"; jobs=${1#-j} ;;
    --out) shift; out=${1-}; [[ -n $out ]] || die "--out wants a folder" ;;
    --no-install) install=no ;;
    -h | --help) usage; exit 0 ;;
    *) echo "quickstart.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
heading() { printf '\n== %s\n' "$*"; }

if [[ $install == yes ]]; then
  heading "Packages"
  "$root/tools/install_deps.sh"
fi
heading "Build"
configure_release
build_release "$jobs" tutti_command all_reduce_perf all_reduce
tutti=$root/build/release/bin/tutti
mkdir -p "$out"
out=$(cd "$out" && pwd)

heading "How ring and tree work: a picture"
"$tutti" plan --algo ring,tree --ranks 8 --svg "$out/ring_vs_tree.svg"
echo "$out/ring_vs_tree.svg"

heading "All-reduce algorithms on this machine"
"$tutti" compare --ranks 2,4 --sizes 8:4M:x8 --rounds 5 --out "$out" </dev/null

heading "Training on handwritten digits with 2 ranks"
"$tutti" run -n 2 --timeout 120s -- "$tutti" train --data digits </dev/null | tee "$out/train.txt"
accuracy=$(grep -io 'test accuracy[^,;]*' "$out/train.txt" | tail -n 1) || true

heading "Done"
echo "Measurements:  $out/report.html  (open it in a browser; the numbers are in report.csv)"
echo "Picture:       $out/ring_vs_tree.svg"
echo "Training:      ${accuracy:-see $out/train.txt}"
echo "Next:          $tutti --help; README.md; docs/algorithms.md"
