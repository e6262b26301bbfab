#!/bin/sh
# Measures the word error rate of a model with whisper.cpp alone, on a directory of clips (WAV or FLAC, 16 kHz mono, with
# transcripts.tsv). Needs the headers of libsndfile, and flac to join FLAC files.
# usage: evaluate.sh [MODEL [DIR [N]]]     N: join every N clips to one file, with a pause of one second between them
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
model=${1:-$root/models/ggml-demo.bin}
clips=${2:-$root/tests/data/speech}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prefix=$("$here/../whisper.sh")
# shellcheck disable=SC2046 # flags
${CC:-gcc} -O2 -std=gnu17 -D_GNU_SOURCE "$root/bench/whisper_loop.c" -o "$work/whisper_loop" \
    $(PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs whisper sndfile) "-Wl,-rpath,$prefix/lib"

# Converts the clips to WAV and joins N clips to one file.
joined() {
    mkdir "$work/wav" "$work/joined"
    for file in "$clips"/*.wav "$clips"/*.flac; do
        case $file in
        *'*'*) ;;
        *.wav) cp "$file" "$work/wav/" ;;
        *) flac -s -d -o "$work/wav/$(basename "${file%.flac}").wav" "$file" ;;
        esac
    done
    sed 's/\.flac/.wav/' "$clips/transcripts.tsv" >"$work/wav/transcripts.tsv"
    "$here/join.py" "$work/wav" "$work/joined" "$1"
    clips=$work/joined
}

[ "${3:-1}" -le 1 ] || joined "$3"
mkdir "$work/heard"
sed -n "2,\$s|\([^	]*\).*|$clips/\1|p" "$clips/transcripts.tsv" |
    "$work/whisper_loop" -t 2 "$model" "$work/heard" >"$work/times"
"$root/tools/wer.py" "$clips/transcripts.tsv" "$work/heard"
