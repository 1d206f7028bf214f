#!/bin/bash
# Jobs that are struck at random moments: the right rank is named, nothing is left
# behind, and the losses are those of an unbroken run.
#   tests/system/kills.sh PROGRAM TOOLS [TRIALS [SEED]]
# TOOLS is the folder of libbadfiles.so and flood. The strikes:
#
#   KILL STOP    a rank gets the signal; the job names it, and goes on by
#                --restarts or --resume
#   FREEZE       all processes of the job are stopped for longer than its
#                watchdog allows, and continued: nothing happens
#   FLOOD        strangers connect to the supervisor while the job starts: nothing
#                happens
#   HIDE FLIP    a job is resumed, and one rank does not see the newest
#                checkpoint, or finds it damaged: all go on from the same one
#   FAIL HANG    one rank gets an I/O error from a file of that checkpoint, or
#                waits for it without end: all stop, and the next try goes on
#
# Each in bsp and asp, with 2 and 4 ranks, started by vpipe or by mpirun. TRIALS
# of all kinds together [8]; with VP_FULL=1 400. A strike that finds the run over
# does not count: the trial is made again.
set -u

program=$(realpath "${1:?usage: tests/system/kills.sh PROGRAM TOOLS [TRIALS [SEED]]}")
tools=$(realpath "${2:?usage: tests/system/kills.sh PROGRAM TOOLS [TRIALS [SEED]]}")
trials=${3:-8}
[ -z "${VP_FULL:-}" ] || trials=400
RANDOM=${4:-1}
. "$(dirname "$0")/cluster_lib.sh"
need mpirun
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
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
watchdog_seconds: 10
END
limit=120 # seconds, for a run that is struck or goes on
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

# train OPTION...: ranks as processes
train() {
    timeout -k 10 $limit "$program" train model.yml "${sets[@]}" \
        --set distributed_backend=mpi --quiet "$@" </dev/null
}

# train_by_mpirun RANKS OPTION...
train_by_mpirun() {
    timeout -k 10 $limit mpirun --oversubscribe --allow-run-as-root \
        --mca mpi_yield_when_idle 1 -n "$1" \
        "$program" train model.yml "${sets[@]}" --quiet "${@:2}" </dev/null
}

# start RUN RANKS HOW: until it ends
start() {
    case $3 in
    restarts) train --output "$1" --restarts 1 ;;
    resume) train --output "$1" ;;
    mpirun) train_by_mpirun "$2" --output "$1" ;;
    esac
}

# trace_of RUN: steps, minibatches and losses, to the last bit
trace_of() {
    grep -v '"event": "forecast"' "$1/metrics.jsonl" | cut -d, -f1-4
}

# processes_of RUN
processes_of() {
    pgrep -f -- "--(output|resume) $1(/checkpoints/[a-z0-9.-]*)?( |\$)"
}

# find_rank RUN RANK: its process id
find_rank() {
    local pid
    for pid in $(processes_of "$1"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] || continue
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$pid" && return
    done
}

# Sleeps without starting a program: on a busy machine that may take as long
# as a whole run.
exec {nothing}<> <(:)
pause() {
    read -rt "$1" -u $nothing
}

# has_steps_done RUN STEPS
has_steps_done() {
    local lines=()
    [ ! -s "$1/metrics.jsonl" ] || mapfile -t lines <"$1/metrics.jsonl"
    [ ${#lines[@]} -ge "$2" ]
}

# strike RUN RANK SIGNAL: when a random step was done, and a random moment
# later, down to the rank's first action; false if the run was over
strike() {
    local pid='' target=$((RANDOM % (steps * 9 / 10)))
    for ((k = 0; k < 3000; k++)); do
        [ -n "$pid" ] || ! [ -s "$1/actions.$2" ] || pid=$(find_rank "$1" "$2")
        [ -n "$pid" ] && has_steps_done "$1" $target && break
        kill -0 $child 2>/dev/null || return
        pause 0.01
    done
    pause "0.0$((RANDOM % 90 + 10))"
    [ -n "$pid" ] && kill -"$3" "$pid" 2>/dev/null
}

# What a run that went wrong leaves to be read.
show_run() {
    local file pid
    for file in err.struck out err "$1/command_history.log" "$1"/*.txt; do
        [ ! -s "$file" ] || { echo "-- $file"; cat "$file"; }
    done
    ls -l "$1" "$1/checkpoints"
    for pid in $(processes_of "$1"); do
        ps -o pid,ppid,stat,etime,wchan:20,args -L -p "$pid"
    done
}

# What is left of a run; who looks after ranks that mpirun started has a moment
# more than it.
find_left() {
    for ((k = 0; k < 100; k++)); do
        [ "$2" = mpirun ] && [ -n "$(processes_of "$1")" ] || break
        pause 0.1
    done
    processes_of "$1"
}

# was_over RUN STATUS HOW: all ranks had said that they were done; mpirun may
# speak of one that was killed then, and has its own status
was_over() {
    [ -e "$1/checkpoints/step-$steps/manifest.json" ] &&
        { [ "$2" -eq 0 ] || [ "$3" = mpirun ]; } &&
        ! grep -q '^rank ' err.struck
}

# check_run STATUS SIGNAL RANK HOW: how the struck run ended
check_run() {
    local state=dead
    [ "$2" = KILL ] || state=stopped
    case $4:$1 in
    restarts:0 | resume:1) ;;
    mpirun:0 | restarts:* | resume:*) wrong+=("status $1") ;;
    esac
    grep -q "^rank $3 on host .* is $state" err.struck ||
        wrong+=("rank $3 was not called $state")
    grep -q "last seen in [^ ]*, stage [0-9]*, minibatch [0-9]*" err.struck ||
        grep -q "last seen in [a-z]" err.struck ||
        wrong+=("nothing is said of its work")
}

# complain TRIAL: shows what went wrong
complain() {
    [ ${#wrong[@]} -gt 0 ] || return
    failures=$((failures + 1))
    echo "FAILED: $1:$(printf ' %s;' "${wrong[@]}")"
    show_run "$run"
}

check_losses() {
    trace_of "$run" | cmp -s - "$mode$ranks.losses" || wrong+=("other losses")
}

check_left() {
    local left
    left=$(find_left "$run" "$how")
    [ -z "$left" ] || wrong+=("left behind: $left")
}

# Nothing is said, but what mpirun itself says of SIGCONT.
check_silence() {
    local said
    said=$(grep -v '^mpirun: Forwarding signal' err.struck)
    [ -z "$said" ] || wrong+=("something is said: ${said:0:300}")
}

# One rank gets a signal.
strike_rank() {
    local child status
    start "$run" "$ranks" "$how" >out.struck 2>err.struck &
    child=$!
    strike "$run" "$rank" "$kind" || struck=0
    wait $child
    status=$?
    check_left
    if was_over "$run" $status "$how"; then
        struck=0
        return
    fi
    check_run $status "$kind" "$rank" "$how"
    [ "$how" = restarts ] || train --resume "$run" >out 2>err ||
        again "$run" || wrong+=("does not go on")
}

# stop_all RUN: into `pids`. mpirun may start ranks meanwhile: until a look finds
# no new process.
stop_all() {
    local found
    pids=
    while found=$(processes_of "$1" | shuf --random-source=model.yml) &&
        [ "$(sort <<<"$found")" != "$(sort <<<"$pids")" ]; do
        pids=$found
        # shellcheck disable=SC2086 # words
        kill -STOP $pids 2>/dev/null
    done
    [ -n "$pids" ]
}

# All processes stop and go on; supervisor and ranks in a random order.
strike_all() {
    local child pids
    sets+=(--set watchdog_seconds=3)
    start "$run" "$ranks" "$how" >out.struck 2>err.struck &
    child=$!
    for ((k = 0; k < 3000; k++)); do
        has_steps_done "$run" $((RANDOM % (steps / 2))) && break
        pause 0.01
    done
    stop_all "$run" || struck=0
    pause 4.5
    # shellcheck disable=SC2086
    kill -CONT $pids 2>/dev/null
    wait $child || wrong+=("status $?")
    check_silence
    check_left
}

# Strangers connect from the first moment on.
strike_door() {
    local stranger
    "$tools/flood" "$program" "$run" 30 >flood.out &
    stranger=$!
    start "$run" "$ranks" "$how" >out.struck 2>err.struck ||
        wrong+=("status $?")
    wait $stranger
    read -r n _ <flood.out
    [ "$n" -gt 0 ] || struck=0
    check_silence
    check_left
}

# A job is resumed by mpirun, and one rank has a bad file system.
strike_files() {
    local parts=() r status half=$((11 + RANDOM % (steps - 20))) sooner=()
    # The run does not come to this step again: a rank that still reads it wrongly
    # would rightly stop when it reads it back.
    [ $((half % 10)) -ne 0 ] || half=$((half + 1))
    train --output "$run" --max-steps $half >out 2>err ||
        wrong+=("the first half: status $?")
    for ((r = 0; r < ranks; r++)); do
        [ $r -eq 0 ] || parts+=(:)
        parts+=(-n 1)
        [ $r -ne "$rank" ] || parts+=(-x "LD_PRELOAD=$tools/libbadfiles.so"
            -x "BADFILES_$kind=step-$half")
        parts+=("$program" train model.yml "${sets[@]}" --quiet --resume "$run")
    done
    # A rank that hangs is named after a minute, or after this many seconds.
    [ -n "${VP_FULL:-}" ] || [ $kind != HANG ] ||
        sooner=(env VPIPE_LEAST_SECONDS=20)
    "${sooner[@]}" timeout -k 10 $limit mpirun --oversubscribe \
        --allow-run-as-root --mca mpi_yield_when_idle 1 "${parts[@]}" \
        >out.struck 2>err.struck </dev/null
    status=$?
    how=mpirun check_left
    case $kind in
    HIDE | FLIP) [ $status -eq 0 ] || wrong+=("status $status") ;;
    FAIL | HANG)
        [ $status -ne 0 ] || wrong+=("status 0")
        [ $status -lt 124 ] || wrong+=("it did not end by itself")
        check_stop
        train --resume "$run" >out 2>err || wrong+=("does not go on")
        ;;
    esac
}

# What is said of a rank that cannot read.
check_stop() {
    grep -q "step-$half" err.struck || wrong+=("the file is not named")
    if [ "$kind" = FAIL ]; then
        grep -q "Input/output error" err.struck || wrong+=("no cause")
    else
        grep -q "^rank $rank on host " err.struck ||
            wrong+=("rank $rank is not named")
    fi
}

# trial NUMBER KIND MODE RANKS HOW: false if the strike came too late
trial() {
    local run=$folder/run$1 kind=$2 mode=$3 ranks=$4 how=$5 rank struck=1
    local wrong=()
    rank=$((RANDOM % ranks))
    settings "$mode" "$ranks"
    rm -f out err out.struck err.struck
    case $kind in
    KILL | STOP) strike_rank ;;
    FREEZE) strike_all ;;
    FLOOD) strike_door ;;
    *) strike_files ;;
    esac
    check_losses
    complain "trial $1: $kind $mode $ranks ranks, rank $rank, $how"
    rm -rf "$run"
    [ $struck -eq 1 ]
}

# A run that was never saved starts anew.
again() {
    grep -q "holds no checkpoint" err || return 1
    rm -rf "$1"
    train --output "$1" >out 2>err
}

# The unbroken runs, in one process.
for mode in bsp asp; do
    for ranks in 2 4; do
        settings $mode $ranks
        "$program" train model.yml "${sets[@]}" --quiet \
            --output "$mode$ranks" >out 2>err ||
            note_failure "$mode, $ranks stages"
        trace_of "$mode$ranks" >"$mode$ranks.losses"
    done
done

kinds=(KILL STOP FREEZE HIDE FLOOD FAIL HANG FLIP)
modes=(bsp asp)
hows=(resume restarts mpirun restarts)
for ((i = 0; i < trials && missed <= trials; )); do
    j=$((i / ${#kinds[@]}))
    trial $i "${kinds[i % ${#kinds[@]}]}" "${modes[(i + j) % 2]}" \
        $((2 + 2 * ((i + j / 2) % 2))) "${hows[(i + j) % 4]}" &&
        i=$((i + 1)) || missed=$((missed + 1))
done
[ $i -eq "$trials" ] || note_failure "too many strikes came too late"
echo "$i trials, $failures failures; $missed more strikes came too late"
[ $failures -eq 0 ]
