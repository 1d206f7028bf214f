#!/bin/bash
# Jobs are frozen for longer than watchdog_seconds and continued: by SIGSTOP and
# SIGCONT, all processes at once or one after the other, and by Ctrl-Z in a terminal.
# They end normally, with the losses of an uninterrupted run.
#   tests/system/freeze.sh PROGRAM CTRL_Z
set -u

program=$(realpath "${1:?usage: tests/system/freeze.sh PROGRAM CTRL_Z}")
ctrl_z=$(realpath "${2:?usage: tests/system/freeze.sh PROGRAM CTRL_Z}")
. "$(dirname "$0")/cluster_lib.sh"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1

cat >model.yml <<'END'
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
stages: 2
accumulation_steps: 4
total_steps: 120
checkpoint_every: 20
watchdog_seconds: 3
END
seconds=4 # longer than watchdog_seconds
mpi=(--set distributed_backend=mpi)

# Without MPI only threads are tested.
has_mpi() {
    command -v mpirun >/dev/null &&
        [ -e "$(dirname "$program")/libvpipe_mpi.so" ]
}

# processes_of RUN: processes of the job, in the order in which they were
# started
processes_of() {
    pgrep -f -- "--output $folder/$1( |\$)"
}

# start RUN COMMAND...: starts a run and returns after some steps
start() {
    local run=$1
    shift
    timeout 120 "$@" --quiet --output "$folder/$run" \
        >"$run.out" 2>"$run.err" </dev/null &
    child=$!
    for _ in $(seq 600); do
        [ "$(wc -l 2>/dev/null <"$run/metrics.jsonl" || echo 0)" -ge 5 ] && return
        sleep 0.05
    done
}

# wrong RUN WHAT: stores a failure for the end, because tests run in parallel
wrong() {
    { echo "$1: $2"; head -c 2000 "$1.out" "$1.err"; } >>wrong.txt
}

# ended RUN: the run ended normally with the expected losses, and no process is
# left
ended() {
    local run=$1 status
    wait $child
    status=$?
    check "$run" $status
}

check() {
    local run=$1 status=$2
    [ "$status" -eq 0 ] || wrong "$run" "status $status"
    same_losses "$run" unbroken >/dev/null || wrong "$run" 'other losses'
    for _ in $(seq 50); do
        [ -z "$(processes_of "$run")" ] && return
        sleep 0.1
    done
    wrong "$run" "left behind: $(processes_of "$run")"
}

# freeze RUN PAUSE [tac]: SIGSTOP to all processes, PAUSE seconds apart, then
# SIGCONT. With `tac` ranks come first and their supervisor last.
freeze() {
    local pids signal
    pids=$(processes_of "$1" | ${3:-cat})
    for signal in STOP CONT; do
        for pid in $pids; do
            [ "$(ps -o comm= -p "$pid")" != timeout ] || continue
            # Ranks may have ended before the last one is continued.
            kill -$signal "$pid" 2>/dev/null || [ $signal = CONT ] ||
                wrong "$1" "no process $pid"
            sleep "$2"
        done
        [ $signal = CONT ] || sleep $seconds
    done
}

by_vpipe=("$program" train model.yml "${mpi[@]}")
by_mpirun=(mpirun --oversubscribe --allow-run-as-root -n 2
    "$program" train model.yml "${mpi[@]}")

# ---- SIGSTOP ----------------------------------------------------------------
threads() {
    start threads "$program" train model.yml
    freeze threads 0
    ended threads
}

all_at_once() {
    start once "${by_vpipe[@]}" --set sync_mode=bsp
    freeze once 0
    ended once
}

# The ranks lose their supervisor first, or the supervisor loses them first.
one_by_one() {
    start forth "${by_vpipe[@]}"
    freeze forth 0.25
    ended forth
    start back "${by_vpipe[@]}"
    freeze back 0.25 tac
    ended back
}

# Ranks connect while their supervisor is stopped: they wait for it.
before_the_ranks() {
    local pid
    timeout 120 "${by_vpipe[@]}" --quiet --output "$folder/early" \
        >early.out 2>early.err </dev/null &
    child=$!
    until pid=$(pgrep -P $child vpipe) && pgrep -P "$pid" >/dev/null; do
        kill -0 $child 2>/dev/null || break
        sleep 0.01
    done
    kill -STOP "$pid"
    sleep $seconds
    kill -CONT "$pid"
    ended early
    [ ! -s early.err ] || wrong early 'something is said'
}

# The supervisor is a child of rank 0.
under_mpirun() {
    start guarded "${by_mpirun[@]}"
    freeze guarded 0.1
    ended guarded
}

# ---- SIGTSTP ----------------------------------------------------------------
# Open MPI stops all ranks on SIGTSTP, but their supervisor goes on.
paused_by_mpirun() {
    local pid
    mpirun --version 2>&1 | grep -q 'Open MPI) 4' || return
    start paused "${by_mpirun[@]}"
    pid=$(pgrep -P $child mpirun)
    kill -TSTP "$pid"
    sleep $seconds
    ps -o stat= -p "$(pgrep -P "$pid" | head -1)" | grep -q T ||
        wrong paused 'the first rank was not stopped'
    kill -CONT "$pid"
    ended paused
}

# typed RUN OPTION...: Ctrl-Z in a terminal, then fg
typed() {
    local run=$1
    shift
    timeout 120 "$ctrl_z" $seconds "$run/metrics.jsonl" 5 \
        "$program" train model.yml "$@" --quiet --output "$folder/$run" \
        >"$run.out" 2>"$run.err" </dev/null
    check "$run" $?
}

"$program" train model.yml --quiet --output unbroken >out 2>err ||
    fail 'the unbroken run'
tests='threads'
! has_mpi || tests='threads all_at_once one_by_one
    before_the_ranks under_mpirun paused_by_mpirun'
# The tests sleep most of the time, so they run in parallel.
for test in $tests; do
    $test &
done
wait
typed typed_threads &
! has_mpi || typed typed_ranks "${mpi[@]}" &
wait
has_mpi || echo 'not tried, needs MPI: ranks as processes'
[ ! -e wrong.txt ] || { cat wrong.txt; exit 1; }
echo 'all went on'
