#!/usr/bin/env bash
# Measures transcription on a machine with a real NVIDIA GPU and without network. Builds whisper.cpp with CUDA and this
# tree with the worker, makes models of real sizes with random weights, transcribes synthetic recordings, and prints a
# table. That machine needs gcc, g++, CMake, Ninja or make, Meson, nvcc, and Python with NumPy. Everything else is in
# carry/.
#
#   tools/gpu_transcribe.sh pack             on a machine with network: fills carry/ (shared libraries and headers of
#                                            libsndfile and libsoxr, sources of whisper.cpp, speech)
#   tools/gpu_transcribe.sh run [BUILD_DIR [LOG_DIR]]
#
# DRY=1: runs on the CPU, with small models and little audio, to try the script.
# SIZES="base large-v3", WORKERS="1 2 4", ROUNDS=3, MINUTES=20, THREADS=4: what to measure.
# carry/whisper-cuda.tar.xz may contain the directory that `WHISPER_ARCHS=90 tools/whisper.sh cuda` makes. Then
# whisper.cpp is not built.
#
# The models have random weights and write 100 tokens for each 30 s of any audio (tools/train/export.py --says). Speech
# has about as many tokens, so the work is that of a trained model of this size. The text of the demo model shows
# whether the GPU computes the same as the CPU.
set -u
cd "$(dirname "$0")/.." || exit 1
carry=$PWD/carry
dry=${DRY:-}

die() {
    echo "gpu_transcribe: $*" >&2
    exit 1
}

# --- pack ----------------------------------------------------------------------------

pack_library() { # packs a shared library, the libraries it needs besides libc, its header and a relocatable .pc file
    local name=$1 header=$2 module=$3 file needed
    file=$(ldconfig -p | sed -n "s|.*lib$name\.so\.[0-9]* .*=> ||p" | head -n 1)
    [ -n "$file" ] || die "lib$name is not installed"
    for needed in "$file" $(ldd "$file" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | grep -v '/lib\(c\|m\|pthread\|dl\|gomp\|gcc_s\)\.so'); do
        cp -L "$needed" "$carry/lib/"
    done
    cp "/usr/include/$header" "$carry/include/"
    cat >"$carry/lib/pkgconfig/$module.pc" <<PC
prefix=\${pcfiledir}/../..
Name: $module
Description: carried
Version: $(pkg-config --modversion "$module")
Libs: -L\${prefix}/lib -l:$(basename "$file")
Cflags: -I\${prefix}/include
PC
}

pack_tool() { # packs pkg-config, for a machine without it
    local file
    file=$(readlink -f "$(command -v pkg-config)")
    cp "$file" "$carry/bin/pkgconf"
    cp -L "$(ldd "$file" | sed -n 's/.*=> \([^ ]*libpkgconf[^ ]*\).*/\1/p')" "$carry/lib/"
    cat >"$carry/bin/pkg-config" <<'SH'
#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH="$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/pkgconf" "$@"
SH
    chmod +x "$carry/bin/pkg-config"
}

pack_speech() {
    local file
    for file in tests/data/speech/*.flac; do
        flac -s -f -d -o "$carry/speech/$(basename "${file%.flac}").wav" "$file" || die "flac could not read $file"
    done
    sed 's/\.flac/.wav/' tests/data/speech/transcripts.tsv >"$carry/speech/transcripts.tsv"
}

pack() {
    mkdir -p "$carry"/{bin,include,lib/pkgconfig,speech}
    pack_library sndfile sndfile.h sndfile
    pack_library soxr soxr.h soxr
    pack_tool
    pack_speech
    if [ ! -f "$carry/whisper.tar.gz" ]; then
        local directory
        directory=$(mktemp -d)
        tools/whisper.sh --fetch "$directory/whisper.tar.gz" || die "could not get the sources of whisper.cpp"
        mv "$directory/whisper.tar.gz" "$carry/" && rm -r "$directory"
    fi
    du -sh "$carry"
}

# --- run: building -----------------------------------------------------------------------

step() { # runs a step with its own log; if it fails, the script ends
    local name=$1 start=$SECONDS
    shift
    "$@" >"$logs/$name.log" 2>&1 || {
        tail -n 30 "$logs/$name.log"
        die "$name failed after $((SECONDS - start)) s"
    }
    echo "-- $name: $((SECONDS - start)) s"
}

build_whisper() {
    if [ -n "$dry" ]; then
        tools/whisper.sh cpu
    elif [ -f "$carry/whisper-cuda.tar.xz" ]; then
        mkdir -p "$build-whisper" && tar -xJf "$carry/whisper-cuda.tar.xz" -C "$build-whisper" --strip-components=1 >&2 &&
            sed -i "s|^prefix=.*|prefix=$build-whisper|" "$build-whisper/lib/pkgconfig/whisper.pc" && echo "$build-whisper"
    else
        WHISPER_SDIST=$carry/whisper.tar.gz tools/whisper.sh cuda
    fi
}

make_models() { # in parallel with the compilers, which leave a core or two free
    local size
    for size in $sizes; do
        (cd tools/train && python3 export.py --random "$size" --says 100 "$models/ggml-$size.bin") || return 1
    done
}

# Makes recordings of about a minute. Each has the clips in a random order, with pauses.
make_audio() {
    python3 - "$carry/speech" "$logs/audio" "$minutes" <<'PY'
import os, random, sys, wave
source, out, minutes = sys.argv[1], sys.argv[2], float(sys.argv[3])
clips = []
for name in sorted(os.listdir(source)):
    if name.endswith(".wav"):
        with wave.open(os.path.join(source, name)) as f:
            clips.append(f.readframes(f.getnframes()))
os.makedirs(out, exist_ok=True)
rng, made = random.Random(1), 0
while made < minutes * 60:
    parts, seconds, wanted = [], 0, rng.uniform(30, 90)
    while seconds < wanted:
        parts += [rng.choice(clips), bytes(2 * rng.randrange(4000, 20000))]
        seconds += (len(parts[-1]) + len(parts[-2])) / 32000
    with wave.open(os.path.join(out, f"recording_{int(made):05d}.wav"), "wb") as f:
        f.setparams((1, 2, 16000, 0, "NONE", ""))
        f.writeframes(b"".join(parts))
    made += seconds
PY
}

build_tree() {
    meson setup "$build" --buildtype=release -Dtests=false -Dexamples=false -Dpython=disabled -Dffmpeg=disabled \
        -Dtranscribe=enabled -Dpkg_config_path="$prefix/lib/pkgconfig,$carry/lib/pkgconfig" && ninja -C "$build"
}

# --- run: measuring ----------------------------------------------------------------------

# Runs a command, and records the utilization and memory of the GPU five times a second meanwhile.
sampled() {
    local name=$1 sampler=
    shift
    if [ -z "$dry" ]; then
        nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits -lms 200 >"$logs/$name.gpu" 2>&1 &
        sampler=$!
    fi
    local start
    start=$(date +%s.%N)
    ("$@") >"$logs/$name.out" 2>"$logs/$name.err" || echo "gpu_transcribe: $name failed: $(tail -n 5 "$logs/$name.err")" >&2
    echo "$start $(date +%s.%N)" >"$logs/$name.times"
    [ -z "$sampler" ] || { kill "$sampler" && wait "$sampler" 2>/dev/null; }
    return 0
}

# transcribe NAME MODEL WORKERS [OPTION...]
transcribe() {
    exec "$build/gpu-dispatch" transcribe --input-dir "$logs/audio" --output-dir "$logs/$1.text" --gpus "$gpus" --workers "$3" \
        --model "$models/ggml-$2.bin" --language en --threads "$threads" --progress none --output "$logs/$1.jsonl" "${@:4}"
}

# Kills one of two workers in the middle of a file, after the first file is done.
kill_one() {
    local pid results
    exec {results}< <(transcribe "$1" "$2" 2 --retries 2 --output - 2>"$logs/$1.err")
    pid=$!
    read -r _ <&"$results" && kill -KILL "$(pgrep -n -P "$pid")"
    cat <&"$results" >/dev/null
    wait "$pid" || echo "gpu_transcribe: the run with a killed worker ended with $?: $(tail -n 5 "$logs/$1.err")" >&2
    awk -v name="$1" '$1 == "all" { print name ": " $2 " files, " $3 " failed, restarted workers: " $5 }' "$logs/$1.err"
}

# Checks that all runs wrote the same texts.
compare() {
    local name first=$1
    for name in "${@:2}"; do
        if diff -rq "$logs/$first.text" "$logs/$name.text" >"$logs/$name.diff"; then
            echo "$name: $(find "$logs/$name.text" -type f | wc -l) texts, the same as $first"
        else
            echo "$name: $(wc -l <"$logs/$name.diff") texts differ from $first"
        fi
    done
}

alone() { # runs whisper.cpp alone, in one process
    local gpu=-g
    [ -z "$dry" ] || gpu=
    mkdir -p "$logs/$1.text"
    find "$logs/audio" -name '*.wav' | sort >"$logs/$1.files"
    # shellcheck disable=SC2086 # an option or nothing
    sampled "$1" sh -c '"$1" $2 -t "$6" "$3" "$4" <"$5"' - "$build/bench/bench_whisper_loop" "$gpu" "$models/ggml-$2.bin" \
        "$logs/$1.text" "$logs/$1.files" "$threads"
}

# show NAME WHAT PEER: prints a line of the table, from all rounds. The ratio compares the time with that of PEER in the
# same round.
show() {
    python3 - "$logs" "$1" "$2" "$3" "$logs/audio" "$rounds" <<'PY'
import json, os, statistics, sys, wave
logs, name, what, peer, audio, rounds = sys.argv[1:]
total = sum(f.getnframes() / f.getframerate() for f in (wave.open(os.path.join(audio, n)) for n in os.listdir(audio)))
files = len(os.listdir(audio))

def whole(name, n):
    start, end = map(float, open(f"{logs}/{name}.{n}.times").read().split())
    return end - start

def inner(n):  # seconds from the start of the first file, without starting and loading; number of failures
    path = f"{logs}/{name}.{n}.jsonl"
    lines = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    seconds = max(e["started"] + e["seconds"] for e in lines) - min(e["started"] for e in lines) if lines else None
    return seconds, sum(each["status"] != "ok" for each in lines)

def gpu(n):  # mean load from the first to the last time it is above 0; maximum memory
    path = f"{logs}/{name}.{n}.gpu"
    rows = [line.split(",") for line in open(path)] if os.path.exists(path) else []
    rows = [tuple(map(int, row)) for row in rows if len(row) == 2 and all(cell.strip().isdigit() for cell in row)]
    used = [i for i, row in enumerate(rows) if row[0] > 0]
    if not used:
        return None
    return statistics.mean(row[0] for row in rows[used[0]: used[-1] + 1]), max(row[1] for row in rows)

def spread(values, form):
    low, high = form.format(min(values)), form.format(max(values))
    middle = form.format(statistics.median(values))
    return middle if low == high else f"{middle} ({low} to {high})"

every = range(1, int(rounds) + 1)
texts = sum(len(names) for n in every for _, _, names in os.walk(f"{logs}/{name}.{n}.text"))
times = [whole(name, n) for n in every]
inside = [each for each in map(inner, every) if each[0] is not None]
loads = [each for each in map(gpu, every) if each]
cells = [
    what,
    f"{texts} of {files * len(every)}" + (f", {sum(f for _, f in inside)} failed" if any(f for _, f in inside) else ""),
    spread(times, "{:.1f}") + " s",
    f"{statistics.median(times) / total:.4f}",
    f"{total / statistics.median([s for s, _ in inside]):,.0f}" if inside else "-",
    spread([whole(peer, n) / t for n, t in zip(every, times)], "{:.2f}") if peer != name else "",
    spread([load for load, _ in loads], "{:.0f}") + " %" if loads else "-",
    f"{max(memory for _, memory in loads):,} MiB" if loads else "-",
]
print("| " + " | ".join(cells) + " |", flush=True)
PY
}

# Checks that the demo model computes the same on the GPU as on the CPU.
check_text() {
    "$build/gpu-dispatch" transcribe --input-dir "$carry/speech" --output-dir "$logs/demo.text" --gpus "$gpus" --model \
        models/ggml-demo.bin --language en --threads "$threads" --progress none >"$logs/demo.out" 2>&1 || tail -n 20 "$logs/demo.out"
    tools/wer.py "$carry/speech/transcripts.tsv" "$logs/demo.text" --show none --limit 10
}

# Measures in turn, because the speed of a machine changes over time.
measure_size() {
    local size=$1 round workers runs=
    for ((round = 1; round <= rounds; round++)); do
        alone "alone_$size.$round" "$size"
        for workers in $counts; do
            sampled "ours_${size}_$workers.$round" transcribe "ours_${size}_$workers.$round" "$size" "$workers"
        done
    done
    show "alone_$size" "$size, whisper.cpp alone" "alone_$size"
    for workers in $counts; do
        show "ours_${size}_$workers" "$size, $workers worker$([ "$workers" = 1 ] || echo s)" "alone_$size"
        runs="$runs ours_${size}_$workers.1"
    done
    kill_one "killed_$size" "$size" >>"$logs/compared"
    # shellcheck disable=SC2086 # a list
    compare "alone_$size.1" $runs "killed_$size" >>"$logs/compared"
}

run() {
    build=$(realpath -m "${1:-build-gpu}")
    logs=$(realpath -m "${2:-$build-logs}")
    models=$logs/models gpus=${GPUS:-auto} sizes=${SIZES:-"base large-v3"} minutes=${MINUTES:-20} threads=${THREADS:-4}
    rounds=${ROUNDS:-3} counts=${WORKERS:-1 2 4}
    [ -d "$carry/speech" ] || die "$carry is empty: first run tools/gpu_transcribe.sh pack on a machine with network"
    [ -z "$dry" ] || gpus=sim:1 sizes=${SIZES:-tiny} minutes=${MINUTES:-1} threads=1
    mkdir -p "$models" || exit 1
    export PATH=$PATH:/usr/local/cuda/bin LD_LIBRARY_PATH=$carry/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    command -v pkg-config >/dev/null || { chmod +x "$carry"/bin/* && export PKG_CONFIG=$carry/bin/pkg-config; }
    [ -n "$dry" ] || nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    make_models >"$logs/models.log" 2>&1 &
    local modelling=$!
    step audio make_audio
    step whisper sh -c '"$@" >"$0"' "$logs/prefix" "$BASH" "$PWD/tools/gpu_transcribe.sh" build_whisper "$build"
    prefix=$(tail -n 1 "$logs/prefix")
    step build build_tree
    wait "$modelling" || die "could not make the models: $(tail -n 5 "$logs/models.log")"
    check_text
    : >"$logs/compared"
    printf '%s s of audio in %s files, %s threads, %s rounds\n\n' "$(du -sb "$logs/audio" | awk '{ printf "%.0f", $1 / 32000 }')" \
        "$(find "$logs/audio" -name '*.wav' | wc -l)" "$threads" "$rounds"
    printf '| what | files | whole run | RTF | times real time, without starting | compared with whisper.cpp alone | GPU busy | GPU memory, maximum |\n|---|---|---|---|---|---|---|---|\n'
    local size
    for size in $sizes; do
        measure_size "$size"
    done
    printf '\n%s\n' "$(cat "$logs/compared")"
}

case ${1:-} in
pack) pack ;;
run) run "${@:2}" ;;
build_whisper) build=$2 && build_whisper ;;
*) die "usage: gpu_transcribe.sh pack | run [BUILD_DIR [LOG_DIR]]" ;;
esac
