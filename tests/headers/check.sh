#!/bin/sh
# Compiles each public header alone, and included twice, as C17 and as C++17, with the strictest warnings and none of
# the library's own flags. Then the functions that they declare must be those that the shared library exports.
# usage: check.sh CC CXX|none INCLUDE_DIR [MAP]
set -u
cc=$1 cxx=$2 include=$3 map=${4:-$3/../src/gpu_dispatch.map}
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

# The functions that the headers declare, except gd_plugin_worker(), which plugins define.
declared() {
    sed -n 's,/\*.*,,; s/^[a-z].*[ *]\(gd_[a-z_]*\)(.*/\1/p' "$include"/gpu_dispatch/*.h |
        grep -v -e '_fn$' -e '^gd_plugin_worker$' | sort -u
}
exported() { sed -n 's/^ *\(gd_[a-z_]*\);$/\1/p' "$map" | sort -u; }

only_in() { # only_in SIDE NAME: "<": declared and not exported; ">": exported and not declared
    names=$({ declared; echo ---; exported; } | awk -v want="$1" '
        /^---$/ { second = 1; next }
        !second { declared[$0] = 1; next }
        { exported[$0] = 1 }
        END {
            for (n in declared) if (want == "<" && !(n in exported)) print n
            for (n in exported) if (want == ">" && !(n in declared)) print n
        }')
    if [ -z "$names" ] && [ -n "$(exported)" ]; then
        echo "ok $2"
        passed=$((passed + 1))
    else
        printf 'FAILED %s: %s\n' "$2" "${names:-$map names no function}"
        failed=$((failed + 1))
    fi
}
only_in '<' "every declared function is exported"
only_in '>' "every exported function is declared"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
