#!/bin/sh
# Word error rate of a model through whisper.cpp, on a folder of clips (WAV or FLAC, 16 kHz mono, with transcripts.tsv).
# usage: evaluate.sh [MODEL [FOLDER [N]]]     N: join every N clips, with a second's pause, to files of a minute or so
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
model=${1:-$root/models/ggml-demo.bin}
clips=${2:-$root/tests/data/speech}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prefix=$("$here/../whisper.sh")
# shellcheck disable=SC2046 # flags
${CC:-gcc} -O2 -std=gnu17 "$here/wer.c" -o "$work/wer" \
    $(PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs whisper)
sed 's/\.flac/.wav/' "$clips/transcripts.tsv" >"$work/transcripts.tsv"
for file in "$clips"/*.wav "$clips"/*.flac; do
    case $file in
    *'*'*) ;;
    *.wav) cp "$file" "$work/" ;;
    *) flac -s -d -o "$work/$(basename "${file%.flac}").wav" "$file" ;;
    esac
done
"$work/wer" "$model" "$work" "${3:-1}"
