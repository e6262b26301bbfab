#!/bin/sh
# Transcribes a clip with an installed command, as another user. That user sees neither the build directory, nor the
# cache directory in which whisper.cpp was built: the worker must find its libraries beside itself.
# usage: other_user.sh SOURCE_DIR DIR WORKER
#   DIR       has the build directory `build`; a home for the other user is made in it
#   WORKER    the installed transcribe.so
# Exit status 77: not possible here. Needs root. Hides the cache directory if it may mount.
set -u
if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
    echo "needs root and setpriv"
    exit 77
fi
if [ -z "${GD_TEST_OWN_MOUNTS:-}" ] && unshare --mount true 2>/dev/null; then
    GD_TEST_OWN_MOUNTS=1 exec unshare --mount "$0" "$@"
fi
source=$1 dir=$2 worker=$3
home=$dir/home
command=$(dirname "$worker")/../../bin/gpu-dispatch
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu_dispatch

die() {
    echo "$*"
    exit 1
}

as_other_user() {
    setpriv --reuid=65534 --regid=65534 --clear-groups env -i PATH=/usr/bin:/bin HOME="$home" "$@"
}

rm -rf "$home" && mkdir "$home" && cp "$source/tests/data/speech/clip_020.flac" "$home" &&
    chown -R 65534:65534 "$home" && chmod 755 "$dir" && chmod 700 "$dir/build" || die "cannot make $home"
if [ -n "${GD_TEST_OWN_MOUNTS:-}" ] && [ -d "$cache" ]; then
    mount -t tmpfs -o mode=700 none "$cache" || die "cannot hide $cache"
fi
! as_other_user test -r "$dir/build/build.ninja" || die "the other user can read $dir/build"
! as_other_user test -r "$cache" || die "the other user can read $cache"
as_other_user "$command" transcribe --gpus cpu --model-size demo --quiet --output-dir "$home/text" \
    "$home/clip_020.flac" || die "the command failed"
text=$(cat "$home/text/clip_020.txt")
[ "$text" = "previous timer" ] || die "the text is: $text"
