#!/bin/sh
# The recipes of examples/ run with their one command: with VP_FULL=1 at full length,
# and the claims of their pages are checked; else for a few steps each.
#   tests/system/examples.sh build/vpipe
# PYTHON names a Python with torch and transformers for the last step of the recipe
# pirate; only with VP_FULL=1.
set -u

program=$(realpath "${1:?usage: tests/system/examples.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
. "$source/tests/system/tool_lib.sh"
export VPIPE="$program"

steps=
if [ -z "${VP_FULL:-}" ]; then
    steps=4
    export PYTHON=false # without Python the recipe reports the steps that it skips
fi

# recipe NAME: runs a recipe; leaves its output in `out` and `err`.
recipe() {
    checks=$((checks + 1))
    "$source/examples/$1/run" ${steps:+--set total_steps=$steps} \
        >out 2>err </dev/null || fail "examples/$1/run ended with status $?"
    contains "$1 shows no timeline" '^rank 1 .* %$'
    contains "$1 draws no loss" "^loss curve: runs/$1/loss.svg\$"
    grep -q '</svg>' "runs/$1/loss.svg" || fail "$1 draws half a picture"
}

# contains WHAT PATTERN: a line of stdout matches the basic pattern.
contains() {
    checks=$((checks + 1))
    grep -q "$2" out || fail "$1"
}

# claim WHAT VALUE RELATION LIMIT: with VP_FULL=1, VALUE RELATION LIMIT must
# hold.
claim() {
    [ -z "$steps" ] || return 0
    checks=$((checks + 1))
    awk -v value="$2" -v limit="$4" "BEGIN { exit !(value $3 limit) }" ||
        fail "$1 is $2, which is not $3 $4"
}

# last_loss NAME: the last held-out loss of the recipe's run.
last_loss() {
    sed -n 's/.*"eval_loss": \([^,]*\),.*/\1/p' "runs/$1/run/metrics.jsonl" |
        tail -n 1
}

# Fables and pairs are the same on every machine, because the pages quote them.
for data in fables/fables numbers/pairs; do
    awk -v n=100 -f "$source/examples/$data.awk" >sample
    checks=$((checks + 2))
    [ -z "$(sort sample | uniq -d)" ] || fail "$data.awk repeats itself"
    cksum <sample >>sums
done
printf '%s\n' '1394613472 42836' '3547913630 8666' >expected
cmp -s expected sums || fail "the generated data has changed: $(cat sums)"

recipe fill-gaps
contains "no gap is filled" '^gap 1: [a-z.",]* 0\.[0-9]'
claim "accuracy against the most frequent token" \
    "$(sed -n 's/.*BERT is right \([0-9.]*\) times as often/\1/p' out)" '>=' 1.5

recipe fables
contains "no fables follow" '^== Fables of its own$'
claim "held-out loss of fables" "$(last_loss fables)" '<' 0.2
if [ -z "$steps" ]; then
    checks=$((checks + 1))
    grep -q ' Moral: [A-Z].*\.$' runs/fables/fable.txt ||
        fail "the last fable has no moral"
fi
run_again=$("$source/examples/fables/run" 2>&1)
checks=$((checks + 1))
[ "$run_again" = \
    "examples/fables/run: runs/fables exists; rename or remove it" ] ||
    fail "a second start says: $run_again"

recipe pirate
contains "there is no Hugging Face folder" '^model.safetensors$'
contains "transformers is not mentioned" \
    '^transformers: the same\|^skipped: .* has no torch and transformers'
claim "held-out loss of pirates" "$(last_loss pirate)" '<' 0.5
[ -n "$steps" ] || contains "a pirate does not say Arr" '^Arr!'

recipe numbers
contains "no translation follows" '^4217$'
claim "exact translations" \
    "$(sed -n 's/^exact match = \([0-9.]*\) (.* of 1000)$/\1/p' err)" '>=' 98

printf 'examples: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
