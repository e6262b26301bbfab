#!/usr/bin/env bash
# Builds, tests and measures on a machine with a real NVIDIA GPU. Needs gcc, Meson, Ninja and nvcc; installs nothing.
#
#   tools/gpu_check.sh [BUILD_DIR [LOG_DIR]]
set -u
cd "$(dirname "$0")/.."
build=${1:-build-gpu}
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
LINES_SHOWN=60 step tests tools/test.sh "$build"
for size in 1 16 64 256; do
    for unpinned in "" -u; do
        LINES_SHOWN=2 step "cuda_${size}MiB$unpinned" "$build/examples/example_cuda" $unpinned $((size < 64 ? 400 : 60)) "$size"
    done
done
LINES_SHOWN=40 step bench timeout 240 python3 bench/run.py "$build" --rounds "${ROUNDS:-3}"
printf '\n%d steps failed\n' "$failed"
exit $((failed > 0))
