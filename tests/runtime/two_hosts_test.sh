#!/usr/bin/env bash
# Two hosts, as network namespaces joined by a veth pair, two ranks on each: shared memory within a host and TCP between
# hosts serve one communicator and one operation. Every algorithm is checked element by element by all_reduce_perf.
# Usage: two_hosts_test.sh DIRECTORY-OF-THE-BINARIES. Exit status 77: skipped.
set -euo pipefail
bin=$1
a=tutti-a-$$ b=tutti-b-$$
out=$(mktemp -d)
cleanup() {
  jobs -p | xargs -r kill -9 2>/dev/null || true
  ip netns delete "$a" 2>/dev/null || true
  ip netns delete "$b" 2>/dev/null || true
  rm -rf "$out"
}
trap cleanup EXIT

if [ "$(id -u)" != 0 ] || ! ip netns add "$a" 2>/dev/null; then
  echo "skipped: network namespaces need root and iproute2"
  exit 77
fi
if ! why=$(ip netns exec "$a" true 2>&1); then  # in a plain chroot, say
  echo "skipped: no program can be run in a network namespace here: $why"
  exit 77
fi
ip netns add "$b"
ip link add v0 netns "$a" type veth peer name v0 netns "$b"
ip -n "$a" addr add 10.213.7.1/24 dev v0
ip -n "$b" addr add 10.213.7.2/24 dev v0
for host in "$a" "$b"; do
  ip -n "$host" link set lo up
  ip -n "$host" link set v0 up
done

# run_job FIRST-NAMES... -- COMMAND: one rank in each namespace named; all must succeed.
run_job() {
  local hosts=() rank=0 failed=0
  while [ "$1" != -- ]; do hosts+=("$1"); shift; done
  shift
  local pids=()
  for host in "${hosts[@]}"; do
    TUTTI_RANK=$rank TUTTI_SIZE=${#hosts[@]} TUTTI_RENDEZVOUS=10.213.7.1:$port TUTTI_SECRET=$secret \
      TUTTI_TIMEOUT=60s TUTTI_INIT_TIMEOUT=30s timeout 100 ip netns exec "$host" "$@" >"$out/$rank" 2>&1 &
    pids+=($!)
    rank=$((rank + 1))
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  if [ $failed = 1 ]; then
    echo "failed: $* on ${hosts[*]}"
    tail -n 5 "$out"/*
    exit 1
  fi
  port=$((port + 1))
}
port=41700
secret=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')

for algorithm in ring tree oneshot twoshot halving_doubling; do
  run_job "$a" "$a" "$b" "$b" -- "$bin/all_reduce_perf" -b 0 -e 1M -i 333331 -n 3 --algo $algorithm
done
run_job "$a" "$b" "$b" -- "$bin/all_reduce_perf" -b 4 -e 1M -f 16 -n 5 -o all -d float
run_job "$a" "$b" "$a" "$b" "$b" -- "$bin/all_reduce_perf" -b 4 -e 256K -f 64 -n 3 -d int8

# A rank killed on one host is named on the other.
for rank in 0 1 2; do
  host=$a; [ $rank = 2 ] && host=$b
  TUTTI_RANK=$rank TUTTI_SIZE=3 TUTTI_RENDEZVOUS=10.213.7.1:$port TUTTI_SECRET=$secret TUTTI_TIMEOUT=60s \
    timeout 60 ip netns exec "$host" "$bin/all_reduce_perf" -b 1M -e 1M -n 1000000 >"$out/$rank" 2>&1 &
  pids[$rank]=$!
done
sleep 2
victim=$(ip netns pids "$b" | head -n 1)
kill -9 "$victim"
wait "${pids[2]}" 2>/dev/null || true
for rank in 0 1; do
  if wait "${pids[$rank]}"; then echo "rank $rank did not notice that rank 2 was killed"; exit 1; fi
  # Whichever socket breaks first: the control plane's or the transport's.
  grep -Eq "rank 2 \(pid [0-9]+ on host [^)]*\) died|lost the connection to rank 2 at" "$out/$rank" ||
    { echo "rank $rank: $(cat "$out/$rank")"; exit 1; }
done

# Splits across hosts, and the survivors of a death meet again: also when it was rank 0, at whose place all had met.
for victim in 0 2 3; do
  hosts=("$a" "$a" "$b" "$b")
  for rank in 0 1 2 3; do
    TUTTI_RANK=$rank TUTTI_SIZE=4 TUTTI_RENDEZVOUS=10.213.7.1:$port TUTTI_SECRET=$secret TUTTI_TIMEOUT=30s \
      TUTTI_INIT_TIMEOUT=30s timeout 60 ip netns exec "${hosts[$rank]}" "$bin/regroup_ranks" $victim >"$out/$rank" 2>&1 &
    pids[$rank]=$!
  done
  for rank in 0 1 2 3; do
    status=0
    wait "${pids[$rank]}" || status=$?
    [ $rank = $victim ] || [ $status = 0 ] || { echo "rank $rank without $victim: $(cat "$out/$rank")"; exit 1; }
  done
  port=$((port + 1))
done
echo "two hosts: all algorithms exact, a killed rank named, split and shrunk"
