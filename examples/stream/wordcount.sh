#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A stream worker in plain sh: counts the words of the file that each input names.
#
#     ls *.txt | gpu-dispatch run --stream sh wordcount.sh
#
# There is no JSON parser here. That is fair for lines whose shape is known, {"id":7,"attempt":1,"input":"a.txt"}, and
# inputs that JSON writes as they are. A name with a quote, a backslash, a control character or bytes that are not UTF-8
# comes with backslashes in it; this worker refuses those rather than guess. It takes inputs that are strings, so it is not
# for --jsonl. One process per task is started (wc): for more than some hundred small tasks a second use another language.

echo '{"ready":true}' # there is nothing to load

while IFS= read -r line; do
    id=${line#'{"id":'}
    id=${id%%,*}
    name=${line#*'"input":"'}
    name=${name%'"}'}
    case $name in
    *\\*)
        echo "{\"id\":$id,\"error\":\"a name with characters that this worker can't read\",\"final\":true}"
        continue
        ;;
    esac
    # The file is given as stdin, so that no name is taken for an option. What goes wrong is said on stderr: stdout is
    # the protocol's. The arithmetic takes off the blanks that some wc put before the number.
    if [ -f "$name" ] || [ -c "$name" ] && words=$(wc -w <"$name"); then
        echo "{\"id\":$id,\"output\":$((words))}"
    else
        echo "{\"id\":$id,\"error\":\"$name can't be read\"}"
    fi
done
