#!/bin/bash
# Runs change their plan while they train: the losses equal those of an undisturbed
# run, also after a kill during a move. A plan that cannot be used is refused in one
# line, and the run goes on.
#   tests/system/rebalance.sh PROGRAM [few|all [MPIRUN [OPTION...]]]
# MOVES=n makes n moves locally and n under MPI [6; few: 3], KILLS=n makes n kills
# [4; few: 1], SEED=n selects other plans.
set -u

usage="usage: tests/system/rebalance.sh PROGRAM [few|all [MPIRUN [OPTION...]]]"
program=$(realpath "${1:?$usage}")
few=${2:-all}
mpirun=("${@:3}")
. "$(dirname "$0")/cluster_lib.sh"
if [ "$few" = few ]; then
    moves=${MOVES:-3} kills=${KILLS:-1}
else
    moves=${MOVES:-6} kills=${KILLS:-4}
fi
RANDOM=${SEED:-1}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1

cat >model.yml <<'END_YAML'
model_type: bert
device: cpu
vocab: 264
layers: 4
hidden: 32
heads: 2
seq_length: 32
batch_size: 4
threads_per_stage: 1
synthetic_data: true
partition: [3, 2, 2, 2]
total_steps: 1000000
checkpoint_every: 7
keep_checkpoints: 2
eval_every: 20
eval_batches: 2
watchdog_seconds: 20
END_YAML
bsp=(--set sync_mode=bsp --set accumulation_steps=4)
asp=(--set sync_mode=asp --set tie_embeddings=false)

# ---- Runs ------------------------------------------------------------------

# train OPTION...: trains to the end
train()
{
    timeout -k 10 300 "$program" train model.yml --quiet "$@" </dev/null
}

# start RUN OPTION...: starts a run in the background, sets `child`, and returns
# after the first steps. If `ranks` is set, ranks are processes.
start()
{
    local run=$1
    local command=("$program" train model.yml --output "$@")

    parts=4
    # MPI does not free all of its memory.
    [ -z "${ranks:-}" ] || command=(env ASAN_OPTIONS=detect_leaks=0
        "${mpirun[@]}" -n "$ranks" "${command[@]}")
    "${command[@]}" >"$run.out" 2>"$run.err" </dev/null &
    child=$!
    until [ -s "$run/metrics.jsonl" ] || ! kill -0 $child 2>/dev/null; do
        sleep 0.02
    done
}

# stop SIGNAL: ends `child` and sets `status`
stop()
{
    kill -"$1" $child 2>/dev/null
    wait $child 2>/dev/null
    status=$?
}

rebalance()
{
    "$program" rebalance "$@" --timeout 60 >out 2>err
}

# last_step RUN: the last step of a run.
last_step()
{
    grep '"loss"' "$1/metrics.jsonl" | tail -n 1 | grep -oE '[0-9]+' | head -n 1
}

# numbers RUN: the results that a move must not change.
numbers()
{
    grep -v '"event"' "$1/metrics.jsonl" | grep -oE \
        '"(step|loss|eval_loss)": [^,}]*|"grad_norm": ([^],]*|\[[^]]*\])'
}

# check_numbers WHAT RUN WANT: RUN has the numbers of WANT, which has at least
# its steps
check_numbers()
{
    numbers "$2" >got
    numbers "$3" | head -n "$(wc -l <got)" >want
    [ -s got ] && cmp -s got want || note_failure "$1: other numbers"
}

# need_steps WANT STEPS OPTION...: makes an undisturbed run with at least STEPS
# steps
need_steps()
{
    local run=$1 steps=$2 where=--output

    shift 2
    [ ! -d "$run" ] || where=--resume
    [ $where = --output ] || [ "$(last_step "$run")" -lt "$steps" ] || return 0
    train $where "$run" --max-steps "$steps" "$@" >out 2>err ||
        note_failure "$run to step $steps"
}

# ---- Plans -----------------------------------------------------------------

# cut STAGES: a random partition of nine blocks
cut()
{
    local parts=() i

    for ((i = 0; i < $1; i++)); do parts[i]=1; done
    for ((i = $1; i < 9; i++)); do parts[RANDOM % $1]+=+1; done
    for ((i = 0; i < $1; i++)); do parts[i]=$((${parts[i]})); done
    (IFS=,; echo "${parts[*]}")
}

# random_plan: writes a random plan for a synchronous run, or a part of one, to
# plan.json. A part is for four stages.
parts=4
random_plan()
{
    local schedules=(1f1b gpipe zb-h1 zb-h2) chunked=(interleaved zb-v v-half)
    local ratios="$((RANDOM % 2)),0.5,$((RANDOM % 2)),0"

    case $((parts == 4 ? RANDOM % 4 : 2 + RANDOM % 2)) in
    0) echo "{\"partition\": [$(cut 4)]}" >plan.json ;;
    1) echo "{\"partition\": [$(cut 4)], \"recompute_ratio\": [$ratios]}" \
        >plan.json ;;
    2)
        parts=4
        echo "{\"version\": 1, \"schedule\": \"${schedules[RANDOM % 4]}\"," \
            "\"stages\": 4, \"partition\": [$(cut 4)]}" >plan.json
        ;;
    3)
        parts=8
        echo "{\"version\": 1, \"schedule\": \"${chunked[RANDOM % 3]}\"," \
            "\"stages\": 4, \"chunks\": 2, \"partition\": [$(cut 8)]}" >plan.json
        ;;
    esac
}

# move_often RUN NUMBER: applies random plans one after the other
move_often()
{
    local i

    for ((i = 0; i < $2; i++)); do
        random_plan
        rebalance "$1" plan.json ||
            note_failure "move $i of $1: $(cat plan.json)"
    done
}

# count_moves RUN: number of move events in metrics.jsonl
count_moves()
{
    grep -c '"event": "rebalance"' "$1/metrics.jsonl"
}

# check_moves RUN NUMBER: the run folder records all moves
check_moves()
{
    local n

    n=$(count_moves "$1")
    [ "$n" -eq "$2" ] || note_failure "$1: $n events of $2 moves"
    n=$(grep -c '"until_step"' "$1/plan.json")
    [ "$n" -eq "$2" ] || note_failure "$1: $n plans in the history of $2 moves"
    ! grep '"event": "rebalance"' "$1/metrics.jsonl" |
        grep -qE '"(loss|seconds)":' ||
        note_failure "$1: a move has a loss or the seconds of a step"
    [ "$(grep -c 'rebalance: new plan after' "$1/output.log.0")" -eq "$2" ] ||
        note_failure "$1: the log does not tell all moves"
}

# refuse STATUS TEXT RUN OPTION...: one line with TEXT, and this status
refuse()
{
    local want=$1 text=$2 status

    shift 2
    rebalance "$@"
    status=$?
    [ $status -eq "$want" ] || note_failure "$*: status $status, not $want"
    [ "$(wc -l <err)" -eq 1 ] && grep -qF -- "$text" err ||
        note_failure "$*: not one line with '$text'"
}

# goes_on RUN: the run makes another step
goes_on()
{
    local step

    step=$(last_step "$1")
    for ((k = 0; k < 500; k++)); do
        [ "$(last_step "$1")" -le "$step" ] || return 0
        sleep 0.02
    done
    note_failure "$1 does not go on"
}

# ---- Moves with ranks as threads -------------------------------------------

check_local_moves()
{
    start moved "${bsp[@]}"
    move_often moved "$moves"
    rebalance moved --undo || note_failure "undo"
    stop TERM
    [ $status -eq 3 ] || note_failure "moved: status $status"
    check_moves moved $((moves + 1))
    need_steps alone "$(last_step moved)" "${bsp[@]}"
    check_numbers "moved" moved alone
}

# check_plan WHAT PARTITION HISTORY: checks plan.json of the resumed run
check_plan()
{
    grep -qxF "    \"partition\": [$2]," resumed/plan.json ||
        note_failure "$1: another partition than $2"
    [ "$(grep -c '"until_step"' resumed/plan.json)" -eq "$3" ] ||
        note_failure "$1: not $3 plans in the history"
}

# resume_more OPTION...: resumes for a few more steps
resume_more()
{
    train --resume resumed --max-steps $(($(last_step resumed) + 3)) \
        "${bsp[@]}" "$@" >out 2>err || note_failure "resumed $*: $(cat err)"
}

# A resumed run keeps its last plan unless the options say otherwise.
check_resumed()
{
    echo '{"partition": [2, 3, 2, 2]}' >plan.json
    start resumed "${bsp[@]}"
    rebalance resumed plan.json || note_failure "resumed: $(cat err)"
    stop TERM
    resume_more
    check_plan kept '2, 3, 2, 2' 1
    grep -q 'plan.json is kept, which the run moved to after step' \
        resumed/output.log.0 || note_failure "the log does not say which plan"
    resume_more --set 'partition=[3,3,2,1]'
    check_plan given '3, 3, 2, 1' 2
    resume_more
    check_plan configured '3, 2, 2, 2' 3
    need_steps alone "$(last_step resumed)" "${bsp[@]}"
    check_numbers "resumed" resumed alone
}

# A plan without replicas replaces one with replicas: the replicas become
# stages.
check_replicas()
{
    start replicas "${bsp[@]}" --set 'partition=[5,4]' --set 'replicas=[2,1]'
    echo '{"version": 1, "schedule": "1f1b", "stages": 3,
        "partition": [3, 3, 3]}' >three.json
    rebalance replicas three.json ||
        note_failure "three stages in place of replicas: $(cat err)"
    rebalance replicas --undo || note_failure "replicas again: $(cat err)"
    goes_on replicas
    stop TERM
}

# rebalance --auto uses measured times: a bad partition is repaired, a good one
# is kept.
check_auto()
{
    local n

    start auto "${bsp[@]}" --set 'partition=[6,1,1,1]'
    refuse 2 "the run has its first plan; there is nothing to undo" auto --undo
    rebalance auto --auto || note_failure "--auto"
    grep -q "asked for: auto" out || note_failure "--auto does not say so"
    n=$(grep '"event": "rebalance"' auto/metrics.jsonl |
        grep -oE '"partition": \[[0-9]+' | grep -oE '[0-9]+$')
    [ "${n:-9}" -lt 6 ] || note_failure "--auto leaves $n blocks on stage 0"
    rebalance auto --undo || note_failure "--undo of --auto"
    grep -q '"partition": \[6, 1, 1, 1\]' auto/metrics.jsonl ||
        note_failure "--undo does not bring the first plan back"
    stop TERM
    need_steps alone "$(last_step auto)" "${bsp[@]}"
    check_numbers "auto" auto alone
}

# ---- Refusals --------------------------------------------------------------

check_refusals()
{
    local waiting

    start stays "${bsp[@]}"
    echo '{"partition": [3, 2, 2, 3]}' >blocks.json
    echo '{"partition": [3, 3, 3]}' >cut.json
    echo '{"version": 1, "schedule": "1f1b", "stages": 3,
        "partition": [3, 3, 3]}' >ranks.json
    echo '{"version": 1, "schedule": "pipedream", "stages": 4,
        "partition": [3, 2, 2, 2]}' >async.json
    echo '{"version": 1, "schedule": "1f1b", "stages": 4,
        "partition": [3, 2, 2, 2], "accumulation_steps": 8}' >steps.json
    echo '{"partition": [3, 2, 2' >broken.json
    refuse 2 "10 blocks" stays blocks.json
    refuse 2 "partition: 3 stages, the plan in force has 4" stays cut.json
    refuse 2 "the run has 4 ranks, the plan 3" stays ranks.json
    refuse 2 "schedule pipedream is asynchronous" stays async.json
    refuse 2 "4 minibatches make an update of this run, not 8" stays steps.json
    refuse 2 "broken.json" stays broken.json
    refuse 1 "missing.json" stays missing.json
    refuse 2 "give one of PLAN.json, --auto and --undo" stays
    goes_on stays
    [ "$(count_moves stays)" -eq 0 ] || note_failure "a refused plan was taken"

    # A request that is not valid UTF-8 is answered as well.
    printf '{"id": "cut", "kind": "a%s"}' "$(printf '\303\251%.0s' {1..30})" \
        >kind.json
    mv kind.json stays/rebalance.json
    for ((k = 0; k < 250; k++)); do
        ! grep -q '"cut"' stays/rebalance.reply.json 2>/dev/null || break
        sleep 0.02
    done
    grep -q "kind must be plan, auto or undo" stays/rebalance.reply.json ||
        note_failure "a refusal that was cut is not answered"

    # A request that times out does not remove the file of another request.
    kill -STOP $child
    "$program" rebalance stays --auto --timeout 1 >later.out 2>&1 &
    waiting=$!
    until [ -e stays/rebalance.json ]; do sleep 0.02; done
    echo '{"id": "another", "kind": "undo"}' >stays/rebalance.json
    wait $waiting
    [ -e stays/rebalance.json ] || note_failure "a request of another is gone"
    rm -f stays/rebalance.json

    # While one request waits in its file, a second one is refused at once.
    echo '{"partition": [2, 2, 2, 3]}' >later.json
    "$program" rebalance stays later.json --timeout 60 >later.out 2>&1 &
    waiting=$!
    until [ -e stays/rebalance.json ]; do sleep 0.02; done
    refuse 2 "another request waits" stays later.json
    kill -CONT $child
    wait $waiting || note_failure "a request that waited: $(cat later.out)"

    # The run ends before it reads the request.
    kill -STOP $child
    "$program" rebalance stays later.json --timeout 60 >later.out 2>&1 &
    waiting=$!
    until [ -e stays/rebalance.json ]; do sleep 0.02; done
    kill -TERM $child
    kill -CONT $child
    wait $waiting
    [ $? -ne 0 ] && [ "$(wc -l <later.out)" -eq 1 ] ||
        note_failure "asking a run that ends: $(cat later.out)"
    wait $child
    refuse 2 "no run is under way there" stays later.json
    [ ! -e stays/rebalance.json ] || note_failure "a request is left behind"
    need_steps alone "$(last_step stays)" "${bsp[@]}"
    check_numbers "refusals" stays alone
}

# ---- Kills -----------------------------------------------------------------

# move_until_end RUN: applies random plans until the run ends
move_until_end()
{
    while kill -0 $child 2>/dev/null; do
        random_plan
        rebalance "$1" plan.json
    done
}

# pause SECONDS: sleeps without starting a program.
exec {nothing}<> <(:)
pause()
{
    read -rt "$1" -u $nothing
}

# strike NUMBER SIGNAL: sends the signal at a random moment to a run that moves
# all the time. The resumed run has the numbers of an undisturbed one
strike()
{
    local run=struck$1 mover step

    start "$run" "${bsp[@]}"
    until [ -d "$run/checkpoints/step-7" ]; do pause 0.02; done
    move_until_end "$run" &
    mover=$!
    pause "0.$((RANDOM % 8))$((RANDOM % 10))"
    # Half of the signals arrive while a plan is prepared or applied.
    if ((RANDOM % 2)); then
        for ((k = 0; k < 500; k++)); do
            [ ! -e "$run/rebalance.json" ] || break
            pause 0.002
        done
        pause "0.0$((RANDOM % 10))$((RANDOM % 10))"
    fi
    stop "$2"
    wait $mover
    [ "$2" = KILL ] || [ $status -eq 3 ] ||
        note_failure "$run: status $status: $(cat "$run.err")"
    step=$(($(last_step "$run") + 9))
    n_struck=$((n_struck + $(count_moves "$run")))
    train --resume "$run" --max-steps $step "${bsp[@]}" >out 2>err ||
        note_failure "$run does not go on after $2"
    need_steps alone $step "${bsp[@]}"
    check_numbers "$run after $2" "$run" alone
    rm -rf "$run"
}

check_kills()
{
    local i

    n_struck=0
    for ((i = 0; i < kills; i++)); do
        strike $i KILL
        ((i % 2)) || strike $i TERM
    done
    echo "$kills kills, $(((kills + 1) / 2)) SIGTERMs, $n_struck moves"
}

# ---- Asynchronous runs -----------------------------------------------------

# A move equals stopping the run and resuming it with another partition.
check_asp()
{
    local at end

    start stream "${asp[@]}"
    echo '{"partition": [3, 2, 2, 2], "recompute_ratio": [1, 0, 0.5, 0]}' \
        >plan.json
    rebalance stream plan.json || note_failure "asp: recompute_ratio"
    echo '{"partition": [2, 2, 2, 3]}' >plan.json
    rebalance stream plan.json || note_failure "asp: partition"
    at=$(grep '"event": "rebalance"' stream/metrics.jsonl | tail -n 1 |
        grep -oE '[0-9]+' | head -n 1)
    goes_on stream
    stop TERM
    end=$(last_step stream)
    train --output parts "${asp[@]}" --max-steps "$at" >out 2>err ||
        note_failure "asp: the first part"
    train --resume parts "${asp[@]}" --set 'partition=[2,2,2,3]' \
        --max-steps "$end" >out 2>err || note_failure "asp: the second part"
    check_numbers "asp" stream parts
    [ "$end" -gt "$at" ] || note_failure "asp: no step after the move"
}

# check_asp_back RUN: blocks move to later stages and back to earlier ones,
# which use older weights; no version is missing. A run that ends before a
# requested move ends normally and reports it.
check_asp_back()
{
    local run=$1 i

    start "$run" "${asp[@]}"
    for i in 2,2,2,3 3,2,2,2 1,1,1,6 6,1,1,1; do
        echo "{\"partition\": [$i]}" >plan.json
        rebalance "$run" plan.json || note_failure "$run: [$i]: $(cat err)"
    done
    [ "$(grep '"event": "rebalance"' "$run/metrics.jsonl" |
        grep -c '"exact": true')" -eq 4 ] ||
        note_failure "$run: versions of weights were missing"
    goes_on "$run"
    "$program" rebalance "$run" --undo --timeout 60 >later.out 2>&1 &
    if [ -n "${ranks:-}" ]; then # mpirun would end all ranks at once
        kill -TERM "$(rank_of "$run" 0)"
        wait $child
        status=$?
    else
        stop TERM
    fi
    [ $status -eq 3 ] || note_failure "$run: status $status: $(cat "$run.err")"
    wait
    [ "$(wc -l <later.out)" -eq 1 ] ||
        note_failure "$run: asked at its end: $(cat later.out)"
}

# ---- Moves with ranks as processes -----------------------------------------

# rank_of RUN RANK: process id of a rank
rank_of()
{
    local pid

    for pid in $(pgrep -f -- "--output $1( |\$)"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] || continue
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
            grep -qxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$2" && echo "$pid" &&
            return
    done
}

# One process has less memory than the others and refuses: no process moves.
check_one_refusal()
{
    local run=$folder/limited parts=() r

    for r in 0 1 2 3; do
        parts+=(${parts[0]:+:} -n 1 "$program" train model.yml --quiet
            --output "$run" "${bsp[@]}")
        [ $r -ne 2 ] || parts+=(--set memory_limit=2M)
    done
    env ASAN_OPTIONS=detect_leaks=0 "${mpirun[@]}" "${parts[@]}" \
        >"$run.out" 2>"$run.err" </dev/null &
    child=$!
    until_true 60 "the start" has_steps "$run" 1
    echo '{"partition": [2, 2, 2, 3]}' >plan.json
    refuse 2 "another process cannot use the plan" "$run" plan.json
    grep -q "set rebalance_headroom to" "$run.err" ||
        note_failure "limited: nothing is said about the cause"
    goes_on "$run"
    [ "$(count_moves "$run")" -eq 0 ] || note_failure "limited: moved"
    stop TERM
    need_steps alone "$(last_step "$run")" "${bsp[@]}"
    check_numbers "limited" "$run" alone
}

check_processes()
{
    local ranks=4 mover pid run=$folder/remote

    start "$run" "${bsp[@]}"
    move_often "$run" "$moves"
    echo '{"version": 1, "schedule": "1f1b", "stages": 4,
        "partition": [3, 2, 2, 3]}' >blocks.json
    refuse 2 "10 blocks" "$run" blocks.json
    goes_on "$run"
    rebalance "$run" --undo || note_failure "processes: undo"
    check_moves "$run" $((moves + 1))

    # A rank is killed during the moves.
    move_until_end "$run" &
    mover=$!
    pause "0.$((RANDOM % 8))$((RANDOM % 10))"
    pid=$(rank_of "$run" $((1 + RANDOM % 3)))
    kill -KILL "$pid"
    wait $child
    [ $? -ne 0 ] || note_failure "processes: status 0 after a kill"
    wait $mover
    grep -q "rank [0-9]* on host .* is dead" "$run.err" ||
        note_failure "processes: nothing is said about the killed rank"
    ranks=
    train --resume "$run" --max-steps $(($(last_step "$run") + 9)) \
        "${bsp[@]}" >out 2>err || note_failure "processes: does not go on"
    need_steps alone "$(last_step "$run")" "${bsp[@]}"
    check_numbers "processes" "$run" alone
}

check_local_moves
check_resumed
check_replicas
check_auto
check_refusals
check_kills
check_asp
check_asp_back back
if [ ${#mpirun[@]} -gt 0 ]; then
    check_processes
    ranks=4 check_asp_back "$folder/remote_back"
    check_one_refusal
fi
echo "$moves moves in each run, $failures failures"
[ $failures -eq 0 ]
