#!/bin/sh
# SPDX-License-Identifier: MIT
# A task that reports that it runs, for the measurements of recovery. usage: task.sh DIRECTORY NAME
#   hold-N   holds its slot until its node dies; if it runs again, it ends at once
#   mark-N   ends at once
# Each run writes a line "NAME NODE" to the pipe DIRECTORY/runs. peer.py reads the lines.
case $2 in
hold-*) mkdir "$1/$2" 2>/dev/null && first=yes ;;
esac
echo "$2 $GD_BENCH_NODE" >"$1/runs"
[ -z "${first:-}" ] || exec sleep 3600
