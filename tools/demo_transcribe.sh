#!/bin/sh
# Makes spoken clips with espeak-ng, transcribes them on two simulated GPUs (which are CPU threads) with the model that
# is part of the sources, and prints the transcripts next to the spoken words. Fails if 10 % of the words or more are
# wrong.
# usage: demo_transcribe.sh BUILD_DIR
set -u
build=$(cd "$1" && pwd) || exit 1
cd "$(dirname "$0")/.." || exit 1
PATH=$build:$PATH
work=$build/demo-transcribe

show() {
    printf '\n$ %s\n' "$1"
    sh -c "$1"
}

rm -rf "$work"
show "tools/train/clips.py '$work/audio' --count 40" || exit 1
show "gpu-dispatch transcribe --input-dir '$work/audio' --output-dir '$work/text' --gpus sim:2 --model-size demo --recursive" || exit 1
show "tools/wer.py '$work/audio/transcripts.tsv' '$work/text' --show all --limit 10"
