#!/bin/sh
# Compiles and runs the example at the top of each public header, inside the program of the same name in examples/. A
# header with an example and no such program is a failure.
# usage: examples.sh CC INCLUDE_DIR LIBRARY_DIR
set -u
cc=$1 include=$2 libraries=$3
here=$(cd "$(dirname "$0")" && pwd)/examples
passed=0 failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export LD_LIBRARY_PATH="$libraries" GPU_DISPATCH_SIM=4 GPU_DISPATCH_JOBS="$tmp/jobs"
cd "$tmp" || exit 1
mkdir -p jobs data/audio
chmod 700 jobs
for name in a b c data/audio/a.wav data/audio/b.wav; do echo x >"$name"; done

example_of() { # the indented lines of a header's first comment
    sed -n '/^ \*\/$/q; s/^ \*     //p' "$1"
}

# shellcheck disable=SC2086 # the compiler may be "ccache gcc"
build_and_run() { # NAME
    $cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter -I"$include" -I"$tmp" "$here/$1.c" -o "$1.example" \
        -L"$libraries" -lgpu_dispatch -lpthread && "./$1.example"
}

for header in "$include"/gpu_dispatch/*.h; do
    name=$(basename "$header" .h)
    example_of "$header" >example.inc
    [ -s example.inc ] || continue
    output=$(build_and_run "$name" 2>&1)
    case $? in
    0) echo "ok $name.h" && passed=$((passed + 1)) ;;
    77) echo "skipped $name.h" ;;
    *) printf 'FAILED %s.h: %s\n' "$name" "$output" && failed=$((failed + 1)) ;;
    esac
done
[ "$passed" -ge 6 ] || { echo "FAILED: only $passed examples were found"; failed=$((failed + 1)); }
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
