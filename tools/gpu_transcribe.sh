#!/usr/bin/env bash
# Measures transcription on a machine with a real NVIDIA GPU and without network, in one call of less than ten minutes.
# Builds whisper.cpp with CUDA and this tree with the worker, makes models of real sizes with random weights and five hours
# of sound, and transcribes it with this tree, with whisper.cpp alone (less of the sound) and with batched PyTorch
# (bench/torch_whisper.py). Prints two tables: what was measured, and the targets. That machine needs gcc, g++, CMake, Ninja,
# nvcc, and Python with NumPy and PyTorch. Everything else is in carry/.
#
#   tools/gpu_transcribe.sh pack             on a machine with network: fills carry/ (shared libraries and headers of
#                                            libsndfile and libsoxr, sources of whisper.cpp, Meson, speech)
#   tools/gpu_transcribe.sh run [BUILD_DIR [LOG_DIR]]
#
# DRY=1: runs on the CPU, with the demo model and little sound, to try the script.
# SIZES="base large-v3", MINUTES=300, FILES=128: what to measure.
# ALONE="30 10": minutes of sound for whisper.cpp alone, for each of SIZES; it is much slower. It runs without CUDA graphs,
#   as its own build does by default. ALONE_GRAPHS=1: with them.
# VARIANTS="64 128 64f": what to run of this tree. 64 is the number of slots. With f, cuBLAS adds in 32 bits
#   (GGML_CUDA_FORCE_CUBLAS_COMPUTE_32F=1). The first one is compared with the targets.
# THREADS=N: option --threads (default: the one of the command). BATCH=64: windows in a batch of PyTorch.
# LIMIT=570: seconds for everything. A part that does not fit any more is left out or ended.
# carry/whisper-cuda.tar.xz may contain the directory that `WHISPER_ARCHS=90 tools/whisper.sh cuda` makes. Then
# whisper.cpp is not built.
# If OUT is set, the tables and the logs are also written to this directory.
#
# If one part fails, the others still run. The models have random weights and write 100 tokens for each 28 s of any audio
# (tools/train/export.py --says). Speech has about as many tokens, so the work is that of a trained model of this size. The
# text of the demo model shows whether the GPU computes the same as the CPU.
set -u
cd "$(dirname "$0")/.." || exit 1
carry=$PWD/carry
dry=${DRY:-}
limit=${LIMIT:-570}

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

pack_speech() { # as WAV files
    python3 - "$PWD/tests" "$carry/speech" <<'PY' || die "could not read tests/data/speech"
import pathlib, sys
sys.dont_write_bytecode = True
tests, out = map(pathlib.Path, sys.argv[1:])
sys.path.append(str(tests / "transcribe" / "accuracy"))
import clips
for path in sorted((tests / "data" / "speech").glob("*.flac")):
    clips.write(out / f"{path.stem}.wav", clips.read(path))
PY
    sed 's/\.flac/.wav/' tests/data/speech/transcripts.tsv >"$carry/speech/transcripts.tsv"
}

pack() {
    mkdir -p "$carry"/{bin,include,lib/pkgconfig,speech}
    python3 -m pip install -q --disable-pip-version-check --upgrade --target "$carry/python" meson || die "could not get Meson"
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

left() { echo $((limit - SECONDS)); }

step() { # step NAME COMMAND...: runs a step with its own log
    local name=$1 start=$SECONDS
    shift
    if "$@" >"$logs/$name.log" 2>&1; then
        echo "-- $name: $((SECONDS - start)) s"
    else
        tail -n 30 "$logs/$name.log"
        echo "gpu_transcribe: $name failed after $((SECONDS - start)) s" >&2
        return 1
    fi
}

find_whisper() { # builds whisper.cpp, and writes where it is to $logs/prefix
    if [ -n "$dry" ]; then
        tools/whisper.sh cpu
    elif [ -f "$carry/whisper-cuda.tar.xz" ]; then
        mkdir -p "$build-whisper" && tar -xJf "$carry/whisper-cuda.tar.xz" -C "$build-whisper" --strip-components=1 >&2 &&
            sed -i "s|^prefix=.*|prefix=$build-whisper|" "$build-whisper/lib/pkgconfig/whisper.pc" && echo "$build-whisper"
    else
        WHISPER_SDIST=$carry/whisper.tar.gz tools/whisper.sh cuda
    fi >"$logs/prefix"
}

make_models() { # in parallel with the compilers
    local size
    for size in $sizes; do
        if [ "$size" = demo ]; then
            cp models/ggml-demo.bin "$models/"
        else
            (cd tools/train && python3 export.py --random "$size" --says 100 "$models/ggml-$size.bin")
        fi
    done
}

# Makes recordings of different lengths. Each has the clips in a random order, with pauses.
make_audio() {
    python3 - "$carry/speech" "$logs/audio" "$minutes" "$files" <<'PY'
import os, random, sys, wave
source, out, minutes, files = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
clips = []
for name in sorted(os.listdir(source)):
    if name.endswith(".wav"):
        with wave.open(os.path.join(source, name)) as f:
            clips.append(f.readframes(f.getnframes()))
os.makedirs(out, exist_ok=True)
rng = random.Random(1)
shares = [rng.uniform(0.4, 1.6) for _ in range(files)]
for i, share in enumerate(shares):
    wanted = int(share / sum(shares) * minutes * 60 * 16000) * 2
    parts, size = [], 0
    while size < wanted:
        parts += [rng.choice(clips), bytes(2 * rng.randrange(4000, 20000))]
        size += len(parts[-1]) + len(parts[-2])
    with wave.open(os.path.join(out, f"recording_{i:03d}.wav"), "wb") as f:
        f.setparams((1, 2, 16000, 0, "NONE", ""))
        f.writeframes(b"".join(parts)[:wanted])
PY
}

build_tree() {
    local prefix
    prefix=$(tail -n 1 "$logs/prefix")
    $meson setup "$build" --buildtype=release -Dtests=false -Dexamples=false -Dpython=disabled -Dffmpeg=disabled \
        -Dtranscribe=enabled -Dpkg_config_path="$prefix/lib/pkgconfig,$carry/lib/pkgconfig" && ninja -C "$build"
}

# --- run: measuring ----------------------------------------------------------------------

# part NAME SECONDS COMMAND...: runs a command, and records the load of the GPU meanwhile. Leaves it out if there are not at
# least SECONDS left, and ends it when there are none.
part() {
    local name=$1 needed=$2 sampler=
    shift 2
    if [ "$(left)" -lt "$needed" ]; then
        echo "gpu_transcribe: $name is left out: only $(left) s of $limit s are left" >&2
        return 1
    fi
    if [ -z "$dry" ]; then
        nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used --format=csv,noheader,nounits -lms 100 >"$logs/$name.gpu" 2>&1 &
        sampler=$!
    fi
    local start status=0
    start=$(date +%s.%N)
    timeout -k 5 "$(left)" "$@" >"$logs/$name.out" 2>"$logs/$name.err" || status=$?
    echo "$start $(date +%s.%N) $status" >"$logs/$name.times"
    [ -z "$sampler" ] || { kill "$sampler" && wait "$sampler" 2>/dev/null; }
    [ "$status" = 0 ] || echo "gpu_transcribe: $name ended with $status: $(tail -n 5 "$logs/$name.err")" >&2
    summarise >"$logs/tables" 2>"$logs/tables.err" # a call that is ended early still has what it measured
    save
}

save() {
    [ -n "${OUT:-}" ] || return 0
    cp "$logs/tables" "$OUT/tables.md"
    tar -C "$logs" -czf "$OUT/logs.tar.gz" --exclude='*.text' --exclude=models --exclude=audio . 2>/dev/null
}

# ours SIZE VARIANT
ours() {
    local name=ours_$1_$2 options=(--batch-size "${2%f}") settings=()
    [ -z "${THREADS:-}" ] || options+=(--threads "$THREADS")
    [ "$2" = "${2%f}" ] || settings=(GGML_CUDA_FORCE_CUBLAS_COMPUTE_32F=1)
    part "$name" 20 env "${settings[@]}" "$build/gpu-dispatch" transcribe --input-dir "$logs/audio" --output-dir "$logs/$name.text" \
        --gpus "$gpus" --model "$models/ggml-$1.bin" --language en --decoder lanes --progress none --output "$logs/$name.jsonl" \
        "${options[@]}"
}

# alone SIZE MINUTES: whisper.cpp in one process, with the first recordings
alone() {
    local name=alone_$1 gpu=-g settings=(GGML_CUDA_DISABLE_GRAPHS=1)
    [ -z "$dry" ] || gpu=
    [ -z "${ALONE_GRAPHS:-}" ] || settings=()
    mkdir -p "$logs/$name.text"
    find "$logs/audio" -name '*.wav' -printf '%p %s\n' | sort |
        awk -v most="$2" '{ bytes += $2 } NR == 1 || bytes <= most * 60 * 32000 { print $1 }' >"$logs/$name.files"
    # shellcheck disable=SC2016,SC2086 # expanded by the inner shell; an option or nothing
    part "$name" 20 env "${settings[@]}" sh -c '"$1" $2 -t "$6" "$3" "$4" <"$5"' - "$build/bench/bench_whisper_loop" "$gpu" "$models/ggml-$1.bin" \
        "$logs/$name.text" "$logs/$name.files" "${THREADS:-4}"
}

peer() { # peer SIZE: batched PyTorch
    local name=torch_$1 size=$1
    [ -z "$dry" ] || size="test"
    find "$logs/audio" -name '*.wav' | sort >"$logs/$name.files"
    # shellcheck disable=SC2016 # expanded by the inner shell
    part "$name" 30 sh -c 'python3 "$1" --size "$2" --batch "$3" "$4" <"$5"' - "$PWD/bench/torch_whisper.py" "$size" "$batch" \
        "$logs/$name.text" "$logs/$name.files"
}

# Checks that the demo model computes the same on the GPU as on the CPU.
check_text() {
    timeout 120 "$build/gpu-dispatch" transcribe --input-dir "$carry/speech" --output-dir "$logs/demo.text" --gpus "$gpus" --model \
        models/ggml-demo.bin --language en --progress none >"$logs/demo.out" 2>&1 || tail -n 20 "$logs/demo.out"
    tools/wer.py "$carry/speech/transcripts.tsv" "$logs/demo.text" --show none --limit 10
}

summarise() { python3 tools/gpu_transcribe_tables.py "$logs" "$sizes" "$variants"; }

# The parts that are compared with targets come first, then the other variants.
measure() {
    local size variant first=${variants%% *} minutes_alone=$alone_minutes
    for size in $sizes; do
        ours "$size" "$first"
        alone "$size" "${minutes_alone%% *}"
        minutes_alone=${minutes_alone#* }
        peer "$size"
    done
    for size in $sizes; do
        for variant in ${variants#"$first"}; do
            ours "$size" "$variant"
        done
    done
}

run() {
    build=$(realpath -m "${1:-build-gpu}")
    logs=$(realpath -m "${2:-$build-logs}")
    models=$logs/models gpus=${GPUS:-auto} sizes=${SIZES:-"base large-v3"} minutes=${MINUTES:-300} files=${FILES:-128}
    alone_minutes=${ALONE:-30 10} variants=${VARIANTS:-64 128 64f} batch=${BATCH:-64}
    [ -d "$carry/speech" ] || die "$carry is empty: first run tools/gpu_transcribe.sh pack on a machine with network"
    [ -z "$dry" ] || gpus=cpu:1 sizes=${SIZES:-demo} minutes=${MINUTES:-1} files=${FILES:-3} alone_minutes=${ALONE:-0.4} \
        variants=${VARIANTS:-2 4} batch=${BATCH:-2}
    mkdir -p "$models" || exit 1
    rm -rf "$logs"/*.times "$logs"/*.text "$logs/audio" # of a former run
    export PATH=$PATH:/usr/local/cuda/bin LD_LIBRARY_PATH=$carry/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    command -v pkg-config >/dev/null || { chmod +x "$carry"/bin/* && export PKG_CONFIG=$carry/bin/pkg-config; }
    meson=meson
    command -v meson >/dev/null || { export PYTHONPATH=$carry/python && meson="python3 -m mesonbuild.mesonmain"; }
    [ -n "$dry" ] || nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    make_models >"$logs/models.log" 2>&1 &
    local modelling=$!
    step audio make_audio
    step whisper find_whisper && step build build_tree
    wait "$modelling" || echo "gpu_transcribe: could not make all models: $(tail -n 5 "$logs/models.log")" >&2
    check_text
    measure
    summarise | tee "$logs/tables"
    save
    echo "-- everything: $SECONDS s"
}

case ${1:-} in
pack) pack ;;
run) run "${@:2}" ;;
*) die "usage: gpu_transcribe.sh pack | run [BUILD_DIR [LOG_DIR]]" ;;
esac
