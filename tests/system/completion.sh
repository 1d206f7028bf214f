#!/bin/bash
# tests/system/completion.sh PROGRAM: completion in interactive shells. Types text and
# a TAB into a terminal, and compares the resulting line of the shell. The scripts are
# those of 'PROGRAM completion', or with INSTALLED=1 those that the shells find
# themselves. Missing shells are left out; exits with 77 if only bash is installed.
set -euo pipefail

program=$(realpath "$1")
folder=$(mktemp -d)
trap '[ -n "${KEEP:-}" ] || rm -rf "$folder"' EXIT
cd "$folder"
mkdir -p bin trained.run models
[ -n "${INSTALLED:-}" ] || ln -s "$program" bin/vpipe
touch alpha.yml alpha.txt models/beta.yml
export PATH=$folder/bin:$PATH TERM=dumb HOME=$folder XDG_CONFIG_HOME=$folder
failures=0
checks=0

# Typed text, |, and the line after one TAB.
cases='vpipe tra|vpipe tra
vpipe trai|vpipe train
vpipe compl|vpipe completion
vpipe completion z|vpipe completion zsh
vpipe help sched|vpipe help schedule
vpipe data voc|vpipe data vocab
vpipe data vocab --ca|vpipe data vocab --cased
vpipe data vocab --type w|vpipe data vocab --type wordpiece
vpipe train --dry|vpipe train --dry-run
vpipe train --set optimi|vpipe train --set optimizer=
vpipe train --set schedule_m|vpipe train --set schedule_memory=
vpipe train --set precision=bf|vpipe train --set precision=bf16
vpipe train --set kernels=ref|vpipe train --set kernels=reference
vpipe train --set stash_weights=|vpipe train --set stash_weights=
vpipe train --set data_dir=alpha.t|vpipe train --set data_dir=alpha.txt
vpipe train alp|vpipe train alpha.yml
vpipe train --set stages=2 alp|vpipe train --set stages=2 alpha.yml
vpipe train models/b|vpipe train models/beta.yml
vpipe train --resume train|vpipe train --resume trained.run/
vpipe export --dtype bf|vpipe export --dtype bf16
vpipe export --dtype=bf|vpipe export --dtype=bf16
vpipe plan --planner pipe|vpipe plan --planner pipedream
vpipe schedule zb-h|vpipe schedule zb-h
vpipe schedule dual|vpipe schedule dualpipe-v
vpipe eval trai|vpipe eval trained.run/'

# check SHELL TYPED WANT GOT: compares lines without trailing spaces.
check()
{
    local shell=$1 typed=$2 want=$3 got=$4

    checks=$((checks + 1))
    got=${got%"${got##*[! ]}"}
    [ "$got" != "$want" ] || return 0
    echo "FAILED: $shell: '$typed' becomes '$got', not '$want'"
    failures=$((failures + 1))
}

# Waits until the shell has created the file `ready`, types `input`, and waits
# for the last line.
type_input()
{
    local i

    for ((i = 0; i < 200; i++)); do
        [ ! -e ready ] || break
        sleep 0.1
    done
    sleep 0.2
    cat input
    for ((i = 0; i < 200; i++)); do
        [ "$(wc -l <lines)" -lt "$1" ] || break
        sleep 0.1
    done
    printf 'exit\n'
}

# in_terminal NAME COMMAND: types all cases. Ctrl-X Ctrl-W appends the edited
# line to `lines`, Ctrl-U clears it.
in_terminal()
{
    local name=$1 n=0 typed want

    : >lines
    : >input
    rm -f ready
    while IFS='|' read -r typed want; do
        printf '%s\t\030\027\025' "$typed" >>input
    done <<<"$cases"
    type_input "$(wc -l <<<"$cases")" |
        timeout 60 script -qec "$2" /dev/null >screen 2>&1 || true
    while IFS='|' read -r typed want; do
        n=$((n + 1))
        check "$name" "$typed" "$want" "$(sed -n ${n}p lines)"
    done <<<"$cases"
}

bash_shell()
{
    if [ -n "${INSTALLED:-}" ]; then
        echo '. /usr/share/bash-completion/bash_completion'
    else
        echo '. <(vpipe completion bash)'
    fi >rc
    cat >>rc <<'END'
PS1=
save() { printf '%s\n' "$READLINE_LINE" >>lines; }
bind -x '"\C-x\C-w": save'
bind 'set bell-style none'
PROMPT_COMMAND='touch ready'
END
    in_terminal bash 'bash --noprofile --rcfile rc -i'
}

zsh_shell()
{
    cat >.zshrc <<'END'
PS1=
unsetopt beep prompt_sp menu_complete auto_menu
autoload -U compinit
compinit -u -d .zcompdump
END
    [ -n "${INSTALLED:-}" ] || echo '. <(vpipe completion zsh)' >>.zshrc
    cat >>.zshrc <<'END'
save() { print -r -- "$BUFFER" >>lines }
zle -N save
bindkey '^X^W' save
bindkey '^U' kill-whole-line
precmd() { touch ready }
END
    ZDOTDIR=$folder in_terminal zsh 'zsh -i'
}

# fish prints its candidates; a single one is inserted.
fish_shell()
{
    local typed want answers n common plain=

    if [ -z "${INSTALLED:-}" ]; then
        vpipe completion fish >vpipe.fish
        plain=--no-config
    fi
    while IFS='|' read -r typed want; do
        answers=$(fish $plain -c '
            test -f vpipe.fish; and source vpipe.fish
            complete -C "'"$typed"'" | string replace -r "\t.*" ""' </dev/null) || true
        n=$(printf '%s\n' "$answers" | grep -c . || true)
        # Of several candidates, the common beginning is inserted.
        common=$(printf '%s\n' "$answers" | sed -e '$!{N;s/^\(.*\).*\n\1.*$/\1\n\1/;D;}')
        [ "$n" != 0 ] || common=${typed##* }
        check fish "$typed" "$want" "${typed% *} $common"
    done <<<"$cases"
}

bash_shell
shells=bash
for shell in zsh fish; do
    if command -v $shell >/dev/null; then
        ${shell}_shell
        shells+=" $shell"
    fi
done
echo "completion: $checks checks in $shells, $failures failures"
[ $failures = 0 ] || exit 1
[ "$shells" != bash ] || {
    echo 'SKIPPED: completion: zsh and fish are missing; install one of them'
    exit 77
}
