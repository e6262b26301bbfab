#!/bin/sh
# Installs the Debian packages that a make target needs, with apt. It installs only missing packages, and prints their
# names first. If everything is present, it does nothing and needs no network.
# usage: setup.sh missing|tools|build|test|cluster|queue|bench_queue|check|whisper|transcribe|speech [BUILD_DIR]
#   missing      installs nothing: names the missing packages, and fails if one of them is needed for every build
#   tools        a compiler, Meson and Ninja
#   build        the same, and what the optional parts use: journals, the web page, transcription, the Python package
#   test         the same, and what tests use, a browser among them (about 125 MB; GD_BROWSER=no leaves it out)
#   cluster      what is built, and a Slurm (its daemons are not started)
#   queue        what is built, the client library of NATS, and two NATS servers, which are not installed
#   bench_queue  the same, with the headers of the client library, and a Redis server for Celery (Debian may start it)
#   check        what `make test` and `make check` use
#   whisper      what builds whisper.cpp (tools/whisper.sh)
#   transcribe   what the transcription worker uses, except whisper.cpp (GD_FFMPEG=no leaves FFmpeg out)
#   speech       the voice of `make demo-transcribe`
set -u
what=${1:-}
build=${2:-build}
packages='' updated='' installed=''

have() { command -v "$1" >/dev/null 2>&1; }
want() { have "$1" || packages="$packages $2"; } # want COMMAND PACKAGE
want_library() { { have pkg-config && pkg-config --exists "$1"; } || packages="$packages $2"; }
is_root() { [ "$(id -u)" -eq 0 ]; }
as_root() { if is_root; then "$@"; else sudo "$@"; fi; }
by_hand() { if is_root; then echo "apt-get install$packages"; else echo "sudo apt-get install$packages"; fi; }

die() {
    echo "setup: $*" >&2
    exit 1
}

# Installs $packages and empties the list.
install() {
    [ -n "$packages" ] || return 0
    if ! have apt-get; then
        echo "setup: missing:$packages (names of Debian packages). There is no apt-get here: please install them by hand" >&2
        return 1
    elif ! is_root && ! have sudo; then
        echo "setup: neither root nor sudo: cannot install packages. As root: apt-get install$packages" >&2
        return 1
    fi
    echo "setup: installing Debian packages:$packages"
    if [ -z "$updated" ]; then
        as_root apt-get update -q || return 1
        updated=1
    fi
    # shellcheck disable=SC2086 # a list
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages </dev/null ||
        return 1
    packages='' installed=1
}

install_needed() { install || die "could not install:$packages"; }

# install_optional WHAT_IS_LOST: a failure is not fatal here. Only `make setup` asks for a password.
install_optional() {
    [ -n "$packages" ] || return 0
    if [ "$what" != build ] && ! is_root && ! sudo -n true 2>/dev/null; then
        echo "setup: continuing without $1. This installs them: $(by_hand)"
    else
        install || echo "setup: continuing without $1: could not install:$packages"
    fi
    packages=
}

have_compiler() {
    if [ -n "${CC:-}" ]; then have "${CC%% *}"; else have cc || have gcc || have clang; fi
}

want_tools() {
    have_compiler || packages="$packages gcc libc6-dev"
    want meson meson
    want ninja ninja-build
}

# Whether there is a Python for the package: new enough, with headers and venv. Meson uses the first one in the PATH.
python_ready() {
    python3 -c 'import ensurepip, os, sys, sysconfig
sys.exit(sys.version_info < (3, 10) or not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null
}

# Debian's packages only help Debian's own Python.
want_python() {
    python_ready && return 0
    case $(command -v python3) in
    /usr/bin/python3 | /bin/python3 | "") packages="$packages python3-dev python3-venv" ;;
    *) echo "setup: $(command -v python3) is older than 3.10 or lacks headers or venv: no Python package" ;;
    esac
}

want_optional() {
    want_library sqlite3 libsqlite3-dev
    want_library libmicrohttpd libmicrohttpd-dev
    want_transcribe
    want_python
}

want_transcribe() {
    want pkg-config pkg-config
    want_library sndfile libsndfile1-dev
    want_library soxr libsoxr-dev
}

# FFmpeg's libraries read more audio formats. The worker is also built without them.
want_ffmpeg() {
    [ "${GD_FFMPEG:-}" != no ] || return 0
    for library in libavformat libavcodec libavutil libswresample; do
        want_library $library $library-dev
    done
}

install_ffmpeg() {
    want_ffmpeg
    install_optional "FFmpeg's libraries, so m4a, aac, mp4, mkv, webm and wma files cannot be read"
}

# Without these some tests are skipped or do less.
want_for_tests() {
    want g++ g++
    want parallel parallel
    want tmux tmux
    want ffmpeg ffmpeg
    want_library fuse3 libfuse3-dev
    have chromium || have chromium-browser || have google-chrome || [ "${GD_BROWSER:-}" = no ] ||
        packages="$packages chromium"
}

# A build directory that was configured before a library was installed finds the library only when it is configured
# again. `make setup` always configures again, because the library may have been installed by hand.
reconfigure() {
    [ -f "$build/build.ninja" ] || return 0
    [ -n "$installed" ] || [ "$what" = build ] || return 0
    meson setup --reconfigure "$build" >/dev/null || die "meson setup --reconfigure $build failed"
}

report_missing() {
    want_tools
    if [ -n "$packages" ] && have apt-get; then
        die "cannot build, these packages are missing:$packages. This installs them: $(by_hand)"
    elif [ -n "$packages" ]; then
        die "cannot build, these are missing (names of Debian packages):$packages. Install them with your package manager"
    fi
    [ ! -f "$build/build.ninja" ] || return 0
    want_optional
    want_ffmpeg
    [ -z "$packages" ] ||
        echo "setup: building without some optional parts, missing:$packages. This installs them: make setup"
}

setup_build() {
    want_tools
    install_needed
    want_optional
    install_optional "some optional parts (journals, the web page, transcription, the Python package)"
    install_ffmpeg
    reconfigure
}

setup_test() {
    setup_build
    want_for_tests
    install_optional "what some tests use"
    fetch_queue
}

have_libnats() {
    for library in /usr/lib/*/libnats.so.* /usr/lib/libnats.so.* /usr/lib64/libnats.so.* /usr/local/lib/libnats.so.*; do
        [ ! -e "$library" ] || return 0
    done
    return 1
}

# The servers are fetched into a cache directory. Without them, and without libnats, the tests of queues are skipped.
fetch_queue() {
    have_libnats || packages="$packages $(libnats_package)"
    want openssl openssl
    install_optional "the tests of queues on a NATS server"
    for server in new old; do
        tools/nats_server.sh "$server" >/dev/null || echo "setup: continuing without some tests of queues (see above)"
    done
}

# The version is part of the package's name. Debian 12 has 3.4.
libnats_package() {
    name=$(apt-cache pkgnames libnats 2>/dev/null | grep -E '^libnats[0-9.]+(t64)?$' | sort -V | tail -n 1)
    echo "${name:-libnats3.4}"
}

setup_queue() {
    setup_build
    fetch_queue
}

setup_bench_queue() {
    setup_queue
    want pkg-config pkg-config
    want_library libnats libnats-dev
    want redis-server redis-server
    install_optional "some comparisons of queues"
    reconfigure
}

# Debian may start munged as a service. The tests do not use it: they start their own daemons.
setup_cluster() {
    setup_build
    PATH=$PATH:/usr/sbin
    want munged munge
    want slurmctld slurmctld
    want slurmd slurmd
    want sbatch slurm-client
    want shellcheck shellcheck
    want_library fuse3 libfuse3-dev
    install_optional "the tests on a Slurm and on network file systems"
}

fuzzer_links() {
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const
        unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null
}

setup_check() {
    setup_test
    want clang clang
    want clang-format clang-format
    want clang-tidy clang-tidy
    want abidiff abigail-tools
    install_needed
    fuzzer_links || packages=" libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    install_needed
}

want_whisper() {
    want cmake cmake
    have ninja || want make make
    want g++ g++
    want flock util-linux
    [ -n "${WHISPER_SDIST:-}${WHISPER_SOURCE:-}" ] || python3 -m pip --version >/dev/null 2>&1 ||
        packages="$packages python3-pip"
}

case $what in
missing) report_missing ;;
tools) want_tools && install_needed ;;
build) setup_build ;;
test) setup_test ;;
cluster) setup_cluster ;;
queue) setup_queue ;;
bench_queue) setup_bench_queue ;;
check) setup_check ;;
whisper) want_whisper && install_needed ;;
transcribe) want_transcribe && install_needed && install_ffmpeg ;;
speech) want espeak-ng espeak-ng && install_needed ;;
*) die "usage: setup.sh missing|tools|build|test|cluster|queue|bench_queue|check|whisper|transcribe|speech [BUILD_DIR]" ;;
esac
