# What the scripts in this folder share. Sourced, not run; `root` is the top of the source tree.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

# How many compilers may run at a time: one per CPU this process may use, but 1.5 GB of memory for each.
default_jobs() {
  local cpus memory_kb by_memory
  cpus=$(nproc)
  memory_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo 2>/dev/null) || memory_kb=
  by_memory=$((${memory_kb:-1500000} / 1500000))
  if ((by_memory < 1)); then by_memory=1; fi
  echo $((cpus < by_memory ? cpus : by_memory))
}

check_jobs() {
  [[ $1 =~ ^[1-9][0-9]{0,3}$ ]] || die "-j is '$1'; valid: 1 to 9999"
}

# configure_release [flags]: configures build/release. Uses ccache when there is one.
configure_release() {
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  (cd "$root" && cmake --preset release "${launcher[@]}" "$@")
}

# build_release JOBS [targets]: builds them, or everything.
build_release() {
  local jobs=$1
  shift
  local targets=()
  if (($# > 0)); then targets=(--target "$@"); fi
  cmake --build "$root/build/release" --parallel "$jobs" "${targets[@]}"
}

# The files under version control, or all but build folders where there is no git; separated by null bytes.
tracked_files() {
  # The clone may belong to another user than the one who runs this.
  if git -c safe.directory="$root" -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory="$root" -C "$root" ls-files -z "$@"
    return
  fi
  local names=() pattern
  for pattern in "$@"; do names+=(-o -name "$pattern"); done
  (cd "$root" && find . \( -name build -o -name .git \) -prune -o -type f \( "${names[@]:1}" \) -printf '%P\0')
}
