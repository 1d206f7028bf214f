#!/bin/bash
# Faults hit jobs at random moments: the right rank is named, no process is left, and
# the losses equal those of an uninterrupted run.
#   tests/system/kills.sh PROGRAM TOOLS [TRIALS [SEED]]
# TOOLS is the folder of libbadfiles.so and flood. The faults ("strikes"):
#
#   KILL STOP    a rank gets the signal; the job names it, and goes on by
#                --restarts or --resume
#   FREEZE       all processes of the job are stopped for longer than its
#                watchdog allows, and continued: the job is not affected
#   FLOOD        clients without the token connect to the supervisor while the job
#                starts: the job is not affected
#   HIDE FLIP    a job is resumed, and one rank does not see the newest
#                checkpoint, or finds it damaged: all ranks use the same one
#   FAIL HANG    one rank gets an I/O error from a file of that checkpoint, or
#                its read never returns: all ranks stop, and the next try goes on
#
# Each in bsp and asp, with 2 and 4 ranks, started by vpipe or by mpirun. TRIALS is
# the number of all trials [8]; with VP_FULL=1 400. A strike after the end of the
# run does not count: the trial is repeated.
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
limit=120 # seconds for a run that is struck or resumed
missed=0

# settings MODE RANKS: stores the options in `sets`, the last step in `steps`
settings() {
    sets=(--set "sync_mode=$1" --set "stages=$2")
    steps=240
    if [ "$1" = bsp ]; then
        sets+=(--set accumulation_steps=4)
        steps=80
    fi
    sets+=(--set "total_steps=$steps")
}

# train OPTION...: trains with ranks as processes
train() {
    timeout -k 10 $limit "$program" train model.yml "${sets[@]}" \
        --set distributed_backend=mpi --quiet "$@" </dev/null
}

# train_by_mpirun RANKS OPTION...: the same, started by mpirun
train_by_mpirun() {
    timeout -k 10 $limit mpirun --oversubscribe --allow-run-as-root \
        --mca mpi_yield_when_idle 1 -n "$1" \
        "$program" train model.yml "${sets[@]}" --quiet "${@:2}" </dev/null
}

# start RUN RANKS HOW: starts the run and waits for its end
start() {
    case $3 in
    restarts) train --output "$1" --restarts 1 ;;
    resume) train --output "$1" ;;
    mpirun) train_by_mpirun "$2" --output "$1" ;;
    esac
}

# trace_of RUN: steps, minibatches and losses, with all digits
trace_of() {
    grep -v '"event": "forecast"' "$1/metrics.jsonl" | cut -d, -f1-4
}

# processes_of RUN: process ids of the job
processes_of() {
    pgrep -f -- "--(output|resume) $1(/checkpoints/[a-z0-9.-]*)?( |\$)"
}

# find_rank RUN RANK: process id of the rank
find_rank() {
    local pid
    for pid in $(processes_of "$1"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] || continue
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$pid" && return
    done
}

# pause SECONDS: sleeps without starting a program, because on a busy machine
# starting one may take as long as a whole run.
exec {nothing}<> <(:)
pause() {
    read -rt "$1" -u $nothing
}

# has_steps_done RUN STEPS: true if metrics.jsonl has STEPS lines
has_steps_done() {
    local lines=()
    [ ! -s "$1/metrics.jsonl" ] || mapfile -t lines <"$1/metrics.jsonl"
    [ ${#lines[@]} -ge "$2" ]
}

# strike RUN RANK SIGNAL: waits until a random step is done and a random moment
# longer, then sends the signal, as early as the rank's first action. Returns
# false if the run was over.
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

# show_run RUN: prints the files of a run that failed.
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

# find_left RUN HOW: processes that are left of a run. The supervisor of ranks
# that mpirun started may end a moment after mpirun.
find_left() {
    for ((k = 0; k < 100; k++)); do
        [ "$2" = mpirun ] && [ -n "$(processes_of "$1")" ] || break
        pause 0.1
    done
    processes_of "$1"
}

# was_over RUN STATUS HOW: true if all ranks had reported their end before the
# strike; mpirun may then report the killed rank with its own status
was_over() {
    [ -e "$1/checkpoints/step-$steps/manifest.json" ] &&
        { [ "$2" -eq 0 ] || [ "$3" = mpirun ]; } &&
        ! grep -q '^rank ' err.struck
}

# check_run STATUS SIGNAL RANK HOW: checks how the struck run ended
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

# complain TRIAL: prints the failures in `wrong`
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

# check_silence: stderr is empty except for mpirun's message about SIGCONT.
check_silence() {
    local said
    said=$(grep -v '^mpirun: Forwarding signal' err.struck)
    [ -z "$said" ] || wrong+=("something is said: ${said:0:300}")
}

# strike_rank: one rank gets a signal.
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

# stop_all RUN: stops all processes and stores them in `pids`. mpirun may start
# ranks meanwhile, so it repeats until no new process is found.
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

# strike_all: stops and continues all processes, supervisor and ranks in a
# random order.
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

# strike_door: clients without the token connect from the first moment on.
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

# strike_files: mpirun resumes a job in which one rank has a faulty file system.
strike_files() {
    local parts=() r status half=$((11 + RANDOM % (steps - 20))) sooner=()
    # The resumed run must not save this step again: a rank with the fault would
    # read it back wrongly and stop.
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
    # A rank that hangs is named after a minute, or after this number of
    # seconds.
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

# check_stop: the message about a rank that cannot read.
check_stop() {
    grep -q "step-$half" err.struck || wrong+=("the file is not named")
    if [ "$kind" = FAIL ]; then
        grep -q "Input/output error" err.struck || wrong+=("no cause")
    else
        grep -q "^rank $rank on host " err.struck ||
            wrong+=("rank $rank is not named")
    fi
}

# trial NUMBER KIND MODE RANKS HOW: returns false if the strike came too late
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

# again RUN: starts a run anew that has no checkpoint.
again() {
    grep -q "holds no checkpoint" err || return 1
    rm -rf "$1"
    train --output "$1" >out 2>err
}

# The uninterrupted runs, in one process.
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
