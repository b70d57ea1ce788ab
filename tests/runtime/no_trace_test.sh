#!/usr/bin/env bash
# Shared memory needs no room in /dev/shm, and ranks killed by SIGKILL leave nothing behind: no file in /dev/shm or /tmp,
# no process. Usage: no_trace_test.sh DIRECTORY-OF-THE-BINARIES. Exit status 77: skipped.
set -euo pipefail
bin=$1
if ! unshare --mount true 2>/dev/null; then
  echo "skipped: a mount namespace needs root"
  exit 77
fi

# Runs in a mount namespace of its own, with a /dev/shm of 64 KiB and a /tmp of its own.
export bin
unshare --mount bash -euo pipefail <<'INSIDE'
mount --bind "$bin" /mnt  # the binaries may lie below /tmp
bin=/mnt
mount -t tmpfs -o size=64k tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
# Processes of the job, by their command line (the brackets keep grep from finding itself).
running() { grep -las -e '-n.1000000[0]0' /proc/[0-9]*/cmdline; }
"$bin/tutti" run -n 4 -- "$bin/all_reduce_perf" -b 8 -e 32M -f 64 -n 2 >/tmp/perf.log || { cat /tmp/perf.log; exit 1; }
rm /tmp/perf.log
"$bin/tutti" run -n 3 --no-prefix -- "$bin/all_reduce_perf" -b 1M -e 1M -n 100000000 >/dev/null 2>&1 &
launcher=$!
sleep 1
ranks=$(cat "/proc/$launcher/task/$launcher/children")
[ -n "$ranks" ] || { echo "the ranks did not start"; exit 1; }
kill -9 $ranks "$launcher" || true
wait "$launcher" 2>/dev/null || true
for _ in $(seq 50); do
  running >/dev/null || break
  sleep 0.1
done
if running; then echo "processes are left"; exit 1; fi
left=$(find /dev/shm /tmp -mindepth 1)
if [ -n "$left" ]; then echo "left behind: $left"; exit 1; fi
INSIDE
echo "a /dev/shm of 64 KiB suffices, and nothing is left behind"
