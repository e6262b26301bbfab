#!/bin/bash
# The checks of CI besides `make test`: format, lint, layers, complete lists, documents, headers with clang, the
# interface of the library, the tests with ASan and UBSan (gcc: those in C, and those in Python that test C code) and
# with TSan (clang), the fuzz targets with their corpora. Builds treat warnings as errors. Each step counts as one
# test. Steps that run tests add the number of their tests. The last line is `N passed, N failed`.
# usage: check.sh [STEP...]
set -u
cd "$(dirname "$0")/.." || exit 1
logs=build-check
passed=0 failed=0
mkdir -p "$logs"

sources() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

# Configures DIR once, with warnings as errors.
configure() {
    local dir=$1
    shift
    [ -f "$dir/build.ninja" ] || meson setup "$dir" --werror -Dexamples=false -Dbench=false "$@"
}

step_format() {
    sources '*.c' '*.h' | xargs clang-format --dry-run -Werror
}

# Only the sources of the product. `check.sh lint_all` also checks the tests, which takes twice as long.
tidy() {
    sources "$@" | xargs -P "$(nproc)" -I{} \
        clang-tidy --quiet {} -- -std=c17 -D_GNU_SOURCE -DGD_TEST_HOOKS -DGD_HOST_PATH='"x"' -DGD_VERSION='"x"' \
        -DGD_DATA_DIR='"x"' -Iinclude -Isrc -I. -Itests
}
# Python's headers are system headers, so that warnings in them are not reported.
tidy_python() {
    sources "$@" | xargs -P "$(nproc)" -I{} \
        clang-tidy --quiet {} -- -std=c17 -D_GNU_SOURCE -DGD_VERSION='"x"' -DVIEW_MOST=200 -DVIEW_CACHE_BYTES=25165824 \
        -Iinclude -Isrc -I. \
        -isystem "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')"
}
# Headers that the transcription sources include, themselves or through a header of their directory or below it, and the
# package of each. A source is skipped if one of its packages is missing. Warnings in system headers are not reported.
speech_headers='
libavcodec/ libavcodec
libavformat/ libavformat
libavutil/ libavutil
libswresample/ libswresample
mpg123.h libmpg123
sndfile.h sndfile
soxr.h soxr
whisper.h whisper
ggml whisper'
tidy_speech_file() {
    local header module flags=()
    while read -r header module; do
        [ -n "$header" ] && cat "$1" "$(dirname "$1")"/*.h "$(dirname "$1")"/*/*.h 2>/dev/null | grep -q "#include <$header" || continue
        pkg-config --exists "$module" || { echo "$1: not checked, $module is missing" && return 0; }
        local words
        read -ra words <<<"$(pkg-config --cflags-only-I "$module" | sed 's/-I */-isystem /g')"
        flags+=("${words[@]}")
    done <<<"$speech_headers"
    clang-tidy --quiet "$1" -- -std=c17 -D_GNU_SOURCE -DGD_DATA_DIR='"x"' -DTR_WHISPER_VERSION='"x"' -DTR_HAVE_FFMPEG \
        -DTR_HAVE_MPG123 -DGD_TEST_HOOKS -Iinclude -Isrc -I. -Itests "${flags[@]}"
}
tidy_speech() {
    local prefix
    prefix=$(tools/whisper.sh --cached 2>/dev/null) && export PKG_CONFIG_PATH=$prefix/lib/pkgconfig:${PKG_CONFIG_PATH:-}
    export speech_headers
    export -f tidy_speech_file
    sources "$@" | xargs -P "$(nproc)" -I{} bash -c 'tidy_speech_file "$1"' _ {}
}
step_lint() {
    tidy 'src/*.c' 'view/*.c' 'tui/*.c' 'web/*.c' 'cli/*.c' && tidy_python 'python/*.c' && tidy_speech 'apps/*.c'
}
step_lint_all() {
    step_lint && tidy 'bench/*.c' 'examples/*.c' 'tests/*.c' ':!bench/whisper_loop.c' ':!tests/python/*.c' \
        ':!tests/transcribe/*.c' && tidy_python 'tests/python/*.c' &&
        tidy_speech 'bench/whisper_loop.c' 'tests/transcribe/*.c'
}

# Every source and every test program must be in its meson.build, otherwise it would not be built and tested.
step_lists() {
    local f name part bad=0
    for part in src view tui web cli apps/transcribe; do
        for f in $(sources "$part/*.c"); do
            grep -q "'${f#"$part"/}'" "$part/meson.build" || { echo "$f is not in $part/meson.build"; bad=1; }
        done
    done
    for f in $(sources 'tests/*/test_*.c' 'tests/fuzz/fuzz_*.c'); do
        name=$(basename "$f" .c)
        grep -q "'${name#*_}'" tests/meson.build || { echo "$f is not in tests/meson.build"; bad=1; }
    done
    for f in $(sources 'include/*.h'); do
        grep -q "'$f'" meson.build || { echo "$f is not installed by meson.build"; bad=1; }
    done
    for f in $(sources 'python/native/*.c'); do
        grep -q "'$(basename "$f" .c)'\|'${f#python/}'" python/meson.build || { echo "$f is not in python/meson.build"; bad=1; }
    done
    for f in $(sources 'python/gpu_dispatch/*.py*'); do
        grep -q "'${f#python/gpu_dispatch/}'" python/gpu_dispatch/meson.build ||
            { echo "$f is not in python/gpu_dispatch/meson.build"; bad=1; }
    done
    return "$bad"
}

# Checks that links, paths, targets and messages in the documents exist in the tree. First tests the check itself, on
# documents with faults.
step_docs() {
    python3 tests/tools/test_check_docs.py && python3 tools/docs/check_docs.py
}

# Compares the layers in docs/architecture.md with the real #includes. First tests the check itself, on trees with
# faults.
step_layers() {
    python3 tests/tools/test_layers.py && python3 tools/check/layers.py
}

step_headers() {
    tests/headers/check.sh clang clang++ include
}

# Checks that the interface of the shared library is the stored one.
step_abi() {
    tools/check/abi.sh check
}

# Reports a check that this machine does not allow; run() shows such lines.
left_out() { echo "left out: $*"; }

# Switches the leak check off if it does not work here. It stops a process like a debugger, and some containers do not
# allow that.
look_for_leaks() { # COMPILER
    echo 'int main(void) { return 0; }' >"$logs/nothing.c"
    # shellcheck disable=SC2086 # may be "ccache gcc"
    $1 -fsanitize=address "$logs/nothing.c" -o "$logs/nothing" || return 1
    "$logs/nothing" && return 0
    left_out "the leak check, which is not possible here"
    export LSAN_OPTIONS=detect_leaks=0
}

# Includes the transcription worker if whisper.cpp is in the cache (`make test` builds it).
configure_asan() {
    configure build-asan -Db_sanitize=address,undefined -Db_lundef=false && tools/transcriber.sh --cached build-asan
}

# Without the suite "whole": whole programs, and programs that take long here. The other suites run the same code.
step_asan() {
    look_for_leaks "${CC:-gcc}" && configure_asan &&
        tools/test.sh build-asan -t 5 --no-suite headers --no-suite install --no-suite python --no-suite cluster \
            --no-suite queue_long --no-suite whole
}

# Runs Python tests in the same build, in a Python with the sanitizer preloaded. Python itself has hundreds of leaks, so
# the leak check is off. Instead, test_leaks.py finds our leaks by counting. The arguments are test files.
python_asan() {
    configure_asan && ninja -C build-asan || return 1
    # Uses the environment of build/, because making another one takes long.
    [ -e build-asan/venv ] || [ ! -f build/venv/made ] || ln -s "$PWD/build/venv" build-asan/venv
    tools/venv.sh build-asan
    PYTEST_ADDOPTS="$*" GD_TEST_TIMEOUT=1500 tools/test.sh build-asan -t 5 --suite python --no-suite slow
}

# Only the tests that are about C code.
step_pyasan() {
    python_asan tests/python/test_{values,views,worker}.py
}

# All Python tests. It takes long, so it is not part of a whole check.
step_pyasan_all() {
    python_asan
}

step_tsan() {
    local steady=()
    # The shadow memory of TSan does not fit into every randomized address space.
    if setarch "$(uname -m)" -R true 2>/dev/null; then
        steady=(setarch "$(uname -m)" -R)
    elif [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)" -gt 28 ]; then
        left_out "ThreadSanitizer: addresses have too many random bits (vm.mmap_rnd_bits), and setarch -R is not allowed"
        return 0
    fi
    CC=clang configure build-tsan -Db_sanitize=thread -Db_lundef=false &&
        "${steady[@]}" tools/test.sh build-tsan -t 5 --suite tsan
}

step_fuzz() {
    look_for_leaks clang && CC=clang configure build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false &&
        ninja -C build-fuzz fuzzers || return 1
    # Runs the corpus, then a few seconds more from a fixed seed.
    sources 'tests/fuzz/fuzz_*.c' | xargs -P "$(nproc)" -I{} sh -c 'name=$(basename {} .c) && mkdir -p "$0/$name" &&
        "build-fuzz/tests/$name" -seed=1 -max_total_time=5 -artifact_prefix="$0/$name-" "$0/$name" "tests/fuzz/corpus/${name#fuzz_}"' "$logs"
}

count() { # adds the last `N passed, N failed` of a log
    local line
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed' "$1" | tail -n 1)
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    fi
}

run() {
    local name=$1 log=$logs/$1.log start=$SECONDS
    if "step_$name" >"$log" 2>&1 </dev/null; then
        echo "ok $name ($((SECONDS - start)) s)"
        grep -a '^left out: ' "$log"
        passed=$((passed + 1))
    else
        tail -n 60 "$log"
        echo "FAILED $name ($((SECONDS - start)) s): the whole log is $log"
        failed=$((failed + 1))
    fi
    count "$log"
}

# lint and fuzz only compute. So they run in parallel with the other steps, whose tests mostly wait, and with a lower
# priority.
run_all() {
    local each
    nice -n 19 tools/check.sh lint fuzz >"$logs/beside.log" 2>&1 &
    for each in format layers lists docs headers abi asan pyasan tsan; do run "$each"; done
    wait
    cat "$logs/beside.log"
    count "$logs/beside.log"
    grep -qE '^[0-9]+ passed' "$logs/beside.log" || failed=$((failed + 1))
}

for name in "${@:-all}"; do
    if [ "$name" = all ]; then
        run_all
    elif [ "$(type -t "step_$name")" = function ]; then
        run "$name"
    else
        echo "no such step: $name" >&2
        exit 2
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
