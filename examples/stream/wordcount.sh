#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A stream worker in plain sh. Each input is the name of a file, and the output is the number of words in it.
#
#     ls *.txt | gpu-dispatch run --stream sh wordcount.sh
#
# It has no JSON parser. It relies on the known form of the lines, {"id":7,"attempt":1,"input":"a.txt"}. A name with a
# quote, a backslash, a control character or bytes that are not UTF-8 contains backslashes in JSON; this worker refuses
# such names. It accepts only strings as inputs, so it does not work with --jsonl. It starts one process (wc) for each
# task. For more than a few hundred small tasks a second, use another language.

echo '{"ready":true}' # there is nothing to load

while IFS= read -r line; do
    id=${line#'{"id":'}
    id=${id%%,*}
    name=${line#*'"input":"'}
    name=${name%'"}'}
    case $name in
    *\\*)
        echo "{\"id\":$id,\"error\":\"the name has characters that this worker cannot read\",\"final\":true}"
        continue
        ;;
    esac
    # wc reads the file from stdin, so that no name is taken for an option. It writes errors to stderr, because stdout
    # is only for the protocol. The arithmetic removes the blanks that some versions of wc print before the number.
    if [ -f "$name" ] || [ -c "$name" ] && words=$(wc -w <"$name"); then
        echo "{\"id\":$id,\"output\":$((words))}"
    else
        echo "{\"id\":$id,\"error\":\"cannot read $name\"}"
    fi
done
