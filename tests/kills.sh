#!/bin/bash
# Ranks that are killed or stopped at random moments: the right one is named,
# nothing is left behind, and the losses are those of an unbroken run.
#   tests/kills.sh PROGRAM [TRIALS [SEED]]
# A trial is one of eight kinds: SIGKILL or SIGSTOP, bsp or asp, 2 or 4 ranks;
# half of them go on by --restarts, half by --resume. TRIALS of all kinds
# together [6]; with VP_FULL=1 50 of each kind.
set -u

program=$(realpath "${1:?usage: tests/kills.sh PROGRAM [TRIALS [SEED]]}")
trials=${2:-6}
[ -z "${VP_FULL:-}" ] || trials=400
RANDOM=${3:-1}
. "$(dirname "$0")/cluster_lib.sh"
need mpirun
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

cat >model.yml <<'END'
model_type: bert
vocab: 264
layers: 4
hidden: 16
heads: 2
seq_length: 16
batch_size: 4
threads_per_stage: 1
synthetic_data: true
device: cpu
tie_embeddings: false
checkpoint_every: 10
watchdog_seconds: 6
END
missed=0

# settings MODE RANKS: into `sets` and `steps`
settings() {
    sets=(--set "sync_mode=$1" --set "stages=$2")
    steps=240
    if [ "$1" = bsp ]; then
        sets+=(--set accumulation_steps=4)
        steps=80
    fi
    sets+=(--set "total_steps=$steps")
}

# trace_of RUN: steps, minibatches and losses, to the last bit
trace_of() {
    cut -d, -f1-4 "$1/metrics.jsonl"
}

# find_rank RUN RANK: its process id
find_rank() {
    local pid
    for pid in $(pgrep -f -- "--output $1|--resume $1"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] || continue
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$pid" && return
    done
}

# strike RUN RANK SIGNAL: when a random step was done, and a random moment
# later, down to the rank's first action; false if the run was over
strike() {
    local pid target=$((RANDOM % (steps * 9 / 10)))
    for _ in $(seq 1500); do
        [ -s "$1/actions.$2" ] &&
            [ "$(cat "$1/metrics.jsonl" 2>/dev/null | wc -l)" -ge $target ] &&
            break
        sleep 0.02
    done
    sleep "0.0$((RANDOM % 90 + 10))"
    pid=$(find_rank "$1" "$2")
    [ -n "$pid" ] && kill -"$3" "$pid" 2>/dev/null
}

# check_ended RUN: no process is left
check_ended() {
    local left
    left=$(pgrep -f -- "--output $1|--resume $1")
    [ -z "$left" ] || note_failure "left behind: $left"
}

# trial NUMBER SIGNAL MODE RANKS RESTARTS
trial() {
    local run=run$1 signal=$2 mode=$3 ranks=$4 restarts=$5 rank state want=1
    local child status struck=1
    rank=$((RANDOM % ranks))
    settings "$mode" "$ranks"
    state=dead
    [ "$signal" = KILL ] || state=stopped
    [ "$restarts" -eq 0 ] || want=0
    "$program" train model.yml "${sets[@]}" --set distributed_backend=mpi \
        --quiet --output "$run" --restarts "$restarts" >out 2>err &
    child=$!
    strike "$run" "$rank" "$signal" || struck=0
    wait $child
    status=$?
    check_ended "$run"
    if [ "$struck" -eq 0 ] || ! [ -s err ]; then
        missed=$((missed + 1)) # over before it was hit
    else
        [ $status -eq $want ] || note_failure "status $status, not $want"
        grep -q "^rank $rank on host .* is $state" err ||
            note_failure "rank $rank was not called $state"
        grep -q "last seen in [^ ]*, stage [0-9]*, minibatch [0-9]*" err ||
            grep -q "last seen in [a-z]" err ||
            note_failure "nothing is said of its work"
        if [ "$restarts" -eq 0 ]; then
            "$program" train model.yml "${sets[@]}" --set \
                distributed_backend=mpi --quiet --resume "$run" >out 2>err ||
                again "$run" || note_failure "does not go on"
        fi
    fi
    trace_of "$run" | cmp -s - "$mode$ranks.losses" ||
        note_failure "trial $1: $signal $mode $ranks: other losses"
    rm -rf "$run"
}

# A run that was never saved starts anew.
again() {
    grep -q "holds no checkpoint" err || return 1
    rm -rf "$1"
    "$program" train model.yml "${sets[@]}" --set distributed_backend=mpi \
        --quiet --output "$1" >out 2>err
}

# The unbroken runs, in one process.
for mode in bsp asp; do
    for ranks in 2 4; do
        settings $mode $ranks
        "$program" train model.yml "${sets[@]}" --quiet \
            --output "$mode$ranks" >out 2>err || note_failure "$mode, $ranks stages"
        trace_of "$mode$ranks" >"$mode$ranks.losses"
    done
done

signals=(KILL STOP)
modes=(bsp asp)
for ((i = 0; i < trials; i++)); do
    trial $i "${signals[i % 2]}" "${modes[i / 2 % 2]}" \
        $((2 + 2 * ((i + i / 4) % 2))) $((i / 3 % 2))
done
echo "$trials trials, $missed too late, $failures failures"
[ $failures -eq 0 ]
