#!/bin/bash
# Tensor-parallel ranks as processes give the losses of ranks as threads, digit by
# digit. Checkpoints can be resumed with another mp_size, and with or without slices
# of rows. The original's placements can be planned. A killed or stopped member of a
# group is named.
#   tests/system/tensor.sh PROGRAM MPIRUN [OPTION...]
# VP_FULL=1 runs more of each part, and strikes 50 times.
set -u

program=$(realpath "${1:?usage: tests/system/tensor.sh PROGRAM MPIRUN [OPTION...]}")
shift
mpirun=("$@")
configs=$(realpath "$(dirname "$0")/../../configs")
. "$(dirname "$0")/cluster_lib.sh"
need "${mpirun[0]}"
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1
full=${VP_FULL:-}

cat >small.yml <<'YAML'
model_type: gpt2
device: cpu
precision: fp32
vocab: 263
hidden: 32
layers: 3
heads: 4
positions: 16
synthetic_data: true
seq_length: 16
batch_size: 2
optimizer: adamw
learning_rate: 0.001
total_steps: 100
grad_clip: 1.0
threads_per_stage: 1
checkpoint_every: 5
watchdog_seconds: 10
YAML

# train OUTPUT RANKS [OPTION...]: with RANKS 0 the ranks are threads.
train()
{
    local output=$1 n=$2 run=()

    shift 2
    [ "$n" = 0 ] || run=("${mpirun[@]}" -n "$n")
    timeout 120 ${run[@]+"${run[@]}"} "$program" train small.yml --quiet \
        --output "$output" "$@" >out 2>err </dev/null
}

# numbers RUN: the results that must not depend on processes or threads.
numbers()
{
    grep -v '"event"' "$1/metrics.jsonl" | grep -oE \
        '"(step|loss)": [^,}]*|"grad_norm": ([^],]*|\[[^]]*\])'
}

# same_files RUN RUN STEP: both checkpoints have bit-identical tensors
same_files()
{
    local file

    for file in "$1/checkpoints/step-$3"/*.safetensors; do
        cmp -s "$file" "$2/checkpoints/step-$3/${file##*/}" || return 1
    done
}

sets()
{
    local option

    options=()
    [[ " $* " = *" sync_mode=asp "* ]] || options=(--set accumulation_steps=4)
    for option in "$@"; do
        options+=(--set "$option")
    done
}

# compare RANKS SETTING...: compares threads with processes
compare()
{
    local n=$1

    shift
    rm -rf threads ranks
    sets "$@"
    train threads 0 "${options[@]}" --max-steps 6 || note_failure "threads: $*"
    train ranks "$n" "${options[@]}" --max-steps 6 ||
        note_failure "processes: $*"
    numbers threads >want
    numbers ranks >got
    [ -s want ] && cmp -s want got || note_failure "other numbers: $*"
    same_files threads ranks 6 || note_failure "other checkpoints: $*"
}

# ---- Transports -------------------------------------------------------------
compare 2 mp_size=2 hidden=128 # tables that are saved in several pieces
compare 4 mp_size=2 stages=2 tie_embeddings=true recompute_ratio=0.5
compare 4 mp_size=2 stages=2 sync_mode=asp
# 45 rows: the last slice of rows ends with padding.
compare 4 mp_size=4 sequence_parallel=true seq_length=15 batch_size=3
compare 4 mp_size=2 stages=2 sequence_parallel=true recompute_ratio=0.5
compare 4 mp_size=2 stages=2 model_type=bert optimizer=lamb
compare 4 mp_size=2 stages=1 'replicas=[2]' shard_optimizer=true optimizer=lamb
if [ -n "$full" ]; then
    compare 4 mp_size=4 model_type=bert
    compare 4 mp_size=2 'stages=1' 'replicas=[2]'
    compare 8 mp_size=2 stages=2 'replicas=[2,2]' schedule=gpipe
    compare 8 mp_size=4 stages=2 schedule=zb-h1
    compare 4 mp_size=2 stages=2 model_type=translation batch_size=64
    compare 4 mp_size=2 stages=2 precision=bf16
    compare 4 mp_size=4 sequence_parallel=true model_type=bert seq_length=15
    compare 4 mp_size=2 stages=2 sequence_parallel=true sync_mode=asp
    compare 8 mp_size=2 stages=2 'replicas=[2,2]' sequence_parallel=true
    compare 8 mp_size=4 stages=2 schedule=zb-h1 sequence_parallel=true
    compare 4 mp_size=2 stages=2 model_type=translation batch_size=64 \
        sequence_parallel=true
    compare 4 mp_size=2 stages=2 precision=bf16 sequence_parallel=true
    compare 6 mp_size=2 stages=2 'replicas=[1,2]' shard_optimizer=true \
        precision=bf16
fi

# ---- Checkpoints ------------------------------------------------------------
# Saved with one mp_size and resumed with another, a run gives the numbers of an
# uninterrupted run up to rounding; exports hold the same weights.
close_to()
{
    paste -d' ' <(numbers "$1" | grep loss) <(numbers "$2" | grep loss) |
        awk '{ d = $2 - $4; if (d < 0) d = -d; if (d > 1e-6 * $2) bad = 1; n++ }
             END { exit bad || n != 10 }'
}
sets mp_size=1
train one 0 "${options[@]}" --max-steps 10 || note_failure "mp_size 1"
sets mp_size=2
train two 0 "${options[@]}" --max-steps 5 || note_failure "mp_size 2"
"$program" export two exported >out 2>err || note_failure "export"
for n in 1 4 2; do
    rm -rf other
    cp -r two other
    timeout 120 "$program" train small.yml --quiet --set mp_size=$n \
        --set accumulation_steps=4 --resume other --max-steps 10 >out 2>err || note_failure "resume with $n"
    close_to one other || note_failure "other losses after a resume with $n"
    rm -rf again
    "$program" export two again >out 2>err || note_failure "export again"
    cmp -s exported/model.safetensors again/model.safetensors ||
        note_failure "another export"
done
# Saved with slices of rows and resumed without, and the reverse.
sets mp_size=2 sequence_parallel=true
train sliced 0 "${options[@]}" --max-steps 5 || note_failure "slices"
for pair in 'sliced false' 'two true' 'sliced true'; do
    read -r from with <<<"$pair"
    rm -rf crossed
    cp -r "$from" crossed
    sets mp_size=2 sequence_parallel="$with"
    timeout 120 "$program" train small.yml --quiet "${options[@]}" \
        --resume crossed --max-steps 10 >out 2>err ||
        note_failure "resume of $from, sequence_parallel $with"
    close_to one crossed || note_failure "other losses: $from, then $with"
done
train straight 0 "${options[@]}" --max-steps 10 || note_failure "slices, whole"
numbers straight >want
numbers crossed >got
cmp -s want got || note_failure "a resumed run of slices has other numbers"

sets mp_size=2
train whole 0 "${options[@]}" --max-steps 10 || note_failure "mp_size 2, whole"
numbers whole >want
numbers other >got
cmp -s want got || note_failure "a resumed run of groups has other numbers"

# ---- mp_size: auto ----------------------------------------------------------
# Chosen by the rates of a profile before the first step; kept when resumed.
echo '{"device": "test", "memory_bytes": 11060000000, "peak_tflops_fp32": 0.01,
"copy_gb_per_s": 616, "efficiency_of_products_by_rows": [[128, 1.0]],
"microseconds_per_kernel": 0.001,
"links_gb_per_s": {"same_host": 0.1, "between_hosts": 0.1}}' >profile.json
sets mp_size=auto stages=2 auto_plan=true vocab=4000 tie_embeddings=false \
    profile=profile.json
train chosen 2 "${options[@]}" --max-steps 3 || note_failure "mp_size auto"
for want in '"tensor_parallel": 2' '"forecast"'; do
    grep -q "$want" chosen/plan.json || note_failure "plan.json without $want"
done
grep -qx 'mp_size: 2' chosen/config.yml || note_failure "config.yml: mp_size"
timeout 120 "$program" train small.yml --quiet "${options[@]}" --resume chosen \
    --max-steps 6 >out 2>err || note_failure "resume of mp_size auto"
grep -qx 'mp_size: 2' chosen/config.yml || note_failure "mp_size is not kept"
sets mp_size=2 vocab=4000 tie_embeddings=false
train given 0 "${options[@]}" --max-steps 6 || note_failure "mp_size 2, given"
numbers given >want
numbers chosen >got
cmp -s want got || note_failure "a size that was chosen gives other numbers"

# ---- The original's placements ----------------------------------------------
plans=0
for place in "$configs"/cpm/*/*conf.json; do
    for plan in "${place%/*}"/{gpipe,pipedream,vpipe,gpipe_dp}.json; do
        [ -e "$plan" ] || continue
        module=${plan%/*}
        module=${module##*/}
        plans=$((plans + 1))
        cat >plan.yml <<YAML
model_type: cpm
module: ${module/medium_dp/medium_4}
config_file: $place
partition: $plan
synthetic_data: true
sync_mode: asp
tie_embeddings: false
optimizer: adam
seq_length: 64
batch_size: 1
device: cpu
YAML
        [ $plans -le 3 ] || [ -n "$full" ] || [[ $place = *large*/mp_conf* ]] ||
            continue
        timeout 120 "$program" train plan.yml --dry-run >out 2>err ||
            note_failure "dry run of ${place#"$configs"/} with ${plan##*/}"
    done
done
[ $plans -ge 14 ] || note_failure "only $plans placements and plans"
for twin in "$configs"/cpm_large_{4,8}mp_tiny.yml; do
    timeout 120 "$program" train "$twin" --quiet --max-steps 3 --set device=cpu \
        --output "$(basename "$twin" .yml)" >out 2>err || note_failure "$twin"
done

# ---- Lost members -----------------------------------------------------------
processes_of()
{
    pgrep -f -- "--(output|resume) $1(/checkpoints/[a-z0-9.-]*)?( |\$)"
}

find_rank()
{
    local pid

    for pid in $(processes_of "$1"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] || continue
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$2" && echo "$pid" && return
    done
}

has_steps()
{
    [ -s "$1/metrics.jsonl" ] && [ "$(wc -l <"$1/metrics.jsonl")" -ge "$2" ]
}

# strike RANK SIGNAL: sends the signal to a rank of two groups of two; the run
# is then resumed
strike()
{
    local struck=struck child pid state=dead

    [ "$2" = KILL ] || state=stopped
    rm -rf $struck
    sets mp_size=2 stages=2 distributed_backend=mpi total_steps=60
    timeout -k 10 120 "$program" train small.yml "${options[@]}" --quiet \
        --output $struck >out 2>err </dev/null &
    child=$!
    for ((k = 0; k < 600; k++)); do
        has_steps $struck $((8 + RANDOM % 20)) && break
        sleep 0.05
    done
    pid=$(find_rank $struck "$1")
    [ -n "$pid" ] && kill -"$2" "$pid" 2>/dev/null
    wait $child && note_failure "$2 of rank $1: the run did not fail"
    grep -q "^rank $1 on host .* is $state" err ||
        note_failure "$2 of rank $1: it is not named"
    for ((k = 0; k < 100; k++)); do
        [ -n "$(processes_of $struck)" ] || break
        sleep 0.1
    done
    [ -z "$(processes_of $struck)" ] || note_failure "$2 of rank $1: left behind"
    timeout -k 10 120 "$program" train small.yml "${options[@]}" --quiet \
        --resume $struck >out 2>err </dev/null || note_failure "does not go on"
    numbers $struck | cmp -s - unbroken || note_failure "other losses: $2 of $1"
}

sets mp_size=2 stages=2 total_steps=60
train unbroken.run 0 "${options[@]}" || note_failure "unbroken"
numbers unbroken.run >unbroken
if [ -n "$full" ]; then
    for ((trial = 0; trial < 50; trial++)); do
        strike $((RANDOM % 4)) "$([ $((RANDOM % 2)) = 0 ] && echo KILL ||
            echo STOP)"
    done
else
    strike 1 KILL
    strike 2 STOP
fi

[ $failures = 0 ] || exit 1
echo "OK: tensor"
