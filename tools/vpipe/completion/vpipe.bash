# Completion of vpipe for bash, printed by 'vpipe completion bash'.

# Rows of commands, options and keys; columns are separated by tabs. Columns
# that are used here: command NAME KIND; option COMMAND NAME VALUE KIND;
# key NAME GROUP TYPE DEFAULT KIND.
_vpipe_rows='
@DATA@
'

# _vpipe_list TYPE [COMMAND]: names of all rows of this type.
_vpipe_list()
{
    local type first second
    while IFS=$'\t' read -r type first second _; do
        [[ $type == "$1" ]] || continue
        if [[ $type == option ]]; then
            [[ $first == "$2" ]] && printf '%s\n' "$second"
        else
            printf '%s\n' "$first"
        fi
    done <<<"$_vpipe_rows"
}

# _vpipe_kind TYPE NAME [COMMAND]: sets `kind`; empty if there is no such row.
_vpipe_kind()
{
    local -a row
    kind=
    while IFS=$'\t' read -r -a row; do
        case $1:${row[0]} in
        command:command) [[ ${row[1]} == "$2" ]] && kind=${row[2]} ;;
        key:key) [[ ${row[1]} == "$2" ]] && kind=${row[5]} ;;
        option:option)
            [[ ${row[1]} == "$3" && ${row[2]} == "$2" ]] && kind=${row[4]}
            ;;
        esac
    done <<<"$_vpipe_rows"
}

# _vpipe_offer KIND WORD: adds values of this kind that begin with WORD.
_vpipe_offer()
{
    local kind=$1 word=$2 key
    case $kind in
    word\ *) COMPREPLY+=($(compgen -W "${kind#word }" -- "$word")) ;;
    config)
        compopt -o filenames
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -X '!*.@(yml|yaml|json)' -- "$word")
            $(compgen -d -- "$word"))
        ;;
    file)
        compopt -o filenames
        local IFS=$'\n'
        COMPREPLY+=($(compgen -f -- "$word"))
        ;;
    folder)
        compopt -o filenames
        local IFS=$'\n'
        COMPREPLY+=($(compgen -d -- "$word"))
        ;;
    key\ *)
        _vpipe_kind key "${kind#key }"
        _vpipe_offer "$kind" "$word"
        _vpipe_offer file "$word"
        ;;
    key)
        if [[ $word == *=* ]]; then
            key=${word%%=*}
            _vpipe_kind key "$key"
            _vpipe_offer "$kind" "${word#*=}"
        else
            compopt -o nospace
            COMPREPLY+=($(compgen -S = -W "$(_vpipe_list key)" -- "$word"))
        fi
        ;;
    esac
}

_vpipe()
{
    local line=${COMP_LINE:0:COMP_POINT} word command= kind previous i
    local -a words
    shopt -q extglob || { local off=1; shopt -s extglob; }

    # Readline splits words at '=', this does not.
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    word=${words[${#words[@]} - 1]}
    previous=${words[${#words[@]} - 2]}
    COMPREPLY=()
    if ((${#words[@]} > 2)); then
        command=${words[1]}
        [[ $command == data && ${#words[@]} -gt 3 ]] && command="data ${words[2]}"
    fi
    if [[ -z $command || $command == help ]]; then
        COMPREPLY=($(compgen -W "$(_vpipe_list command | grep -v ' ') \
help --help --version" -- "$word"))
    elif [[ $command == data ]]; then
        COMPREPLY=($(compgen -W "$(_vpipe_list command | sed -n 's/^data //p') \
--help" -- "$word"))
    else
        _vpipe_kind option "$previous" "$command"
        if [[ -n $kind && $kind != - ]]; then
            _vpipe_offer "$kind" "$word"
        elif [[ $word == --*=* ]]; then
            _vpipe_kind option "${word%%=*}" "$command"
            _vpipe_offer "$kind" "${word#*=}"
        elif [[ $word == -* ]]; then
            COMPREPLY=($(compgen -W "$(_vpipe_list option "$command")" -- "$word"))
        else
            _vpipe_kind command "$command"
            _vpipe_offer "$kind" "$word"
        fi
    fi
    # If '=' does not split words, an answer must be the whole word.
    if [[ $COMP_WORDBREAKS != *=* && $word == *=* ]]; then
        for i in "${!COMPREPLY[@]}"; do
            COMPREPLY[i]=${word%"${word##*=}"}${COMPREPLY[i]}
        done
    fi
    [[ -z $off ]] || shopt -u extglob
}

complete -F _vpipe vpipe
