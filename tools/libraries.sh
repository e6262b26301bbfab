#!/bin/sh
# Lists the shared libraries of whisper.cpp in a directory, including those that it opens at run time, and those of CUDA
# if they exist. Each line is `PATH NAME`: the file, and the name by which programs load it. An installation has copies
# of them.
# usage: libraries.sh DIR
set -eu
for path in "${1:?usage: libraries.sh DIR}"/lib*.so*; do
    case ${path##*/} in
    libwhisper.so* | libggml*.so* | libcudart.so* | libcublas.so* | libcublasLt.so*) ;;
    *) continue ;;
    esac
    [ -f "$path" ] || continue
    name=$(readelf -d "$path" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    echo "$(readlink -f "$path") ${name:-${path##*/}}"
done | sort -u
