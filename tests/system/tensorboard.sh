#!/bin/bash
# TensorBoard reads the event files of runs that were killed and resumed.
#   tests/system/tensorboard.sh PROGRAM
# PYTHON names a Python with tensorboard; exits with 77 without one.
set -u

program=$(realpath "${1:?usage: tests/system/tensorboard.sh PROGRAM}")
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
python=${PYTHON:-python3}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

if ! "$python" -c 'import tensorboard' 2>/dev/null; then
    echo "SKIPPED: tensorboard: $python has no tensorboard; set PYTHON"
    exit 77
fi

cat >small.yml <<'EOF'
model_type: bert
vocab: 264
hidden: 16
layers: 2
heads: 2
positions: 16
seq_length: 16
batch_size: 4
stages: 2
checkpoint_every: 10
eval_every: 20
device: cpu
tensorboard: true
EOF

for mode in bsp asp; do
    # The run is slow enough to be killed between two checkpoints.
    "$program" train small.yml --quiet --output $mode --set sync_mode=$mode \
        --set total_steps=100000 >log 2>&1 &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        sleep 0.05
        [ -e $mode/checkpoints/step-20 ] && break
    done
    sleep 1.5 # records are written once a second
    kill -KILL $pid
    wait $pid 2>/dev/null
    steps=$(wc -l <$mode/metrics.jsonl)
    "$program" train small.yml --quiet --resume $mode --set sync_mode=$mode \
        --max-steps $((steps + 50)) --set total_steps=100000 >log 2>&1 ||
        { cat log; exit 1; }
    "$python" "$here/../golden/check_tensorboard.py" $mode >log 2>&1 ||
        { tail -5 log; echo "FAILED: $mode"; exit 1; }
    tail -1 log
done
echo 'tensorboard.sh: event files are as metrics.jsonl'
