#!/bin/sh
# Installs the Debian packages that `make` needs and that are missing, with apt, and prints their names.
# If everything is there, it does nothing and needs no network.
# usage: setup.sh [build|check|browser|whisper|transcribe|speech] [BUILD_DIR]
set -u
what=${1:-build}
build=${2:-build}
packages=

have() { command -v "$1" >/dev/null 2>&1; }
want() { have "$1" || packages="$packages $2"; } # want COMMAND PACKAGE

die() {
    echo "setup: $*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        die "not root and no sudo; as root, please: apt-get install$packages"
    fi
}

install() {
    [ -n "$packages" ] || return 0
    have apt-get || die "missing:$packages (Debian's names). There is no apt-get here: please install them by hand"
    echo "setup: installing Debian packages:$packages"
    if [ -z "${updated:-}" ]; then
        as_root apt-get update -q || die "apt-get update failed"
        updated=1
    fi
    # shellcheck disable=SC2086 # a list
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages </dev/null ||
        die "could not install:$packages"
    packages=
}

fuzzer_links() {
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const
        unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null
}

# Whether there is a Python for the package: new enough, with headers and venv. Meson uses the first one in the PATH.
python_ready() {
    python3 -c 'import ensurepip, os, sys, sysconfig
sys.exit(sys.version_info < (3, 10) or not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null
}

# Everything else works without the Python package, so nothing here is fatal. A build directory that was configured without
# the package stays so.
needs_python() {
    [ -f "$build/build.ninja" ] || python_ready && return 0
    case $(command -v python3) in
    /usr/bin/python3 | /bin/python3 | "") ;;
    *) echo "setup: $(command -v python3) is older than 3.10 or lacks headers: no Python package" && return 0 ;;
    esac
    packages="python3-dev python3-venv"
    (install) || echo "setup: going on without the Python package"
    packages=
}

# The same for optional parts: journals use SQLite, the web page uses libmicrohttpd, transcription uses libsndfile and
# libsoxr. All are found by pkg-config. FFmpeg's libraries, which read more audio formats, are used if they are there.
needs_optional() {
    [ -f "$build/build.ninja" ] && return 0
    want pkg-config pkg-config
    have pkg-config && pkg-config --exists sqlite3 || packages="$packages libsqlite3-dev"
    have pkg-config && pkg-config --exists libmicrohttpd || packages="$packages libmicrohttpd-dev"
    have pkg-config && pkg-config --exists sndfile || packages="$packages libsndfile1-dev"
    have pkg-config && pkg-config --exists soxr || packages="$packages libsoxr-dev"
    [ -z "$packages" ] || (install) || echo "setup: going on without:$packages (journals, the web page, transcription)"
    packages=
}

needs_build() {
    want "${CC:-gcc}" gcc
    want meson meson
    want ninja ninja-build
    # Only a few tests need these, and are otherwise skipped or do less. So they alone are no reason to use the network.
    if [ -n "$packages" ] || [ "$what" = check ]; then
        want pkg-config pkg-config
        want g++ g++
        want parallel parallel
        want tmux tmux
        have "${CC:-gcc}" || packages="$packages libc6-dev"
    fi
    install
    needs_python
    needs_optional
}

needs_check() {
    want clang clang
    want clang-format clang-format
    want clang-tidy clang-tidy
    install
    fuzzer_links || packages="libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    install
}

# For tools/whisper.sh, which builds the speech library.
needs_whisper() {
    want cmake cmake
    have ninja || want make make
    want g++ g++
    want flock util-linux
    [ -n "${WHISPER_SDIST:-}${WHISPER_SOURCE:-}" ] || python3 -m pip --version >/dev/null 2>&1 || packages="$packages python3-pip"
    install
}

# For the transcription worker, in addition to whisper.cpp.
needs_transcribe() {
    want pkg-config pkg-config
    have pkg-config && pkg-config --exists sndfile || packages="$packages libsndfile1-dev"
    have pkg-config && pkg-config --exists soxr || packages="$packages libsoxr-dev"
    install
}

# For `make demo-transcribe`, which makes the speech that it transcribes.
needs_speech() {
    want espeak-ng espeak-ng
    install
}

# For the test of the web page, which is skipped without a browser. It is only a test, so nothing here is fatal, and nobody is
# asked for a password. The download is about 125 MB; GD_BROWSER=no avoids it.
needs_browser() {
    if have chromium || have chromium-browser || have google-chrome || [ "${GD_BROWSER:-}" = no ]; then
        return 0
    fi
    packages=" chromium"
    if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then
        echo "setup: no browser: the test of the web page is skipped. As root: apt-get install$packages"
        return 0
    fi
    (install) || echo "setup: going on without a browser: the test of the web page is skipped"
}

case $what in
build) needs_build ;;
check) needs_build && needs_check ;;
browser) needs_browser ;;
whisper) needs_whisper ;;
transcribe) needs_transcribe ;;
speech) needs_speech ;;
*) die "usage: setup.sh [build|check|browser|whisper|transcribe|speech] [BUILD_DIR]" ;;
esac
