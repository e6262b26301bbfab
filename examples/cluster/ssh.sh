#!/bin/bash
# Runs a program on each line of a list, on machines that are reached with ssh. Each machine is one shard of the list.
#
#   ssh.sh 'HOST HOST...' LIST PROGRAM [ARGUMENT...]
#
# The current directory must be on all machines, under the same path: it is on a shared file system. If a machine dies,
# the others go on. Start the same line again, with as many hosts as before and another host in its place: shards that
# are done end at once, and the missing one goes on where it was. Exits with 1 if a shard did not end with 0.
set -u
if [ $# -lt 3 ]; then
    sed -n '4s/^#   /usage: /p' "$0" >&2
    exit 2
fi
read -ra hosts <<<"$1"
list=$2
shift 2

pids=()
for i in "${!hosts[@]}"; do
    words=(gpu-dispatch run --shard "$((i + 1))/${#hosts[@]}" --journal run.db --resume --output out.jsonl "$@" {} :::: "$list")
    # The shell of the other machine reads this line, so it is quoted for a shell (%q). -n: ssh does not read the
    # terminal. The results are in out.jsonl, so that the run goes on if the connection breaks.
    ssh -n -o BatchMode=yes -o ServerAliveInterval=15 "${hosts[$i]}" \
        "cd $(printf %q "$PWD") && exec $(printf '%q ' "${words[@]}") >/dev/null" &
    pids+=($!)
done

status=0
for i in "${!hosts[@]}"; do
    wait "${pids[$i]}" || { echo "${hosts[$i]}: shard $((i + 1))/${#hosts[@]} ended with status $?" >&2; status=1; }
done
exit "$status"
