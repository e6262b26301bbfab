#!/bin/sh
# Compares the interface of the shared library (functions, structs, enums) with the one that is stored in
# tests/abi/libgpu_dispatch.abi. docs/api-stability.md says which changes are allowed.
# usage: abi.sh check|baseline
#   check      fails if anything differs except added functions, and shows the difference
#   baseline   stores the interface of this tree
set -u
cd "$(dirname "$0")/../.." || exit 1
build=build-abi stored=tests/abi/libgpu_dispatch.abi

skip() {
    echo "left out: the comparison of the interface: $*"
    exit 0
}

# Describes only what the public headers show: no private types, no positions in files.
describe() { # LIBRARY
    abidw --exported-interfaces-only --drop-private-types --headers-dir include/gpu_dispatch --no-corpus-path \
        --no-comp-dir-path --no-show-locs --no-architecture --no-elf-needed --no-parameter-names "$1"
}

command -v abidiff >/dev/null || skip "there is no abidiff (Debian: abigail-tools)"
[ "$(uname -m)" = x86_64 ] || skip "it is stored for x86_64, and this is $(uname -m)"
[ -f "$build/build.ninja" ] ||
    meson setup "$build" -Dtests=false -Dbench=false -Dexamples=false -Dpython=disabled >/dev/null || exit 1
library=src/$(meson introspect "$build" --targets | grep -o 'libgpu_dispatch\.so\.[0-9.]*[0-9]' | head -n 1)
ninja -C "$build" "$library" >/dev/null || { echo "abi: $library does not build"; exit 1; }

case ${1:-} in
baseline)
    mkdir -p "$(dirname "$stored")"
    describe "$build/$library" >"$stored" && echo "abi: stored in $stored"
    ;;
check)
    now=$build/libgpu_dispatch.abi
    describe "$build/$library" >"$now" || exit 1
    abidiff --no-added-syms "$stored" "$now" && exit 0
    echo "abi: the interface differs from $stored. If docs/api-stability.md allows the change: make abi-baseline"
    exit 1
    ;;
*)
    echo "usage: abi.sh check|baseline" >&2
    exit 2
    ;;
esac
