#!/bin/sh
# Shows what the command does, on simulated GPUs. Each printed line that begins with $ is run exactly as printed.
# usage: demo.sh BUILD_DIR
set -u
PATH=$(cd "$1" && pwd):$PATH
cd "$(dirname "$0")/.." || exit 1

show() {
    printf '\n$ %s\n' "$1"
    sh -c "$1"
}

show "gpu-dispatch gpus --gpus sim:4" || exit 1
show "gpu-dispatch run --gpus sim:4 -k 'echo {/} on GPU {gpu}: \$(wc -l < {}) lines' ::: src/core/*.c" || exit 1
# One task kills its worker in its first attempt. It is run again, and nothing is lost.
show "seq 200 | gpu-dispatch run --gpus sim:4 'if [ {} = 77 ] && [ \$GPU_DISPATCH_ATTEMPT = 1 ]; then kill -9 \$PPID; fi; echo {}' | sort -n | uniq | wc -l" || exit 1
if command -v python3 >/dev/null; then
    show "printf 'one\\nsmall\\nstep\\n' | gpu-dispatch run --gpus sim:2 -k --quiet --stream python3 examples/stream/upper.py" || exit 1
fi
