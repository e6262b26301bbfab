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
    --timeout | --term-grace | --stop-grace | --delay | --setup-timeout | --lock-wait | --lease | --wait | --lost-timeout) _gpu_dispatch_words '1s 10s 30s 1m 5m 1h' ;;
    --input-dir | --watch | --results | --output-dir | --model-dir | --spill-dir | --assets) _gpu_dispatch_files -d ;;
    --key) _gpu_dispatch_words 'input file path .' ;;
    --sync) _gpu_dispatch_words 'normal full' ;;
    --shard) _gpu_dispatch_words 'auto auto/' ;;
    --queue) _gpu_dispatch_words 'nats://localhost/' ;;
    --bundle) _gpu_dispatch_words 'auto 10 100' ;;
    --priority) _gpu_dispatch_words '-4 -3 -2 -1 0 1 2 3' ;;
    --replicas) _gpu_dispatch_words '1 3 5' ;;
    --idle-exit) _gpu_dispatch_words 'never 30s 5m' ;;
    --model-size) _gpu_dispatch_words 'tiny base small medium large-v3 large-v3-turbo tiny.en base.en small.en medium.en demo' ;;
    --diarize) _gpu_dispatch_words 'channels' ;;
    --format | -f) _gpu_dispatch_words 'txt srt vtt json tsv lrc csv all txt,srt' ;;
    --language) _gpu_dispatch_words 'auto en de fr es it nl pl pt ru uk zh ja ko' ;;
    --worker | --model | --vad | --joblog | --output | -o | -a | --arg-file | --journal | --failed | --skip-done | --http-token-file | --spool | --creds | --nkey | --tlsca | --tlscert | --tlskey) _gpu_dispatch_files -f ;;
    --base) _gpu_dispatch_words 'https://' ;;
    --http) _gpu_dispatch_words '8080 127.0.0.1:8080 0.0.0.0:8080' ;;
    --stream) mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur") ;;
    --task) _gpu_dispatch_words 'transcribe translate' ;;
    --device) _gpu_dispatch_words 'cuda cpu' ;;
    --decoder) _gpu_dispatch_words 'auto lanes whisper.cpp' ;;
    --split) _gpu_dispatch_words 'auto never' ;;
    --condition-on-previous-text | --suppress-blank) _gpu_dispatch_words 'yes no' ;;
    --best-of | --length-penalty | --temperature-increment-on-fallback | --entropy-threshold | --compression-ratio-threshold | \
        --logprob-threshold | --no-speech-threshold | --initial-prompt | --hotwords | --suppress-tokens | --max-initial-timestamp | \
        --clip-timestamps | --vad-threshold | --vad-min-speech-duration-ms | --vad-min-silence-duration-ms | \
        --vad-max-speech-duration-s | --vad-speech-pad-ms) COMPREPLY=() ;;
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
            --batch-size --io-threads --any-cpu --ignore-gpu-locks --seed -a --arg-file -0 --null --jsonl --input-dir --watch
            --pattern --recursive --order --shuf -r --no-run-if-empty --queue-size -q --quote --timeout --term-grace
            --stop-grace --retries --crash-limit --max-tasks-per-worker --delay --halt --dry-run -k --keep-order --tag -u --ungroup --joblog --results
            --output --bar --eta --progress --quiet -v --verbose --journal --resume --retry-failed --force-resume --key
            --sync --failed --shard --skip-done --lock-wait --queue --idle-exit --spool --lost-timeout --force --spill-dir
            --creds --nkey --tlsca --tlscert --tlskey --http --http-token-file -h --help'
    fi
}

# Options and files may come in any order.
_gpu_dispatch_transcribe() {
    if [[ $cur != -* ]]; then
        _gpu_dispatch_files -f
        return
    fi
    _gpu_dispatch_words '--input-dir --watch -a --arg-file -0 --null -o --output-dir --pattern -r --recursive -f --format --max-line-width
        --max-line-count --max-words-per-line --highlight-words --full-names --accept-truncated --dry-run --check
        --model-size --model --model-dir --language --translate --task --diarize --word-timestamps --clip-timestamps
        --decoder --batch-size --split
        --beam-size --best-of --length-penalty --temperature --temperature-increment-on-fallback --entropy-threshold
        --compression-ratio-threshold --logprob-threshold --no-speech-threshold --initial-prompt --carry-initial-prompt
        --hotwords --condition-on-previous-text --suppress-tokens --suppress-blank --without-timestamps
        --max-initial-timestamp --vad --vad-threshold --vad-min-speech-duration-ms --vad-min-silence-duration-ms
        --vad-max-speech-duration-s --vad-speech-pad-ms --gpus -j --ignore-gpu-locks --workers --threads --no-gpu --device
        --timeout --stop-grace --retries --resume --journal
        --retry-failed --force-resume --sync --failed --shard --skip-done --lock-wait --queue --input-base
        --idle-exit --spool --lost-timeout --force --spill-dir --creds --nkey --tlsca --tlscert --tlskey --output --http --http-token-file
        --progress --quiet -v --verbose -h --help'
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

_gpu_dispatch_models() {
    if [[ $cur == -* ]]; then
        _gpu_dispatch_words '--model-dir --json --check --base --assets -h --help'
    elif [[ ${words[2]} == download && at -gt 2 ]]; then
        _gpu_dispatch_words 'tiny tiny.en base base.en small small.en medium medium.en large-v1 large-v2 large-v3 large-v3-turbo
            large-v3-q5_0 large-v3-turbo-q5_0 large-v3-turbo-q8_0 distil-small.en distil-medium.en distil-large-v2
            distil-large-v3 distil-large-v3.5'
    elif [[ ${words[2]} == convert && at -gt 2 ]]; then
        _gpu_dispatch_files -f
    else
        _gpu_dispatch_words 'list download convert'
    fi
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
        _gpu_dispatch_words 'run transcribe models gpus estimate top status export report merge push help --version --help'
        return
    fi
    if ((at > 2)) && [[ $previous == -* ]]; then
        local command_at=0
        [[ ${words[1]} == @(transcribe|models) ]] || _gpu_dispatch_find_command # its arguments and options may be mixed
        COMPREPLY=()
        # This is an option of gpu-dispatch, not of the command that it runs.
        ((command_at == 0)) && _gpu_dispatch_value "$previous" && return
    fi
    case ${words[1]} in
    run) _gpu_dispatch_run ;;
    models) _gpu_dispatch_models ;;
    gpus) _gpu_dispatch_words '--gpus --json -h --help' ;;
    estimate) _gpu_dispatch_words '--input-dir --pattern --recursive --gpus --json -h --help' ;;
    top) _gpu_dispatch_words '--once --list --json --page --queue --creds --nkey --tlsca --tlscert --tlskey -h --help' ;;
    status) [[ $cur == -* ]] && _gpu_dispatch_words '--json --overlaps --queue --creds --nkey --tlsca --tlscert --tlskey -h --help' || _gpu_dispatch_files -f ;;
    merge) [[ $cur == -* ]] && _gpu_dispatch_words '-o --output --force -h --help' || _gpu_dispatch_files -f ;;
    push) _gpu_dispatch_words '--queue --spill-dir --lease --replicas --creds --nkey --tlsca --tlscert --tlskey -a --arg-file -0 --null --jsonl
        --input-dir --pattern --recursive --order --shuf --seed -r --no-run-if-empty --bundle --priority --key --retry-failed
        --wait --quiet -h --help' ;;
    export)
        if [[ $cur == -* ]]; then _gpu_dispatch_words '--csv --jsonl --failed -o --output --queue --spill-dir --creds --nkey --tlsca --tlscert --tlskey -h --help'; else _gpu_dispatch_files -f; fi ;;
    report)
        if [[ $cur == -* ]]; then _gpu_dispatch_words '-o --output --queue --creds --nkey --tlsca --tlscert --tlskey -h --help'; else _gpu_dispatch_files -f; fi ;;
    transcribe) _gpu_dispatch_transcribe ;;
    help) _gpu_dispatch_words 'run transcribe models gpus estimate top status export report merge push placeholders input output journal shards stream environment exit' ;;
    esac
}

complete -F _gpu_dispatch gpu-dispatch
complete -F _launcher_multigpu launcher_multigpu
