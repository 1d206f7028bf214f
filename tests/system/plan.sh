#!/bin/bash
# vpipe plan: its tables and refusals are right. train reads its plans and needs exactly
# the bytes of the forecast.
#   tests/system/plan.sh PROGRAM [few]
# With `few`, for sanitizers, fewer plans are made and nothing is measured.
set -u

program=$(realpath "${1:?usage: tests/system/plan.sh PROGRAM [few]}")
root=$(cd "$(dirname "$0")/../.." && pwd)
configs=$root/configs
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1
unset XDG_CACHE_HOME
export HOME=$folder
checks=0

fail() {
    echo "plan: $*"
    cat out err 2>/dev/null
    exit 1
}

# run STATUS ARGUMENT...
run() {
    local want=$1 status=0
    shift
    "$program" "$@" >out 2>err || status=$?
    [ "$status" -eq "$want" ] || fail "status $status, not $want: vpipe $*"
    checks=$((checks + 1))
}

has() {
    grep -qF -- "$2" "$1" || fail "no '$2' in $1"
    checks=$((checks + 1))
}

# memory FILE: the bytes per stage in the first line that has them.
memory() {
    grep -m 1 -o '"memory": *\[[0-9, ]*\]' "$1" | tr -d ' '
}

# trains CONFIG OPTION...: makes a plan, trains with it, and compares the bytes.
trains() {
    local config=$1 command
    shift
    rm -rf plan.json run
    run 0 plan "$configs/$config.yml" --set device=cpu --brief --out plan.json "$@"
    has out 'profile: synthetic'
    has out 'forecast: '
    has plan.json '"recompute_ratio": ['
    has plan.json '"forecast": {"step_seconds": '
    command=$(sed -n 's/^train with: //p' out)
    [ -n "$command" ] || fail 'no command to train with'
    eval "$command" --set device=cpu --max-steps 1 --quiet --output run \
        >out 2>err || fail "the plan is refused: $command"
    [ "$(memory plan.json)" = "$(memory run/metrics.jsonl)" ] ||
        fail "$config: bytes of the forecast and of the run differ"
    checks=$((checks + 1))
}

trains bert_4gpipe_tiny --memory 9M
trains bert_4pipedream_tiny --memory 14M
trains translation_tiny --set stages=3
if [ "${2:-}" != few ]; then
    trains bert_4gpipe_tiny
    trains bert_4gpipe_tiny --memory 12M
    trains gpt2_tiny --set stages=2
    trains gpt2_tiny --set stages=2 --planner gpipe
    # The printed command sets the keys that were set for the plan; keys that
    # the plan decides get its values.
    trains bert_4gpipe_tiny --memory 12M --set batch_size=8
    trains bert_8vpipe_tiny --memory 12M --set swap_ratio=0.5
    trains bert_8vpipe_tiny --memory 12M --set recompute=false
    trains bert_8vpipe_tiny --set recompute=false --keep recompute
fi
# More ranks than the largest number of stages.
run 0 plan "$configs/bert_8vpipe_tiny.yml" --set device=cpu --brief \
    --set 'partition=[8, 9]' --set recompute_ratio=0 --set 'replicas=[40, 40]'
has out ' on 80 ranks,'

# If the configuration's own plan does not fit memory_limit, the message has a
# command that can be pasted, and the plan of that command fits.
run 2 train "$configs/bert_4gpipe_tiny.yml" --set device=cpu --dry-run \
    --set memory_limit=9M --set 'recompute_ratio=[0, 0, 0, 0]' --set batch_size=8 \
    --set seq_length=64
command=$(sed -n 's/.*; or train with a plan that fits: vpipe plan //p' err)
[ "$command" = "$configs/bert_4gpipe_tiny.yml --set device=cpu --set \
memory_limit=9M --set 'recompute_ratio=[0, 0, 0, 0]' --set batch_size=8 --set \
seq_length=64 --out plan.json" ] || fail "another command: $command"
rm -f plan.json
eval "run 0 plan $command --brief"
command=$(sed -n 's/^train with: //p' out)
eval "$command" --dry-run >out 2>err || fail "does not fit: $command"

# All tables, and the picture.
run 0 plan "$configs/bert_4gpipe_tiny.yml" --set device=cpu --memory 12M \
    --profile synthetic --svg dial.svg
for text in 'recomputed' 'planner ' 'pipedream ' 'given ' 'does not fit' \
    'other schedules' 'zb-v ' 'speed against memory' '<- this memory' \
    'twice the memory: ' 'twice the links: '; do
    has out "$text"
done
has dial.svg '<svg'

# --stages auto chooses the smallest number of stages.
run 0 plan "$configs/bert_4gpipe_tiny.yml" --set device=cpu --brief \
    --stages auto --memory 1G
has out ' on 1 rank,'
if [ "${2:-}" != few ]; then
    run 0 plan "$configs/bert_4gpipe_tiny.yml" --set device=cpu --brief \
        --stages auto --memory 12M
    has out ' on 3 ranks,'
fi

# --keep does not change the named parts.
run 0 plan "$configs/bert_4gpipe_tiny.yml" --set device=cpu --brief \
    --keep schedule,partition
has out 'forecast: gpipe'

# Refusals, each one line.
refuse() {
    local text=$1
    shift
    run 2 plan "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail 'not one line'
    has err "$text"
}
tiny=$configs/bert_4gpipe_tiny.yml
refuse 'no plan fits: ' "$tiny" --set device=cpu --memory 1M
refuse 'the plan of even does not fit' "$tiny" --set device=cpu --memory 12M \
    --planner even --brief
refuse "did you mean 'gpipe'" "$tiny" --planner gpip
refuse "option '--memory' must be a size" "$tiny" --memory much
refuse "option '--stages' must be auto or" "$tiny" --stages 0
refuse "option '--keep' has 'all'" "$tiny" --keep schedule,all
refuse 'no configuration; write for example' --brief
refuse 'missing.json' "$tiny" --profile missing.json
echo '{"peak_tflops_fp32": 1}' >bad.json
refuse "bad.json:1:1: 'copy_gb_per_s'" "$tiny" --profile bad.json

# This machine is measured once. The profile is used for plans for this machine,
# not for plans for a GPU or with other blocks.
if [ "${2:-}" != few ]; then
    small=("$configs/bert_one.yml" --set stages=2 --set accumulation_steps=4 --brief)
    run 0 plan "${small[@]}" --profile measured
    has out 'profile: measured on '
    run 0 plan "${small[@]}"
    has out 'profile: measured on '
    run 0 plan "${small[@]}" --set device=cuda --set precision=bf16
    has out 'profile: synthetic (stated rates of a GPU)'
    run 0 plan "${small[@]}" --set batch_size=8
    has out 'profile: synthetic (stated rates of one CPU core)'
fi

echo "plan: $checks checks passed"
