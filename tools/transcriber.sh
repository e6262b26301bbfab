#!/bin/sh
# Builds the transcription worker (apps/transcribe/transcribe.so) in a build directory, for the GPUs of this machine. If
# libsndfile, libsoxr or FFmpeg's libraries are missing, they are installed with apt. It goes on without FFmpeg if that
# fails. If whisper.cpp is missing, it is built from source into a cache directory (tools/whisper.sh). Both happen only
# once. If the worker exists already, nothing is done.
# usage: transcriber.sh [--any|--try|--cached] BUILD_DIR    WHISPER=auto|cuda|cpu: what to build for
#   --any      accept any worker; if there is none, build one for the CPU, which is the fastest to build
#   --try      the same, but a failure is not an error: only print the reason
#   --cached   the same, but download nothing: use only what is already installed or cached
set -u
mode=must kind=cpu
case ${1:-} in --any | --try | --cached) mode=${1#--} && shift ;; esac
[ "$mode" != must ] || kind=${WHISPER:-auto}
build=${1:?usage: transcriber.sh [--any|--try|--cached] BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
worker=apps/transcribe/transcribe.so

# Ends the script without the worker.
without() {
    if [ "$mode" = must ] || [ "$mode" = any ]; then
        echo "transcriber: $*" >&2
        exit 1
    fi
    echo "transcriber: no transcription worker, so its tests are skipped: $*"
    exit 0
}

ours='/gpu_dispatch/whisper-[^/]*/lib/pkgconfig$' # directories made by tools/whisper.sh

planned() { grep -q "^build $worker:" "$build/build.ninja"; }

have() { command -v pkg-config >/dev/null && pkg-config --exists "$@"; }

option() { # prints the value of an option; the values of a list are joined by commas
    python3 -c 'import json, sys
for each in json.load(open(sys.argv[1] + "/meson-info/intro-buildoptions.json")):
    if each["name"] == sys.argv[2]:
        print(each["value"] if isinstance(each["value"], str) else ",".join(each["value"]))' "$build" "$1"
}

# Prints the directory of whisper.cpp's pkg-config file, or nothing if pkg-config finds it anyway.
find_whisper() {
    have whisper && return 0
    if [ "$mode" = cached ]; then
        prefix=$("$here/whisper.sh" "$kind" --cached)
    else
        # Without network this should fail soon.
        prefix=$(PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=15 "$here/whisper.sh" "$kind")
    fi && echo "$prefix/lib/pkgconfig"
}

install_libraries() {
    ffmpeg=yes
    [ "$(option ffmpeg)" != disabled ] || ffmpeg=no
    GD_FFMPEG=$ffmpeg "$here/setup.sh" transcribe
}

# Whether the worker was built without FFmpeg, which is wanted.
lacks_ffmpeg() {
    [ "$mode" = must ] && [ "$(option ffmpeg)" != disabled ] && ! grep -q TR_HAVE_FFMPEG "$build/build.ninja"
}

add_to_build() {
    [ "$(option transcribe)" != disabled ] || without "$build is configured with -Dtranscribe=disabled"
    [ "$mode" = cached ] || install_libraries || without "libsndfile and libsoxr could not be installed (see above)"
    have sndfile soxr || without "pkg-config does not find libsndfile and libsoxr (Debian: libsndfile1-dev libsoxr-dev)"
    directory=$(find_whisper) || without "whisper.cpp is not installed and could not be built (see above). tools/whisper.sh builds \
it; it needs network, or the archive of its sources in WHISPER_SDIST"
    # The new directory replaces the one that was chosen the last time.
    paths=$(option pkg_config_path | tr , '\n' | grep -v "$ours" | paste -sd , -)
    [ -z "$directory" ] || paths=$directory${paths:+,$paths}
    meson setup --reconfigure "$build" -Dpkg_config_path="$paths" >"$build/transcriber.log" 2>&1 ||
        without "$(tail -n 20 "$build/transcriber.log")"
    planned || without "Meson did not find everything that it needs: see $build/meson-logs/meson-log.txt"
}

# Whether the build uses a whisper.cpp from our cache that was built for another kind of device than the requested one.
is_other() {
    [ "$mode" = must ] || return 1
    paths=$(option pkg_config_path | tr , '\n' | grep "$ours") || return 1
    directory=$(find_whisper) || return 0 # add_to_build() reports it
    [ -n "$directory" ] && [ "$directory" != "$(echo "$paths" | head -n 1)" ]
}

[ -f "$build/build.ninja" ] || without "$build is not a configured build directory"
if ! planned || is_other || lacks_ffmpeg; then
    add_to_build
fi
ninja -C "$build" --quiet "$worker" || exit 1 # a worker that cannot be compiled is always an error
