#!/bin/bash
# File operations that hang before the first step, during training and at the end: the
# rank, its phase and the file are named within the limit, and no process is left. Slow
# files do not fail a run.
#   tests/system/hang.sh PROGRAM TOOLS
# TOOLS is the folder of libbadfiles.so.
set -u

program=$(realpath "${1:?usage: tests/system/hang.sh PROGRAM TOOLS}")
shim=$(realpath "${2:?usage: tests/system/hang.sh PROGRAM TOOLS}")/libbadfiles.so
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
hidden: 32
heads: 2
seq_length: 32
batch_size: 4
threads_per_stage: 1
data_dir: text
stages: 2
accumulation_steps: 4
total_steps: 20
checkpoint_every: 10
watchdog_seconds: 5
END
mkdir text
for ((i = 0; i < 3000; i++)); do
    echo "line $i of a text that is long enough to be cut into batches"
done >text/a.txt
export VPIPE_LEAST_SECONDS=6 # instead of a minute or more
by_vpipe=("$program" train model.yml --set distributed_backend=mpi)
by_mpirun=(mpirun --oversubscribe --allow-run-as-root -n 2 "${by_vpipe[@]}")

# wrong RUN WHAT: stores a failure for the end, because tests run in parallel
wrong() {
    { echo "FAILED: $1: $2"; head -c 2000 "$1.out" "$1.err"; } >>wrong.txt
}

# hangs STATUS RUN TEXT COMMAND...: runs the command with libbadfiles.so. TEXT
# is an extended regular expression for a line of stderr
hangs() {
    local want=$1 run=$2 text=$3 got
    shift 3
    LD_PRELOAD=$shim timeout -k 5 60 "$@" --quiet --output "$folder/$run" \
        >"$run.out" 2>"$run.err" </dev/null
    got=$?
    [ $got -eq "$want" ] || wrong "$run" "status $got, not $want"
    [ -z "$text" ] || grep -qE -- "$text" "$run.err" || wrong "$run" "no '$text'"
    for _ in $(seq 100); do
        pgrep -f -- "--output $folder/$run( |\$)" >/dev/null || return
        sleep 0.1
    done
    wrong "$run" "left behind: $(pgrep -f -- "--output $folder/$run( |\$)")"
}

# ---- Before the first step --------------------------------------------------
threads_data() {
    BADFILES_HANG=text/a.txt hangs 1 threads_data \
        '^no progress for .* s: reading data, opening text/a.txt for ' \
        "$program" train model.yml
}

threads_checkpoint() {
    BADFILES_HANG_READ=step-20/block hangs 1 threads_checkpoint \
        '^no progress for .*, reading .*/step-20/block-.* for ' \
        "$program" train model.yml --set total_steps=30 --resume saved
}

rehearsal() {
    BADFILES_HANG=text/a.txt hangs 1 rehearsal \
        '^no progress for .* s: reading data, opening text/a.txt for ' \
        "${by_vpipe[@]}"
}

data() {
    BADFILES_RANK=0 BADFILES_HANG=text/a.txt hangs 1 data \
        '^rank 0 on host .* is stuck: opening text/a.txt for .* reading data' \
        "${by_vpipe[@]}"
}

checkpoint() {
    BADFILES_RANK=1 BADFILES_HANG=step-20/block hangs 1 checkpoint \
        '^rank 1 on host .* is stuck: opening saved/.*/step-20/block-' \
        "${by_vpipe[@]}" --set total_steps=30 --resume saved
}

run_folder() {
    BADFILES_RANK=0 BADFILES_HANG=run_folder/ hangs 1 run_folder \
        '^rank 0 on host .* is stuck for .* making the run folder, .*/run_folder' \
        "${by_vpipe[@]}"
}

guarded() {
    BADFILES_RANK=1 BADFILES_HANG=step-20/block hangs 1 guarded \
        '^rank 1 on host .* is stuck: opening saved/.*/step-20/block-' \
        "${by_mpirun[@]}" --set total_steps=30 --resume saved
}

# ---- A checkpoint that cannot be written ------------------------------------
write() {
    BADFILES_RANK=1 BADFILES_HANG_WRITE=step-10.tmp hangs 1 write \
        'rank 1 on host .* is stuck: writing .*/step-10.tmp/block-.* for ' \
        "${by_vpipe[@]}" --set total_steps=2000
}

slow_write() {
    BADFILES_RANK=1 BADFILES_HANG_WRITE=step-10.tmp BADFILES_MS=2500 \
        hangs 1 slow_write \
        'rank 1 on host .* is slow: it still reads or writes files' \
        "${by_vpipe[@]}" --set total_steps=2000
}

last_sync() {
    BADFILES_RANK=1 BADFILES_HANG_SYNC=step-20.tmp hangs 1 last_sync \
        '^rank 1 on host .* is stuck: syncing .*/step-20.tmp/block-.* for ' \
        "${by_vpipe[@]}"
}

threads_last_sync() {
    BADFILES_HANG_SYNC=step-20.tmp hangs 1 threads_last_sync \
        '^no progress for .* s: saving, syncing .*/step-20.tmp/' \
        "$program" train model.yml
}

# ---- Slow files -------------------------------------------------------------
# Longer than the limit in total, shorter for each file.
slow_start() {
    BADFILES_HANG_READ=step-20/block BADFILES_MS=1000 BADFILES_TIMES=10 \
        hangs 0 slow_start '' \
        "$program" train model.yml --set total_steps=30 --resume saved
    same_losses slow_start longer >/dev/null || wrong slow_start 'other losses'
}

# A file that only shows the run's state does not delay a step.
shown() {
    BADFILES_HANG=status.json hangs 0 shown \
        '/status.json: the file system does not answer; the last state' \
        "$program" train model.yml
    same_losses shown saved >/dev/null || wrong shown 'other losses'
}

slow_rank() {
    BADFILES_RANK=1 BADFILES_HANG_READ=step-20/block BADFILES_MS=1000 \
        BADFILES_TIMES=10 hangs 0 slow_rank '' \
        "${by_vpipe[@]}" --set total_steps=30 --resume saved
}

"$program" train model.yml --quiet --output saved >out 2>err ||
    fail 'the run to go on from'
"$program" train model.yml --set total_steps=30 --quiet --resume saved \
    --output longer >out 2>err || fail 'a run that goes on'
# The tests wait most of the time, so they run in parallel.
for test in threads_data threads_checkpoint rehearsal data checkpoint \
    run_folder guarded; do
    $test &
done
wait
for test in write slow_write last_sync threads_last_sync slow_start slow_rank \
    shown; do
    $test &
done
wait
[ ! -e wrong.txt ] || { cat wrong.txt; exit 1; }
echo 'all were named'
