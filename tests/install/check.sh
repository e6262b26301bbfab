#!/bin/sh
# Installs a fresh build into a prefix of its own and uses it as a stranger would: through pkg-config, in C and in C++,
# with the shared library and with the static one, with a worker of the program's own and with a plugin.
# usage: check.sh SOURCE_DIR CC CXX|none
set -u
source=$1 cc=$2 cxx=$3
here=$source/tests/install
passed=0 failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
prefix=$tmp/prefix
flags="-Wall -Wextra -Werror"

# The host must be found where it was installed, not in a build folder.
unset GPU_DISPATCH_HOST CFLAGS CXXFLAGS LDFLAGS DESTDIR

try() { # try NAME COMMAND...
    name=$1
    shift
    if output=$("$@" 2>&1); then
        echo "ok $name"
        passed=$((passed + 1))
    else
        printf 'FAILED %s: %s\n' "$name" "$output"
        failed=$((failed + 1))
    fi
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

build_and_install() {
    CC=$cc meson setup "$tmp/build" "$source" --prefix="$prefix" -Dtests=false -Dbench=false -Dexamples=false &&
        ninja -C "$tmp/build" && meson install -C "$tmp/build" --no-rebuild
}

exports_only_gd() {
    names=$(nm -D --defined-only "$libdir/libgpu_dispatch.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }')
    echo "$names" | grep -qx gd_run || { echo "gd_run is not exported"; return 1; }
    odd=$(echo "$names" | grep -Ev '^gd_[^_]')
    [ -z "$odd" ] || { echo "exported: $odd"; return 1; }
}

declared() { # the functions that the headers declare
    sed -n 's,/\*.*,,; s/^[a-z].*[ *]\(gd_[a-z_]*\)(.*/\1/p' "$prefix"/include/gpu_dispatch/*.h | grep -v '_fn$' | sort -u
}

explains_what_it_has() { # each of them is in the manual
    missing=0
    for name in $(declared); do
        grep -q "[ *]$name(" "$prefix/share/man/man3/libgpu_dispatch.3" || { echo "no $name in the manual"; missing=1; }
    done
    return "$missing"
}

declares_what_it_has() { # each of them is exported
    missing=0
    for name in $(declared); do
        [ "$name" = gd_plugin_worker ] && continue
        nm -D --defined-only "$libdir/libgpu_dispatch.so" | grep -q " $name\(@\|\$\)" ||
            { echo "$name is declared and not exported"; missing=1; }
    done
    return "$missing"
}

has_soname() {
    readelf -d "$libdir/libgpu_dispatch.so" | grep -q 'SONAME.*\[libgpu_dispatch\.so\.0\]'
}

stays_loaded() { # a thread of its own may be in it
    readelf -d "$libdir/libgpu_dispatch.so" | grep -q 'FLAGS_1.*NODELETE'
}

# The compilers may be "ccache gcc" and pkg-config gives many words: split on purpose.
# shellcheck disable=SC2046,SC2086
build_c() { $cc -std=c17 $flags "$here/double.c" -o "$tmp/double_c" $(pkg-config --cflags --libs gpu_dispatch); }
# shellcheck disable=SC2046,SC2086
build_cpp() {
    $cxx -std=c++17 $flags -x c++ "$here/double.c" -o "$tmp/double_cpp" $(pkg-config --cflags --libs gpu_dispatch)
}
# shellcheck disable=SC2046,SC2086
build_static() { # all of the library, with the others that it says it needs
    $cc -std=c17 $flags "$here/double.c" -o "$tmp/double_static" $(pkg-config --cflags gpu_dispatch) \
        -Wl,--whole-archive "$libdir/libgpu_dispatch.a" -Wl,--no-whole-archive \
        $(pkg-config --static --libs gpu_dispatch | sed 's/-lgpu_dispatch//')
}
# shellcheck disable=SC2046,SC2086
build_readme() { # its first block of C
    sed -n '/^```c$/,/^```$/p' "$source/README.md" | sed '/^```/d' >"$tmp/readme.c"
    $cc -std=c17 $flags "$tmp/readme.c" -o "$tmp/readme" $(pkg-config --cflags --libs gpu_dispatch)
}
run_readme() { [ "$("$tmp/readme" | grep -c '^task ')" -eq 100 ]; }
# shellcheck disable=SC2046,SC2086
build_plugin() { # OUTPUT [more flags]
    out=$1
    shift
    $cc -std=c17 $flags -shared -fPIC "$here/plugin.c" -o "$out" $(pkg-config --cflags gpu_dispatch) "$@"
}

for tool in meson ninja pkg-config; do
    command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }
done
try "build and install" build_and_install
pc=$(find "$prefix" -name gpu_dispatch.pc 2>/dev/null)
[ -n "$pc" ] || { try "pkg-config file" false; finish; }
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir gpu_dispatch)
export LD_LIBRARY_PATH="$libdir"

try "exports gd_ and nothing else" exports_only_gd
try "exports what the headers declare" declares_what_it_has
try "soname" has_soname
try "is never unloaded" stays_loaded
try "manual explains what the headers declare" explains_what_it_has
try "manual page" test -f "$prefix/share/man/man3/libgpu_dispatch.3"
try "command is installed" test "$("$prefix/bin/gpu-dispatch" run --gpus sim:2 -k --quiet echo got {} ::: a b)" = "$(printf 'got a\ngot b')"
try "its manual pages" test -f "$prefix/share/man/man1/gpu-dispatch.1" -a -f "$prefix/share/man/man1/gpu-dispatch-run.1"
try "its completions" test -f "$prefix/share/bash-completion/completions/gpu-dispatch" -a -f "$prefix/share/zsh/site-functions/_gpu-dispatch"
try "host is installed" test -x "$prefix/libexec/gpu_dispatch/gpu-dispatch-host"
try "build in C" build_c
try "run in C" "$tmp/double_c"
if [ "$cxx" != none ]; then
    try "build in C++" build_cpp
    try "run in C++" "$tmp/double_cpp"
fi
try "build static" build_static
try "run static" env -u LD_LIBRARY_PATH "$tmp/double_static"
try "build the README's example" build_readme
try "run the README's example" run_readme
try "build plugin" build_plugin "$tmp/plugin.so"
try "run plugin on the installed host" "$tmp/double_c" "$tmp/plugin.so"
try "run plugin through the installed command" test "$("$prefix/bin/gpu-dispatch" run --gpus sim:1 --quiet --worker "$tmp/plugin.so" ::: aaaa)" = "$(printf '\302\302\302\302')" # 0x61616161, doubled
try "build plugin linked with the library" build_plugin "$tmp/linked.so" -L"$libdir" -lgpu_dispatch
try "run linked plugin on the installed host" "$tmp/double_c" "$tmp/linked.so"
finish
