#!/bin/sh
# Sees to it that a build folder has the transcription worker (apps/transcribe/transcribe.so). A folder that was
# configured where whisper.cpp, libsndfile or libsoxr were missing gets them: the libraries through apt, whisper.cpp from
# source into a cache folder (tools/whisper.sh), both once. One that has the worker costs nothing.
# usage: transcriber.sh [--try|--cached] BUILD_DIR
#   --try      not having it is no error: says why
#   --cached   the same, and nothing is fetched: what is there is used
set -u
mode=must
case ${1:-} in --try | --cached) mode=${1#--} && shift ;; esac
build=${1:?usage: transcriber.sh [--try|--cached] BUILD_DIR}
here=$(cd "$(dirname "$0")" && pwd)
worker=apps/transcribe/transcribe.so

# Ends here, without the worker.
without() {
    if [ "$mode" = must ]; then
        echo "transcriber: $*" >&2
        exit 1
    fi
    echo "transcriber: without the transcription worker, and what tests it is skipped: $*"
    exit 0
}

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
        prefix=$("$here/whisper.sh" --cached)
    else
        # Where there is no network that is to be known soon.
        prefix=$(PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=15 "$here/whisper.sh")
    fi && echo "$prefix/lib/pkgconfig"
}

add_to_build() {
    [ "$(option transcribe)" != disabled ] || without "$build is configured with -Dtranscribe=disabled"
    [ "$mode" = cached ] || "$here/setup.sh" transcribe || without "libsndfile and libsoxr could not be installed (see above)"
    have sndfile soxr || without "pkg-config does not find libsndfile and libsoxr (Debian: libsndfile1-dev libsoxr-dev)"
    folder=$(find_whisper) || without "whisper.cpp's library is not here and could not be built (see above); with a network, \
or the archive of its sources in WHISPER_SDIST, tools/whisper.sh does it"
    paths=$(option pkg_config_path)
    case ,$paths, in
    *,"$folder",*) ;;
    *) paths=$folder${paths:+,$paths} ;;
    esac
    meson setup --reconfigure "$build" -Dpkg_config_path="$paths" >"$build/transcriber.log" 2>&1 ||
        without "$(tail -n 20 "$build/transcriber.log")"
    planned || without "Meson did not find all that it needs: see $build/meson-logs/meson-log.txt"
}

[ -f "$build/build.ninja" ] || without "$build is no configured build folder"
planned || add_to_build
ninja -C "$build" --quiet "$worker" || exit 1 # one that can't be compiled is an error in any case
