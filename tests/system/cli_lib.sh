# Shared by tests of the command line, on top of tool_lib.sh: small models, and
# functions that read the output and the folder of a run. Sourced by a script
# whose first argument is the program.
# shellcheck shell=sh
program=${1:?usage: $0 PROGRAM}
case $program in
/*) ;;
*) program=$PWD/$program ;;
esac
[ -x "$program" ] || {
    echo "$program is not a program; build it first"
    exit 1
}
configs=$(cd "$(dirname "$0")/../../configs" && pwd -P) || exit 1
. "$(dirname "$0")/tool_lib.sh"

# has FILE TEXT: fails if the file does not contain the text.
has() {
    grep -qF -- "$2" "$1" || fail "no '$2' in $1"
}

# One layer, four steps of generated data.
# shellcheck disable=SC2034
tiny="--set layers=1 --set hidden=16 --set heads=2 --set seq_length=16"
tiny="$tiny --set eval_every=0 --set threads_per_stage=1 --set total_steps=4"
tiny="$tiny --set print_frequency=2 --set synthetic_data=true"
# A model of 9 blocks.
# shellcheck disable=SC2034
pipe="$tiny --set layers=4 --set batch_size=4"

# n_steps FILE: number of lines with the result of a step.
n_steps() {
    grep -c '"loss"' "$1"
}

# losses FOLDER: the losses of a run as printed in metrics.jsonl.
losses() {
    sed -n 's/.*\("loss": *[^,}]*\).*/\1/p' "$1/metrics.jsonl"
}

# end_cli: prints the number of checks; its status is that of the script.
end_cli() {
    printf '%d checks, %d failures\n' "$checks" "$failures"
    [ "$failures" -eq 0 ]
}
