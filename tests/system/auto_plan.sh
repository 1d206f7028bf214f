#!/bin/bash
# Key auto_plan: a run searches for its first plan, all processes get the same plan,
# and a resumed run keeps it.
#   tests/system/auto_plan.sh PROGRAM [MPIRUN...]
# With the command MPIRUN, only ranks as processes are tested.
set -u

program=$(realpath "${1:?usage: tests/system/auto_plan.sh PROGRAM [MPIRUN...]}")
shift
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1
unset XDG_CACHE_HOME
export HOME=$folder
checks=0

cat >model.yml <<END
model_type: bert
vocab: 264
layers: 2
hidden: 32
heads: 2
seq_length: 16
batch_size: 4
threads_per_stage: 1
synthetic_data: true
device: cpu
tie_embeddings: false
accumulation_steps: 4
total_steps: 4000
checkpoint_every: 10
auto_plan: true
stages: 2
memory_limit: 880K
END
profile=$root/configs/profiles/rtx_2080ti.json

fail() {
    echo "auto_plan: $*"
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

train() {
    run 0 train model.yml --set "profile=$profile" "$@"
}

has() {
    grep -qF -- "$2" "$1" || fail "no '$2' in $1"
    checks=$((checks + 1))
}

# refuse TEXT ARGUMENT...: one line on stderr that contains the text
refuse() {
    local text=$1
    shift
    run 2 train model.yml --set "profile=$profile" "$@"
    [ "$(wc -l <err)" -eq 1 ] || fail 'not one line'
    has err "$text"
}

losses() {
    grep -o '^{"step": [0-9]*, .*"loss": [^,]*' "$1/metrics.jsonl"
}

# same RUN OTHER [STEPS]: the losses of the first steps are bit-identical
same() {
    local n=${3:-1000}
    [ "$(losses "$1" | head -n "$n")" = "$(losses "$2" | head -n "$n")" ] ||
        fail "the losses of $1 and $2 differ"
    [ -n "$(losses "$1")" ] || fail "no losses in $1"
    checks=$((checks + 1))
}

# The plan is searched for, fits, is printed, and is written to the run folder.
train --max-steps 8 --output auto
has out 'plan: '
has out 'of memory of 880 KiB; the '
has auto/output.log.0 'plan: '
has auto/output.log.0 '; forecast '
has auto/output.log.0 'rtx_2080ti.json'
has auto/plan.json '"recompute": ['
has auto/plan.json '"forecast": {"step_seconds": '
has auto/config.yml 'partition: "plan.json"'
has auto/config.yml 'auto_plan: false'
# Ranks as processes get the plan of the lead.
if [ $# -gt 0 ]; then
    "$@" -n 2 "$program" train model.yml --set "profile=$profile" \
        --set distributed_backend=mpi --max-steps 8 --output mpi >out 2>err ||
        fail 'mpirun'
    same auto mpi
    has mpi/output.log.0 'plan: '
    run 0 train model.yml --set "profile=$profile" \
        --set distributed_backend=mpi --resume mpi --max-steps 12
    has out 'plan: mpi/plan.json is kept'
    run 0 train model.yml --set partition=auto/plan.json --max-steps 12 --output whole
    same whole mpi
    refuse "key 'auto_plan': no plan fits: " --set distributed_backend=mpi \
        --set memory_limit=10K
    # batch_size and replicas that the lead chooses.
    "$@" -n 2 "$program" train model.yml --set "profile=$profile" \
        --set distributed_backend=mpi --set layers=1 --set batch_size=auto \
        --set replicas=auto \
        --max-steps 3 --output numbers >out 2>err || fail 'mpirun with auto'
    has out 'plan: batch_size='
    echo "auto_plan: $checks checks passed"
    exit 0
fi

# memory_limit also applies to an explicit partition, which turns auto_plan off.
refuse 'memory_limit' --set 'partition=[3, 2]' --max-steps 1
# The plan from a file, the resolved configuration, and a larger limit give the
# same losses, bit for bit.
run 0 train model.yml --set partition=auto/plan.json --max-steps 8 --output file
same auto file
cmp -s auto/plan.json file/plan.json || fail 'plans differ'
run 0 train auto/config.yml --max-steps 8 --output again
same auto again
train --set memory_limit=1G --max-steps 8 --output roomy
same auto roomy
cmp -s auto/plan.json roomy/plan.json && fail 'the limit changes nothing'

# plan_alone RUN: the current plan without its history
plan_alone()
{
    sed '/^    "history"/,$d' "$1/plan.json" | sed 's/,$//; /^}$/d'
}

# A killed run keeps its plan when it is resumed, although the search would now
# find another one.
run 0 train model.yml --set partition=auto/plan.json --max-steps 1300 --output whole
"$program" train model.yml --set "profile=$profile" --output killed \
    >out 2>err &
pid=$!
for _ in $(seq 200); do
    # Older checkpoints are removed meanwhile; any two are enough.
    [ "$(ls killed/checkpoints 2>/dev/null | grep -c '^step-[0-9]*$')" -ge 2 ] &&
        break
    kill -0 $pid 2>/dev/null || break
    sleep 0.05
done
kill -KILL $pid 2>/dev/null || fail 'the run was over before it was killed'
wait $pid 2>/dev/null
cmp -s auto/plan.json killed/plan.json || fail 'the killed run has another plan'
train --set memory_limit=1G --resume killed --max-steps 1300
has out 'plan: killed/plan.json is kept'
cmp -s auto/plan.json killed/plan.json || fail 'the plan was not kept'
same whole killed
# Unless the user asks for a new plan.
train --set memory_limit=1G --set auto_plan=again --resume killed --max-steps 1302
has killed/output.log.0 'of memory of 1 GiB'
cmp -s <(plan_alone roomy) <(plan_alone killed) ||
    fail 'the run was not planned again'
[ "$(grep -c '"until_step": 1300' killed/plan.json)" -eq 1 ] ||
    fail 'the plan before is not in the history'
run 0 train model.yml --set 'partition=[1, 4]' --set memory_limit=1G \
    --resume killed --max-steps 1304
has killed/plan.json '"partition": [1, 4]'
train --set stages=3 --resume killed --max-steps 1306
has out 'killed/plan.json is for 2 ranks, this run has 3 and is planned again: '
echo '{' >killed/plan.json
refuse ', or plan again with --set auto_plan=again' --resume killed
run 0 train model.yml --set partition=auto/plan.json --max-steps 1306 --output whole2
same whole2 killed

# Without a profile this machine is measured, once.
run 0 train model.yml --max-steps 1 --output measured
has out 'profile: measured on '
has out ', now, in '
run 0 train model.yml --dry-run
has out 'profile: measured on '
grep -qF ', now, in ' out && fail 'measured again'
[ ! -e "$(ls -d runs 2>/dev/null)" ] || fail 'a dry run left a folder'

# Numbers that the plan chooses are printed, written to config.yml and kept.
auto=(--set layers=1 --set batch_size=auto --set accumulation_steps=auto
    --set memory_limit=900K)
train "${auto[@]}" --max-steps 3 --output numbers
has out 'plan: batch_size='
grep -q '^batch_size: [0-9]' numbers/config.yml || fail 'batch_size in config.yml'
grep -q '^accumulation_steps: [0-9]' numbers/config.yml || fail 'accumulation_steps'
grep -q '^batch_size: 4$' numbers/config.yml && fail 'batch_size was not chosen'
train "${auto[@]}" --resume numbers --max-steps 5
run 0 train numbers/config.yml --max-steps 5 --output numbers2
same numbers numbers2
run 2 train model.yml "${auto[@]}" --set auto_plan=false
has err "key 'batch_size' is auto, which needs a search for a plan; set auto_plan: true"
run 0 plan model.yml --profile "$profile" "${auto[@]}" --brief --out numbers.json
has out 'auto: batch_size='
command=$(sed -n 's/^train with: //p' out)
eval "$command" --max-steps 5 --output numbers3 --quiet || fail "$command"
same numbers numbers3
run 2 plan model.yml --profile "$profile" "${auto[@]}" --stages 2
has err "option '--stages' does not go with keys that are auto"

# Refusals.
refuse "key 'auto_plan': no plan fits: " --set memory_limit=10K
refuse 'chooses the partition, and partition is set, too' --set auto_plan=true \
    --set 'partition=[1, 4]'
refuse "'auto_plan' must be one of false, true, again" --set auto_plan=maybe
refuse 'no_such.json' --set profile=no_such.json
status=0
"$program" train <(cat model.yml) >out 2>err || status=$?
[ "$status" -eq 2 ] || fail 'a pipe was taken'
has err 'a pipe can be read once'

echo "auto_plan: $checks checks passed"
