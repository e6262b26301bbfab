#!/usr/bin/env bash
# Builds, tests and measures on a machine with a real NVIDIA GPU. Needs gcc, Meson, Ninja, nvcc, and Python with
# PyTorch. Installs nothing.
#
#   [ROUNDS=3] [PARTS="throughput stream"] tools/gpu_check.sh [BUILD_DIR [LOG_DIR]]     ROUNDS=0: no benchmarks
set -u
cd "$(dirname "$0")/.."
build=$(realpath -m "${1:-build-gpu}")
logs=${2:-$build/logs}
failed=0
step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@" >"$logs/$name.log" 2>&1
    local rc=$?
    tail -n "${LINES_SHOWN:-12}" "$logs/$name.log"
    printf -- '-- %s: exit %d after %d s\n' "$name" "$rc" "$((SECONDS - start))"
    [ $rc -eq 0 ] || failed=$((failed + 1))
}
mkdir -p "$logs"
nvidia-smi --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current --format=csv,noheader
printf '%s, %s CPUs, Linux %s, %s, meson %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
    "$(uname -r)" "$(gcc -dumpfullversion 2>/dev/null)" "$(meson --version)"
step setup meson setup "$build" --buildtype=release -Dcuda=enabled
step build ninja -C "$build"
tools/venv.sh "$build"
LINES_SHOWN=60 step tests tools/test.sh "$build"
for size in 1 16 64 256; do
    for unpinned in "" -u; do
        LINES_SHOWN=2 step "cuda_${size}MiB$unpinned" "$build/examples/example_cuda" $unpinned $((size < 64 ? 400 : 60)) "$size"
    done
done
command=$build/gpu-dispatch
torch_command() { # every process must see exactly one device, and it must be the real one
    "$command" run -k -v python3 examples/torch_task.py {} ::: 1000 2000 3000 4000 >"$logs/command.jsonl" || return 1
    cat "$logs/command.jsonl"
    [ "$(grep -c '"visible": 1,' "$logs/command.jsonl")" -eq 4 ] && ! grep -q '"device": "cpu"' "$logs/command.jsonl"
}
torch_stream() { # the same with workers that keep their model: 4,000 tasks on 1 worker, then on 2 workers of one GPU
    for workers in 1 2; do
        seq 4000 | "$command" run -j "$workers" --output "$logs/stream.jsonl" --stream python3 examples/stream/torch_worker.py \
            >"$logs/stream.out" || return 1
        [ "$(grep -c '"visible": *1' "$logs/stream.jsonl")" -eq 4000 ] || return 1
    done
}
free_gpus() { # a run waits for the end of any process that computes; after kill -9 of a run its GPUs are free
    local run line begun="$logs/free.begun" said="$logs/free.said" n
    export GPU_DISPATCH_LOCKS=$logs
    n=$("$command" gpus --gpus free --json | grep -o '"id"' | wc -l)
    [ "$n" -gt 0 ] || { echo "no GPU is free"; return 1; }
    rm -f "$begun" "$said"
    mkfifo "$begun" "$said" || return 1
    coproc user { exec python3 -c 'import sys, torch
x = torch.ones(1, device="cuda")
print("ready", flush=True)
sys.stdin.read()'; }
    read -r line <&"${user[0]}" || return 1
    "$command" run --quiet --gpus "free:$n" echo began ::: once 2>"$said" &
    run=$!
    read -r line <"$said" || return 1
    echo "$line"
    [[ $line == *"waiting for $n free GPU"* ]] || return 1
    eval "exec ${user[1]}>&-" # the process ends, and the run begins
    wait "$run" || return 1
    "$command" run --quiet --gpus free "echo > '$begun'; sleep 1000 #" ::: a &
    run=$!
    read -r line <"$begun"
    "$command" run --quiet --gpus 0 true ::: a && return 1 # refused, and the holder is named
    kill -9 "$run"
    timeout 30 "$command" run --quiet --gpus "free:$n" echo freed ::: at once
}
python_tests() { # with the installed packages, without a venv and without network
    PYTHONPATH="$build/python:$build/tests" python3 -m pytest -q -p no:cacheprovider tests/python --ignore tests/python/test_install.py
}
torch_batch() {
    PYTHONPATH="$build/python" python3 bench/torch_batch.py --rounds "${ROUNDS:-3}"
}
torch_stages() { # about 20 s a round
    PYTHONPATH="$build/python" python3 bench/torch_stages.py --rounds "${ROUNDS:-3}"
}
LINES_SHOWN=30 step python_tests python_tests
LINES_SHOWN=14 step torch_batch torch_batch
LINES_SHOWN=12 step torch_stages torch_stages
LINES_SHOWN=30 step gpus "$command" gpus
LINES_SHOWN=60 step gpus_json "$command" gpus --json
LINES_SHOWN=14 step torch_command torch_command
LINES_SHOWN=24 step torch_stream torch_stream
step free_gpus free_gpus
if [ "${ROUNDS:-3}" -gt 0 ]; then
    # shellcheck disable=SC2086 # a list
    LINES_SHOWN=60 step bench timeout 400 python3 bench/run.py "$build" --rounds "${ROUNDS:-3}" ${PARTS:+--only $PARTS}
fi
printf '\n%d steps failed\n' "$failed"
exit $((failed > 0))
