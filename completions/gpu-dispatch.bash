# bash completion for gpu-dispatch                                                       -*- shell-script -*-

_gpu_dispatch_words() { # LIST: offers the words that begin with the word being typed
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_gpu_dispatch_files() { # -f or -d: offers files or directories
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}

# Offers values of an option. Returns 1 if the option takes none.
_gpu_dispatch_value() {
    case $1 in
    --gpus) _gpu_dispatch_words 'auto all free free:1 free:2 0 0,1 0-3 0+1 sim:2 sim:4 cpu cpu:2' ;;
    --visible-devices) _gpu_dispatch_words 'uuid index' ;;
    --gpus-per-worker) _gpu_dispatch_words '1 2 4 8' ;;
    -j | --workers-per-gpu | --workers) _gpu_dispatch_words '1 2 4 8 auto:' ;;
    --order) _gpu_dispatch_words 'size name none' ;;
    --progress) _gpu_dispatch_words 'auto panel bar eta line json none' ;;
    --halt) _gpu_dispatch_words 'never soon,fail=1 now,fail=1 soon,fail=10% now,success=1 soon,done=100' ;;
    --timeout | --term-grace | --stop-grace | --delay | --setup-timeout | --lock-wait) _gpu_dispatch_words '1s 10s 30s 1m 5m 1h' ;;
    --input-dir | --results | --output-dir | --model-dir) _gpu_dispatch_files -d ;;
    --key) _gpu_dispatch_words 'input file path .' ;;
    --sync) _gpu_dispatch_words 'normal full' ;;
    --shard) _gpu_dispatch_words 'auto auto/' ;;
    --model-size) _gpu_dispatch_words 'tiny base small medium large-v3 large-v3-turbo tiny.en base.en small.en medium.en demo' ;;
    --format) _gpu_dispatch_words 'txt srt vtt json tsv all txt,srt' ;;
    --language) _gpu_dispatch_words 'auto en de fr es it nl pl pt ru uk zh ja ko' ;;
    --worker | --model | --vad | --joblog | --output | -o | -a | --arg-file | --journal | --failed | --skip-done | --http-token-file) _gpu_dispatch_files -f ;;
    --http) _gpu_dispatch_words '8080 127.0.0.1:8080 0.0.0.0:8080' ;;
    --stream) mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur") ;;
    --threads | --beam-size | --temperature | --prompt | --setup-args | --setup-jobs | --batch-size | --io-threads | --seed | --pattern | --queue-size | --retries | --crash-limit)
        COMPREPLY=() ;;
    *) return 1 ;;
    esac
}

# Bash also splits the line at ':' and '=', so "sim:2" is three words. This joins them again: it sets `words` to the
# words that the command will get, and `at` to the index of the word being typed.
_gpu_dispatch_rejoin() {
    local i piece rest=$COMP_LINE line
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        piece=${COMP_WORDS[i]}
        line=${rest#"${rest%%[![:space:]]*}"}
        if ((i == 0)) || [[ $line != "$rest" ]]; then words+=("$piece"); else words[-1]+=$piece; fi
        rest=${line#"$piece"}
    done
    at=$((${#words[@]} - 1))
}

# Sets command_at to the index of the first word that is not an option, or to 0 if there is none before the word being
# typed. A program after --stream or --worker counts as such a word. A plugin does not, since it takes no arguments, and
# neither does a string with spaces, since it contains its arguments.
_gpu_dispatch_find_command() {
    local i word
    command_at=0
    for ((i = 2; i < at; i++)); do
        word=${words[i]}
        case $word in
        --) command_at=$((i + 1)); return ;;
        --stream | --worker)
            ((++i < at)) || return
            [[ ${words[i]} == *[[:space:]]* || ${words[i]} == *.so ]] || { command_at=$i; return; } ;;
        --*=*) ;;
        -*) COMPREPLY=(); cur='' _gpu_dispatch_value "$word" && ((i++)) ;;
        *) command_at=$i; return ;;
        esac
    done
}

_gpu_dispatch_run() {
    local command_at
    _gpu_dispatch_find_command
    COMPREPLY=()
    if ((command_at > 0 && command_at < at)); then
        _gpu_dispatch_files -f
    elif ((command_at == at)) || [[ $cur != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
    else
        _gpu_dispatch_words '--gpus -j --workers-per-gpu --gpus-per-worker --visible-devices --worker --stream --setup-args
            --setup-jobs --setup-timeout
            --batch-size --io-threads --any-cpu --ignore-gpu-locks --seed -a --arg-file -0 --null --jsonl --input-dir
            --pattern --recursive --order --shuf -r --no-run-if-empty --queue-size -q --quote --timeout --term-grace
            --stop-grace --retries --crash-limit --max-tasks-per-worker --delay --halt --dry-run -k --keep-order --tag -u --ungroup --joblog --results
            --output --bar --eta --progress --quiet -v --verbose --journal --resume --retry-failed --force-resume --key
            --sync --failed --shard --skip-done --lock-wait --http --http-token-file -h --help'
    fi
}

# Options and files may come in any order.
_gpu_dispatch_transcribe() {
    if [[ $cur != -* ]]; then
        _gpu_dispatch_files -f
        return
    fi
    _gpu_dispatch_words '--input-dir --output-dir --pattern -r --recursive --format --full-names --dry-run --check
        --model-size --model --model-dir --language --translate --prompt --beam-size --temperature --word-timestamps
        --vad --gpus -j --ignore-gpu-locks --workers --threads --no-gpu --timeout --stop-grace --retries --resume --journal
        --retry-failed --force-resume --sync --failed --shard --skip-done --lock-wait --output --http --http-token-file --progress --quiet -v --verbose
        -h --help'
}

_launcher_multigpu() {
    local words at
    _gpu_dispatch_rejoin
    local cur=${words[at]} previous=${words[at - 1]}
    COMPREPLY=()
    [[ $previous == -* ]] && _gpu_dispatch_value "$previous" || _gpu_dispatch_transcribe
    local before=${cur%"${cur##*[:=]}"}
    [[ $before ]] && COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

_gpu_dispatch() {
    local words at
    _gpu_dispatch_rejoin
    local cur=${words[at]} previous=${words[at - 1]}
    COMPREPLY=()
    _gpu_dispatch_offer
    # Bash replaces only what comes after the last ':' or '='.
    local before=${cur%"${cur##*[:=]}"}
    [[ $before ]] && COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

_gpu_dispatch_offer() {
    if ((at == 1)); then
        _gpu_dispatch_words 'run transcribe gpus estimate top status export report merge help --version --help'
        return
    fi
    if ((at > 2)) && [[ $previous == -* ]]; then
        local command_at=0
        [[ ${words[1]} == transcribe ]] || _gpu_dispatch_find_command # its arguments and options may be mixed
        COMPREPLY=()
        # This is an option of gpu-dispatch, not of the command that it runs.
        ((command_at == 0)) && _gpu_dispatch_value "$previous" && return
    fi
    case ${words[1]} in
    run) _gpu_dispatch_run ;;
    gpus) _gpu_dispatch_words '--gpus --json -h --help' ;;
    estimate) _gpu_dispatch_words '--input-dir --pattern --recursive --gpus --json -h --help' ;;
    top) _gpu_dispatch_words '--once --list --json --page -h --help' ;;
    status) [[ $cur == -* ]] && _gpu_dispatch_words '--json --overlaps -h --help' || _gpu_dispatch_files -f ;;
    merge) [[ $cur == -* ]] && _gpu_dispatch_words '-o --output --force -h --help' || _gpu_dispatch_files -f ;;
    export)
        if [[ $cur == -* ]]; then _gpu_dispatch_words '--csv --jsonl --failed -o --output -h --help'; else _gpu_dispatch_files -f; fi ;;
    report)
        if [[ $cur == -* ]]; then _gpu_dispatch_words '-o --output -h --help'; else _gpu_dispatch_files -f; fi ;;
    transcribe) _gpu_dispatch_transcribe ;;
    help) _gpu_dispatch_words 'run transcribe gpus estimate top status export report merge placeholders input output journal shards stream environment exit' ;;
    esac
}

complete -F _gpu_dispatch gpu-dispatch
complete -F _launcher_multigpu launcher_multigpu
