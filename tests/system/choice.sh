#!/bin/bash
# One rank of a job sees other files or another configuration than the rest: all ranks
# resume from the same checkpoint, or all stop and report why. No rank trains on from
# another state.
#   tests/system/choice.sh PROGRAM TOOLS
# TOOLS is the folder of libbadfiles.so.
set -u

program=$(realpath "${1:?usage: tests/system/choice.sh PROGRAM TOOLS}")
shim=$(realpath "${2:?usage: tests/system/choice.sh PROGRAM TOOLS}")/libbadfiles.so
. "$(dirname "$0")/cluster_lib.sh"
need mpirun
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1

cat >model.yml <<'END'
model_type: bert
device: cpu
vocab: 264
layers: 4
hidden: 16
heads: 2
seq_length: 16
batch_size: 4
threads_per_stage: 1
synthetic_data: true
partition: [3, 3, 3]
tie_embeddings: false
checkpoint_every: 10
keep_checkpoints: 9
watchdog_seconds: 20
END
checks=0

# settings MODE: stores the options of the mode in `sets`
settings() {
    sets=(--set "sync_mode=$1")
    [ "$1" = asp ] || sets+=(--set accumulation_steps=2)
}

# trace_of RUN: steps, minibatches and losses
trace_of() {
    grep -v '"event": "forecast"' "$1/metrics.jsonl" | cut -d, -f1-4
}

# resume RANK VARIABLE TEXT OPTION...: resumes with three ranks; RANK has
# libbadfiles.so with VARIABLE=TEXT
resume() {
    local rank=$1 variable=$2 text=$3 parts=() r
    shift 3
    for r in 0 1 2; do
        [ $r -eq 0 ] || parts+=(:)
        parts+=(-n 1)
        [ $r -ne "$rank" ] || parts+=(-x "LD_PRELOAD=$shim" -x "$variable=$text")
        parts+=("$program" train model.yml "${sets[@]}" --set total_steps=40
            --quiet "$@")
    done
    timeout -k 10 120 mpirun --oversubscribe --allow-run-as-root \
        --mca mpi_yield_when_idle 1 "${parts[@]}" >out 2>err </dev/null
}

# goes_on WHAT STATUS: the run went on with the expected losses
goes_on() {
    checks=$((checks + 1))
    [ "$2" -eq 0 ] || note_failure "$mode: $1: status $2"
    trace_of run | cmp -s - "$mode.losses" || note_failure "$mode: $1: losses"
}

# stops WHAT STATUS TEXT...: the run stopped, printed each TEXT, and changed no
# file
stops() {
    local what=$1 text
    checks=$((checks + 1))
    [ "$2" -ne 0 ] || note_failure "$mode: $what: status 0"
    shift 2
    for text; do
        grep -q -- "$text" err || note_failure "$mode: $what: no '$text'"
    done
    [ "$(ls run/checkpoints | tr '\n' ' ')" = "step-10 step-20 step-25 " ] ||
        note_failure "$mode: $what: $(ls run/checkpoints)"
    trace_of run | cmp -s - before || note_failure "$mode: $what: metrics"
}

for mode in bsp asp; do
    settings $mode
    "$program" train model.yml "${sets[@]}" --set total_steps=40 --quiet \
        --output whole >out 2>err || note_failure "$mode: the unbroken run"
    trace_of whole >$mode.losses
    "$program" train model.yml "${sets[@]}" --set total_steps=40 --max-steps 25 \
        --quiet --output half >out 2>err || note_failure "$mode: the first half"
    trace_of half >before
    for rank in 0 1 2; do
        # This host does not see the newest entry of a directory yet.
        rm -rf run && cp -r half run
        resume $rank BADFILES_HIDE step-25 --resume run
        goes_on "rank $rank does not see step-25" $?

        rm -rf run && cp -r half run
        resume $rank BADFILES_FAIL step-25/block-000 --resume run
        stops "rank $rank cannot read step-25" $? "step-25/block-000" \
            "Input/output error" "--resume run/checkpoints/step-20"

        # Only this host sees damage, in its own blocks: all ranks use an older
        # checkpoint.
        rm -rf run && cp -r half run
        resume $rank BADFILES_FLIP "step-25/block-000$((3 * rank + 1))" --resume run
        goes_on "rank $rank finds step-25 damaged" $?
        grep -q "checksum differs; using step 20" err ||
            note_failure "$mode: rank $rank: the fallback is not told"
        grep -q "checksum differs; using step 20" run/output.log.0 ||
            note_failure "$mode: rank $rank: the fallback is not in the log"
    done
    rm -rf whole half run
done
# The launcher temporarily cannot read the job's checkpoints: it neither starts
# a new run nor removes them.
mode=bsp
settings bsp
checks=$((checks + 1))
LD_PRELOAD=$shim BADFILES_FAIL=0/manifest.json timeout -k 10 120 "$program" train model.yml \
    "${sets[@]}" --set total_steps=100000 --set distributed_backend=mpi --quiet \
    --restarts 2 --output "$folder/run" >out 2>err </dev/null &
child=$!
for _ in $(seq 600); do
    [ -e run/checkpoints/step-20 ] && break
    sleep 0.05
done
for pid in $(pgrep -f -- "train model.yml .* --output $folder/run\$"); do
    { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
        grep -qx OMPI_COMM_WORLD_RANK=1 && kill -KILL "$pid" && break
done
wait $child
[ $? -eq 1 ] || note_failure "restarts: status"
grep -q "Input/output error" err || note_failure "restarts: no reason"
[ "$(head -n 1 run/metrics.jsonl | cut -d, -f1)" = '{"step": 1' ] ||
    note_failure "restarts: the metrics are gone"
[ "$(wc -l <run/command_history.log)" -le 2 ] ||
    note_failure "restarts: it was started again"

# Rank 1 of two has other options than rank 0.
rm -rf run
few='[0, 1, 2, 3]'
most="$few, $few, $few, $few, $few, $few, $few, $few"
echo "{\"partition\": [5, 4], \"recompute\": [$most, [0, 1, 2, 3]]}" >plan0.json
echo "{\"partition\": [5, 4], \"recompute\": [$most, [0, 1, 2, 4]]}" >plan1.json

# two OPTION...: trains with two ranks; the options are for rank 1
two() {
    local common=(train model.yml --quiet --set 'total_steps=2'
        --set 'accumulation_steps=2' --set 'partition=plan0.json')
    checks=$((checks + 1))
    timeout -k 10 60 mpirun --oversubscribe --allow-run-as-root \
        --mca mpi_yield_when_idle 1 -n 1 "$program" "${common[@]}" : \
        -n 1 "$program" "${common[@]}" "$@" >out 2>err </dev/null
}

# refuses TEXT OPTION...: one line names the difference
refuses() {
    local text=$1
    shift
    two "$@"
    [ $? -eq 2 ] || note_failure "$*: status"
    [ "$(grep -c -e 'rank' err)" -eq 1 ] || note_failure "$*: not one line"
    grep -q -F -- "$text" err || note_failure "$*: no '$text'"
}

two --set threads_per_stage=2 --set print_frequency=3 ||
    note_failure "options of a host are refused"
host=$(uname -n)
refuses "--set: key 'batch_size' is 8 on rank 1 (host $host), but 4 on rank 0 (host\
 $host); start all ranks with the same configuration and plan" --set batch_size=8
refuses "--set: key 'partition' of the plan is [4, 5] on rank 1 " \
    --set 'partition=[4, 5]'
refuses "model.yml: key 'recompute' of the plan is [$few, $few, $few, $few, [0, 1, ...\
 (checksum " \
    --set 'partition=plan1.json'
refuses "model.yml: --resume is given on rank 1 (host $host), but not set on rank 0 " \
    --resume run
refuses "key 'eval_every' is 1 on rank 1" --set eval_every=1
refuses "key 'text_key' is \"body\" on rank 1 (host $host), but \"text\" on rank 0 " \
    --set text_key=body
two --set network_interface=lo || note_failure "a network interface is refused"
refuses "key 'schedule' of the plan is \"auto\" on rank 1" --set schedule=auto \
    --set 'partition=[5, 4]'
refuses "key 'layers' is 5 on rank 1" --set layers=5 --set 'partition=[5, 6]'
refuses "the processes do not agree on which of them is which rank; start all with\
 the same 'ranks'" --set 'ranks=[1, 0]'
refuses "process 1: --set: 2 processes were started, but the pipeline has 3 ranks" \
    --set 'partition=[3, 3, 3]'

echo "$checks checks, $failures failures"
[ $failures -eq 0 ]
