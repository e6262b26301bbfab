#!/bin/sh
# Sees to it that a build folder has the transcription worker (apps/transcribe/transcribe.so), for the GPUs that are here.
# A folder that was configured where whisper.cpp, libsndfile or libsoxr were missing gets them: the libraries through apt,
# whisper.cpp from source into a cache folder (tools/whisper.sh), both once. One that has the worker costs nothing.
# usage: transcriber.sh [--any|--try|--cached] BUILD_DIR    WHISPER=auto|cuda|cpu, what it is to be built for
#   --any      whatever it computes on: one for the processor is made soonest
#   --try      the same, and not having it is no error: says why
#   --cached   the same, and nothing is fetched: what is there is used
set -u
mode=must kind=cpu
case ${1:-} in --any | --try | --cached) mode=${1#--} && shift ;; esac
[ "$mode" != must ] || kind=${WHISPER:-auto}
build=${1:?usage: transcriber.sh [--any|--try|--cached] BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
worker=apps/transcribe/transcribe.so

# Ends here, without the worker.
without() {
    if [ "$mode" = must ] || [ "$mode" = any ]; then
        echo "transcriber: $*" >&2
        exit 1
    fi
    echo "transcriber: without the transcription worker, and what tests it is skipped: $*"
    exit 0
}

ours='/gpu_dispatch/whisper-[^/]*/lib/pkgconfig$' # what tools/whisper.sh has made

planned() { grep -q "^build $worker:" "$build/build.ninja"; }

have() { command -v pkg-config >/dev/null && pkg-config --exists "$@"; }

option() { # its value; a list's values joined by commas
    python3 -c 'import json, sys
for each in json.load(open(sys.argv[1] + "/meson-info/intro-buildoptions.json")):
    if each["name"] == sys.argv[2]:
        print(each["value"] if isinstance(each["value"], str) else ",".join(each["value"]))' "$build" "$1"
}

# Prints the folder where whisper.cpp's pkg-config file is, nothing if it is where pkg-config looks anyway.
find_whisper() {
    have whisper && return 0
    if [ "$mode" = cached ]; then
        prefix=$("$here/whisper.sh" "$kind" --cached)
    else
        # Where there is no network that is to be known soon.
        prefix=$(PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=15 "$here/whisper.sh" "$kind")
    fi && echo "$prefix/lib/pkgconfig"
}

add_to_build() {
    [ "$(option transcribe)" != disabled ] || without "$build is configured with -Dtranscribe=disabled"
    [ "$mode" = cached ] || "$here/setup.sh" transcribe || without "libsndfile and libsoxr could not be installed (see above)"
    have sndfile soxr || without "pkg-config does not find libsndfile and libsoxr (Debian: libsndfile1-dev libsoxr-dev)"
    folder=$(find_whisper) || without "whisper.cpp's library is not here and could not be built (see above); with a network, \
or the archive of its sources in WHISPER_SDIST, tools/whisper.sh does it"
    # Before what was chosen here the last time.
    paths=$(option pkg_config_path | tr , '\n' | grep -v "$ours" | paste -sd , -)
    [ -z "$folder" ] || paths=$folder${paths:+,$paths}
    meson setup --reconfigure "$build" -Dpkg_config_path="$paths" >"$build/transcriber.log" 2>&1 ||
        without "$(tail -n 20 "$build/transcriber.log")"
    planned || without "Meson did not find all that it needs: see $build/meson-logs/meson-log.txt"
}

# Whether it is built with a whisper.cpp of ours that is not for what is asked for.
is_other() {
    [ "$mode" = must ] || return 1
    paths=$(option pkg_config_path | tr , '\n' | grep "$ours") || return 1
    folder=$(find_whisper) || return 0 # which is told by who gets it
    [ -n "$folder" ] && [ "$folder" != "$(echo "$paths" | head -n 1)" ]
}

[ -f "$build/build.ninja" ] || without "$build is no configured build folder"
if ! planned || is_other; then
    add_to_build
fi
ninja -C "$build" --quiet "$worker" || exit 1 # one that can't be compiled is an error in any case
