#compdef vpipe
# Completion of vpipe for zsh, printed by 'vpipe completion zsh'.

# Rows of commands, options and keys; columns are separated by tabs: command
# NAME KIND MEANING; option COMMAND NAME VALUE KIND MEANING; key NAME GROUP TYPE
# DEFAULT KIND MEANING.
_vpipe_rows='
@DATA@
'

# _vpipe_select TYPE [PREFIX]: sets `list` to NAME:MEANING of these rows.
_vpipe_select()
{
    local row
    local -a column

    list=()
    for row in ${(f)_vpipe_rows}; do
        column=("${(@s:	:)row}")
        [[ $column[1] == $1 ]] || continue
        case $1 in
        command)
            [[ $2 == data ]] && [[ $column[2] == data\ * ]] &&
                list+=("${column[2]#data }:${column[4]}")
            [[ $2 != data ]] && [[ $column[2] != *\ * ]] &&
                list+=("$column[2]:$column[4]")
            ;;
        option)
            [[ $column[2] == $2 ]] &&
                list+=("${column[3]//:/\\:}:$column[6]")
            ;;
        esac
    done
}

# _vpipe_kind TYPE NAME [COMMAND]: sets `kind`; empty if there is no such row.
_vpipe_kind()
{
    local row
    local -a column

    kind=
    for row in ${(f)_vpipe_rows}; do
        column=("${(@s:	:)row}")
        case $1:$column[1] in
        command:command) [[ $column[2] == $2 ]] && kind=$column[3] ;;
        key:key) [[ $column[2] == $2 ]] && kind=$column[6] ;;
        option:option)
            [[ $column[2] == $3 && $column[3] == $2 ]] && kind=$column[5]
            ;;
        esac
    done
}

_vpipe_keys()
{
    local row
    local -a column names meanings

    for row in ${(f)_vpipe_rows}; do
        column=("${(@s:	:)row}")
        [[ $column[1] == key ]] || continue
        names+=("$column[2]")
        meanings+=("$column[2]  -- ${column[7][1,60]}")
    done
    compadd -S = -q -l -d meanings -a names
}

_vpipe_offer()
{
    local kind=$1

    case $kind in
    word\ *) compadd -- ${=kind#word } ;;
    config) _files -g '*.(yml|yaml|json)' ;;
    file) _files ;;
    folder) _files -/ ;;
    key\ *)
        _vpipe_kind key ${kind#key }
        _vpipe_offer $kind
        _files
        ;;
    key)
        if compset -P 1 '*='; then
            _vpipe_kind key ${IPREFIX%=*}
            [[ -n $kind ]] || _vpipe_kind key ${${IPREFIX%=}##*=}
            _vpipe_offer $kind
        else
            _vpipe_keys
        fi
        ;;
    esac
}

_vpipe()
{
    local command kind
    local -a list

    ((CURRENT > 2)) && command=$words[2]
    [[ $command == data ]] && ((CURRENT > 3)) && command="data $words[3]"
    if [[ -z $command || $command == help ]]; then
        _vpipe_select command
        list+=(help:'help of a command' --help:'list of commands'
            --version:'version of the program')
        _describe -t commands command list
        return
    fi
    if [[ $command == data ]]; then
        _vpipe_select command data
        _describe -t commands subcommand list
        return
    fi
    _vpipe_kind option $words[CURRENT-1] $command
    if [[ -n $kind && $kind != - ]]; then
        _vpipe_offer $kind
    elif [[ $PREFIX == --*=* ]]; then
        _vpipe_kind option ${PREFIX%%=*} $command
        compset -P 1 '*='
        _vpipe_offer $kind
    elif [[ $PREFIX == -* ]]; then
        _vpipe_select option $command
        _describe -o -t options option list
    else
        _vpipe_kind command $command
        _vpipe_offer $kind
    fi
}

# Autoloaded, or read by `source`.
if [[ $funcstack[1] == _vpipe ]]; then
    _vpipe "$@"
else
    compdef _vpipe vpipe
fi
