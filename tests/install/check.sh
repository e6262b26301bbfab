#!/bin/sh
# Installs a fresh build into a temporary prefix and uses it as a user would. It is used through pkg-config, in C and in
# C++, with the shared and with the static library, with a worker in the program itself and with a plugin. Then checks
# every program and library under the prefix, including those of a wheel: they must be hardened, stripped, and free of
# paths of the person who built them.
# usage: check.sh SOURCE_DIR CC CXX|none
set -u
source=$1 cc=$2 cxx=$3
here=$source/tests/install
passed=0 failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
prefix=$tmp/prefix
flags="-Wall -Wextra -Werror"

# The host must be found where it was installed, not in a build directory.
unset GPU_DISPATCH_HOST CFLAGS CXXFLAGS LDFLAGS DESTDIR

try() { # try NAME COMMAND... A status of 77 means that it is not possible here.
    name=$1
    shift
    output=$("$@" 2>&1)
    case $? in
    0)
        echo "ok $name"
        passed=$((passed + 1))
        ;;
    77) echo "skipped $name: $output" ;;
    *)
        printf 'FAILED %s: %s\n' "$name" "$output"
        failed=$((failed + 1))
        ;;
    esac
}

finds_converter() { # the message of the converter, not of the command
    echo x >"$tmp/it.pt"
    "$prefix/bin/gpu-dispatch" models convert "$tmp/it.pt" 2>&1 | grep "it.pt: is not a checkpoint of PyTorch"
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit
}

build_and_install() { # with the transcription worker if whisper.cpp is in the cache
    CC=$cc meson setup "$tmp/build" "$source" --prefix="$prefix" -Dtests=false -Dbench=false -Dexamples=false \
        -Dpython_install=true && "$source/tools/transcriber.sh" --cached "$tmp/build" &&
        ninja -C "$tmp/build" && meson install -C "$tmp/build" --no-rebuild
}

# --- every program and library --------------------------------------------------------------------

elf_files() { find "$prefix" -type f -exec sh -c 'head -c 4 "$1" | grep -qa "^.ELF"' - {} \; -print; }

each_elf() { # CHECK: runs this check on every program and library, and names those that fail
    wrong=0
    for file in $(elf_files); do
        "$1" "$file" || { echo "${file#"$prefix"/}: $1 fails"; wrong=1; }
    done
    return "$wrong"
}

ours() { # not a library of whisper.cpp, which may have been built elsewhere
    case ${1##*/} in libwhisper* | libggml* | libcu*) return 1 ;; esac
}

is_position_independent() { readelf -hW "$1" | grep -q 'Type: *DYN'; }
has_no_executable_stack() { readelf -lW "$1" | grep GNU_STACK | grep -vq E; }
has_read_only_tables() { readelf -lW "$1" | grep -q GNU_RELRO && readelf -dW "$1" | grep -Eq 'BIND_NOW|FLAGS_1.* NOW'; }
has_guarded_stack() { ! ours "$1" || readelf -W --dyn-syms "$1" | grep -q ' __stack_chk_fail'; }
has_checked_copies() { ! ours "$1" || has_checked_call "$1"; }
has_checked_call() { readelf -W --dyn-syms "$1" | grep -v __stack_chk | grep -q ' __[a-z]*_chk'; }
has_marked_targets() { ! ours "$1" || [ "$(objdump -d "$1" | grep -Ec "$target")" -ge 10 ]; }
is_stripped() { ! readelf -SW "$1" | grep -Eq ' \.(symtab|debug_info) '; }
loads_only_from_its_own_places() { # from $ORIGIN, or from a directory of the system (CUDA)
    ! readelf -dW "$1" | sed -n 's/.*(R.*PATH).*\[\(.*\)\]/\1/p' | tr : '\n' | grep -v '^$ORIGIN' | grep -Ev '^/(usr|opt)/'
}
has_no_path_of_the_builder() { ! grep -aqF -e "$source/" -e "$tmp/build" -e /gpu_dispatch/whisper- -e /gpu_dispatch/build. "$1"; }
needed() { readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
opens_network_libraries_at_run_time() { ! needed "$1" | grep -E '^lib(nats|curl)'; }
static_is_clean() { has_no_path_of_the_builder "$libdir/libgpu_dispatch.a"; }

# Whether this compiler and C library check copies.
# shellcheck disable=SC2086
can_check_copies() {
    printf '#include <string.h>\n#include <stdlib.h>\nint main(int n, char **a) { char b[9]; memcpy(b, a[0], (size_t)n); return atoi(b); }' |
        $cc -O2 -D_FORTIFY_SOURCE=2 -x c - -o "$tmp/probe" && has_checked_call "$tmp/probe"
}

check_elf_files() {
    try "there are programs and libraries" test -n "$(elf_files)"
    for check in is_position_independent has_no_executable_stack has_read_only_tables has_guarded_stack is_stripped \
        loads_only_from_its_own_places has_no_path_of_the_builder opens_network_libraries_at_run_time; do
        try "every file $(echo $check | tr _ ' ')" each_elf $check
    done
    ! can_check_copies || try "every file has checked copies" each_elf has_checked_copies
    case $($cc -dumpmachine) in
    x86_64*) target='\<endbr64\>' ;;
    aarch64*) target='\<(paciasp|bti)\>' ;;
    *) target='' ;;
    esac
    [ -z "$target" ] || try "every file has marked targets of jumps" each_elf has_marked_targets
    try "the static library has no path of the builder" static_is_clean
}

# Checks that the worker loads whisper.cpp from its own directory or from the system, not from the build directories.
transcriber_is_whole() { # WORKER
    needed=$(ldd "$1" | grep -E 'libwhisper|libggml')
    [ -n "$needed" ] || { echo "it links no whisper.cpp: $(ldd "$1")"; return 1; }
    odd=$(echo "$needed" | grep -v "=> $(dirname "$1")/" | grep -v '=> /usr/lib')
    [ -z "$odd" ] || { echo "$odd"; return 1; }
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

explains_what_it_has() { # each declared function is in the manual
    missing=0
    for name in $(declared); do
        grep -q "[ *]$name(" "$prefix/share/man/man3/libgpu_dispatch.3" || { echo "no $name in the manual"; missing=1; }
    done
    return "$missing"
}

declares_what_it_has() { # each declared function is exported
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

needs_only() { # FILE [NAME...]: needs the C library, and may need these libraries
    file=$1
    shift
    names=$(needed "$file")
    echo "$names" | grep -q '^libc\.' || { echo "it does not need the C library: $names"; return 1; }
    odd=$(echo "$names" | grep -Ev "^(ld-|lib(c|m|dl|pthread|rt|gcc_s$(printf '|%s' "$@"))\.)")
    [ -z "$odd" ] || { echo "it needs $odd"; return 1; }
}

stays_loaded() { # because a thread of the library may still run its code
    readelf -d "$libdir/libgpu_dispatch.so" | grep -q 'FLAGS_1.*NODELETE'
}

# A compiler may be "ccache gcc", and pkg-config prints several words. They are split on purpose.
# shellcheck disable=SC2046,SC2086
build_c() { $cc -std=c17 $flags "$here/double.c" -o "$tmp/double_c" $(pkg-config --cflags --libs gpu_dispatch); }
# shellcheck disable=SC2046,SC2086
build_cpp() {
    $cxx -std=c++17 $flags -x c++ "$here/double.c" -o "$tmp/double_cpp" $(pkg-config --cflags --libs gpu_dispatch)
}
# shellcheck disable=SC2046,SC2086
build_static() { # links the whole static library, and the libraries that pkg-config lists for it
    $cc -std=c17 $flags "$here/double.c" -o "$tmp/double_static" $(pkg-config --cflags gpu_dispatch) \
        -Wl,--whole-archive "$libdir/libgpu_dispatch.a" -Wl,--no-whole-archive \
        $(pkg-config --static --libs gpu_dispatch | sed 's/-lgpu_dispatch//')
}
# shellcheck disable=SC2046,SC2086
build_example() { # the first program of docs/c-api.md
    sed -n '/^```c title="squares.c"$/,/^```$/p' "$source/docs/c-api.md" | sed '/^```/d' >"$tmp/squares.c"
    $cc -std=c17 $flags "$tmp/squares.c" -o "$tmp/squares" $(pkg-config --cflags --libs gpu_dispatch)
}
run_example() { [ "$("$tmp/squares" | grep -c '^task ')" -eq 100 ]; }
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
# SQLite is for journals, libmicrohttpd for the page: both can be left out of a build.
try "library needs little more than the C library" needs_only "$libdir/libgpu_dispatch.so" sqlite3
try "command needs little more than the C library" needs_only "$prefix/bin/gpu-dispatch" sqlite3 microhttpd
try "manual explains what the headers declare" explains_what_it_has
try "manual page" test -f "$prefix/share/man/man3/libgpu_dispatch.3"
try "command is installed" test "$("$prefix/bin/gpu-dispatch" run --gpus sim:2 -k --quiet echo got {} ::: a b)" = "$(printf 'got a\ngot b')"
try "the manual pages of the command are installed" test -f "$prefix/share/man/man1/gpu-dispatch.1" -a -f "$prefix/share/man/man1/gpu-dispatch-run.1"
try "its completions" test -f "$prefix/share/bash-completion/completions/gpu-dispatch" -a -f "$prefix/share/zsh/site-functions/_gpu-dispatch"
try "command finds the converter of models" finds_converter
try "licence and notices are installed" test -f "$prefix/share/doc/gpu_dispatch/LICENSE" -a -f "$prefix/share/doc/gpu_dispatch/THIRD-PARTY.md"
check_elf_files
for worker in $(find "$prefix" -name transcribe.so); do
    try "transcriber finds its libraries beside it: ${worker#"$prefix"/}" transcriber_is_whole "$worker"
    try "transcriber works for another user: ${worker#"$prefix"/}" "$here/other_user.sh" "$source" "$tmp" "$worker"
    try "the licence of whisper.cpp is installed" test -f "$(dirname "$worker")/../../share/doc/gpu_dispatch/LICENSE.whisper.cpp" -o ! -f "$(dirname "$worker")/libwhisper.so.1"
done
try "host is installed" test -x "$prefix/libexec/gpu_dispatch/gpu-dispatch-host"
try "build in C" build_c
try "run in C" "$tmp/double_c"
if [ "$cxx" != none ]; then
    try "build in C++" build_cpp
    try "run in C++" "$tmp/double_cpp"
fi
try "build static" build_static
try "run static" env -u LD_LIBRARY_PATH "$tmp/double_static"
try "build the example of the documentation" build_example
try "run the example of the documentation" run_example
try "build plugin" build_plugin "$tmp/plugin.so"
try "run plugin on the installed host" "$tmp/double_c" "$tmp/plugin.so"
try "run plugin through the installed command" test "$("$prefix/bin/gpu-dispatch" run --gpus sim:1 --quiet --worker "$tmp/plugin.so" ::: aaaa)" = "$(printf '\302\302\302\302')" # 0x61616161, doubled
try "build plugin linked with the library" build_plugin "$tmp/linked.so" -L"$libdir" -lgpu_dispatch
try "run linked plugin on the installed host" "$tmp/double_c" "$tmp/linked.so"
finish
