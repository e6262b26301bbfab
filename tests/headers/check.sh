#!/bin/sh
# Compiles each public header alone, and included twice, as C17 and as C++17, with the strictest warnings and none of
# the library's own flags.
# usage: check.sh CC CXX|none INCLUDE_DIR
set -u
cc=$1 cxx=$2 include=$3
passed=0 failed=0

try() { # try NAME COMPILER... : the program to compile comes on stdin
    name=$1
    shift
    if output=$("$@" -Wall -Wextra -Wpedantic -Wshadow -Wundef -Werror -I"$include" -fsyntax-only - 2>&1); then
        echo "ok $name"
        passed=$((passed + 1))
    else
        printf 'FAILED %s: %s\n' "$name" "$output"
        failed=$((failed + 1))
    fi
}

for header in "$include"/gpu_dispatch/*.h; do
    base=$(basename "$header")
    text="#include <gpu_dispatch/$base>
#include <gpu_dispatch/$base>
int main(void) { return 0; }"
    # $cc and $cxx may be "ccache gcc": split on purpose.
    # shellcheck disable=SC2086
    try "$base as c17" $cc -x c -std=c17 <<END
$text
END
    [ "$cxx" = none ] && continue
    # shellcheck disable=SC2086
    try "$base as c++17" $cxx -x c++ -std=c++17 <<END
$text
END
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
