#!/bin/bash
# Ranks as processes give the losses of ranks as threads, digit by digit.
#   tests/system/mpi.sh PROGRAM MPIRUN [OPTION...]
# Runs a fixed sample of the configurations below; SEED=2 selects another one. With
# VP_FULL=1 all of them, and 200 short runs in a row.
set -u

program=${1:?usage: tests/system/mpi.sh PROGRAM MPIRUN [OPTION...]}
shift
mpirun=("$@")
. "$(dirname "$0")/cluster_lib.sh"
need "${mpirun[0]}"
every=${VP_FULL:+1}
every=${every:-14}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
n_cases=0
n_runs=0

cat >"$folder/small.yml" <<'YAML'
model_type: bert
device: cpu
vocab: 264
hidden: 16
layers: 8
heads: 2
positions: 16
synthetic_data: true
seq_length: 16
batch_size: 2
optimizer: adamw
learning_rate: 0.001
total_steps: 100
threads_per_stage: 1
watchdog_seconds: 60
YAML

# train OUTPUT RANKS [OPTION...]: with RANKS 0 the ranks are threads. Resumes if
# OUTPUT holds a run.
train()
{
    local output=$folder/$1 n=$2 run=() where=--output

    shift 2
    [ "$n" = 0 ] || run=("${mpirun[@]}" -n "$n")
    [ ! -d "$output" ] || where=--resume
    timeout 120 ${run[@]+"${run[@]}"} "$program" train "$folder/small.yml" \
        --quiet "$where" "$output" "$@" >"$folder/log" 2>&1 </dev/null
}

# numbers RUN: the results that must not depend on processes or threads.
numbers()
{
    grep -v '"event": "forecast"' "$folder/$1/metrics.jsonl" | grep -oE \
        '"(step|loss|eval_loss)": [^,}]*|"grad_norm": ([^],]*|\[[^]]*\])'
}

same()
{
    numbers "$1" >"$folder/want"
    numbers "$2" >"$folder/got"
    [ -s "$folder/want" ] && cmp -s "$folder/want" "$folder/got"
}

# compare RANKS [OPTION...]: compares every 14th configuration, or all.
compare()
{
    n_cases=$((n_cases + 1))
    [[ $(((n_cases + ${SEED:-0}) % every)) = 0 ]] || return 0
    n_runs=$((n_runs + 1))
    rm -rf "$folder/threads" "$folder/ranks"
    train threads 0 "${@:2}" || note_failure "threads: $*: $(cat "$folder/log")"
    train ranks "$@" || note_failure "processes: $*: $(cat "$folder/log")"
    same threads ranks || note_failure "other numbers: $*"
}

# set_all SETTING...: sets `options`; groups are short unless a setting says
# otherwise.
set_all()
{
    local option

    options=()
    [[ " $* " != *" sync_mode=bsp "* ]] || options=(--set accumulation_steps=4)
    for option in "$@"; do
        options+=(--set "$option")
    done
}

# ---- Configurations --------------------------------------------------------
for n in 2 3 4 8; do
    for schedule in 1f1b gpipe zb-h1; do
        for ratio in 0 0.5 1; do
            for tied in true false; do
                set_all stages=$n sync_mode=bsp schedule=$schedule \
                    recompute_ratio=$ratio tie_embeddings=$tied
                compare $n "${options[@]}" --max-steps 4
            done
        done
    done
    for schedule in interleaved zb-v v-half auto; do
        for tied in true false; do
            set_all stages=$n chunks=2 sync_mode=bsp schedule=$schedule \
                accumulation_steps=$n tie_embeddings=$tied
            compare $n "${options[@]}" --max-steps 4
        done
    done
    for macrobatch in true false; do
        set_all stages=$n sync_mode=asp macrobatch=$macrobatch \
            tie_embeddings=false
        compare $n "${options[@]}" --max-steps 20
    done
done
for replicas in 2,1 1,2 2,2 3,1 1,3 2,3 1,2,1 3,1,2 4,4; do
    n=$((${replicas//,/ + }))
    list=${replicas//,/}
    for mode in bsp asp; do
        for n_mb in 4 5; do
            set_all stages=${#list} "replicas=[$replicas]" sync_mode=$mode \
                tie_embeddings=$([ $mode = bsp ] && echo true || echo false)
            [ $mode = asp ] || options+=(--set accumulation_steps=$n_mb)
            compare $n "${options[@]}" --max-steps 6
        done
    done
done
for schedule in interleaved v-half; do
    for n_mb in 1 5; do
        set_all stages=2 'replicas=[2,2]' chunks=2 sync_mode=bsp \
            schedule=$schedule tie_embeddings=true accumulation_steps=$n_mb
        compare 4 "${options[@]}" --max-steps 4
    done
done
for mode in bsp asp; do
    for every_other in eval_every=2 eval_every=3; do
        set_all stages=3 sync_mode=$mode $every_other eval_batches=3 \
            checkpoint_every=2 keep_checkpoints=2 tie_embeddings=false
        compare 3 "${options[@]}" --max-steps 7
    done
done
set_all stages=2 'replicas=[3,2]' sync_mode=bsp checkpoint_every=1 eval_every=2
compare 5 "${options[@]}" --max-steps 4
echo '{"module_to_stage_map": [0, 1, 1],
       "stage_to_rank_map": {"0": [2, 1], "1": [0]}}' >"$folder/placement.json"
for mode in bsp asp; do
    set_all stages=2 "config_file=$folder/placement.json" sync_mode=$mode \
        tie_embeddings=false checkpoint_every=2
    compare 3 "${options[@]}" --max-steps 5
done
echo '{"module_to_stage_map": [0, 1, 1],
       "stage_to_rank_map": {"0": [1, 0], "1": [2]}}' >"$folder/other.json"
set_all stages=2 "config_file=$folder/other.json" sync_mode=asp \
    tie_embeddings=false checkpoint_every=2
compare 3 "${options[@]}" --max-steps 9
set_all stages=4 'partition=[3,7,1,6]' sync_mode=bsp grad_clip=0.01
compare 4 "${options[@]}" --max-steps 4
set_all model_type=gpt2 stages=3 sync_mode=bsp
compare 3 "${options[@]}" --max-steps 4
set_all model_type=translation layers=3 stages=4 sync_mode=bsp batch_size=64
compare 4 "${options[@]}" --max-steps 4

# Always tested: rings that are longer than the receiver's slots.
for depths in 6,0 300,0; do
    set_all stages=2 sync_mode=asp tie_embeddings=false "warmup_depths=[$depths]"
    every=1 compare 2 "${options[@]}" --max-steps 20
done

# MPI decides the order of additions: the losses are nearly the same.
rm -rf "$folder/threads" "$folder/ranks"
set_all stages=2 'replicas=[1,3]' sync_mode=bsp
train threads 0 "${options[@]}" --max-steps 4 && train ranks 4 \
    "${options[@]}" --set reduce=fast --max-steps 4 ||
    note_failure "reduce: fast: $(cat "$folder/log")"
n_runs=$((n_runs + 1))
paste <(numbers threads | grep -v step) <(numbers ranks | grep -v step) |
    awk '{ d = $2 / $4 - 1; bad += d > 1e-4 || d < -1e-4 }
         END { exit bad > 0 || NR != 8 }' ||
    note_failure "reduce: fast: $(numbers threads) $(numbers ranks)"

# ---- Reported times --------------------------------------------------------
# Times include the last update, in which the last stage waits for the first.
n_runs=$((n_runs + 1))
timeout 120 "${mpirun[@]}" -n 2 "$program" train "$folder/small.yml" \
    --set stages=2 --set accumulation_steps=4 --max-steps 1 \
    --output "$folder/once" >"$folder/log" 2>&1 </dev/null
awk '$1 == "stage" && $6 == "wait" { table = 1 }
     table && $1 == 1 { seen = $10 > 0 }
     END { exit !seen }' "$folder/log" ||
    note_failure "no wait in the last update: $(cat "$folder/log")"

# ---- Compressed messages ---------------------------------------------------
# bytes RUN: bytes of all messages, as the stages report them.
bytes()
{
    cat "$folder/$1"/output.log.* |
        awk '/^communication: / { n += $(NF - 1) } END { print n + 0 }'
}

# compressed RANKS [OPTION...]: threads and processes round in the same way, and
# send little more than half the bytes, because integers are not compressed.
compressed()
{
    local plain

    rm -rf "$folder/threads" "$folder/ranks" "$folder/plain"
    set_all verbose=[communication] verbose_frequency=4 "${@:2}"
    train plain "$1" "${options[@]}" --max-steps 4 ||
        note_failure "uncompressed: $*: $(cat "$folder/log")"
    options+=(--set compress_activations=true)
    train threads 0 "${options[@]}" --max-steps 4 &&
        train ranks "$1" "${options[@]}" --max-steps 4 ||
        note_failure "compressed: $*: $(cat "$folder/log")"
    n_runs=$((n_runs + 2))
    same threads ranks || note_failure "other numbers, compressed: $*"
    ! same plain ranks || note_failure "not compressed: $*"
    plain=$(bytes plain)
    [ "$(bytes threads)" = "$(bytes ranks)" ] &&
        [ $(($(bytes ranks) * 10)) -ge $((plain * 4)) ] &&
        [ $(($(bytes ranks) * 10)) -le $((plain * 6)) ] ||
        note_failure "$(bytes ranks) bytes instead of $plain: $*"
}
compressed 3 stages=3 sync_mode=bsp schedule=zb-v chunks=2 accumulation_steps=3
compressed 4 stages=3 'replicas=[1,2,1]' sync_mode=asp tie_embeddings=false
[ -z "${VP_FULL:-}" ] || {
    compressed 4 stages=4 sync_mode=bsp recompute_ratio=0.5
    compressed 3 model_type=translation layers=3 stages=3 sync_mode=bsp \
        batch_size=64
    compressed 5 stages=2 'replicas=[2,3]' sync_mode=bsp
    compressed 4 stages=4 sync_mode=asp macrobatch=true tie_embeddings=false
}

# ---- bf16 ------------------------------------------------------------------
# two_bytes RANKS [OPTION...]: the same with bf16, whose messages have two bytes
# per element. A part of the run is on several ranks, the rest on one.
two_bytes()
{
    rm -rf "$folder/threads" "$folder/ranks"
    set_all precision=bf16 checkpoint_every=2 "${@:2}"
    train threads 0 "${options[@]}" --max-steps 4 &&
        train ranks "$1" "${options[@]}" --max-steps 2 &&
        train ranks 0 "${options[@]}" --set stages=1 --max-steps 4 ||
        note_failure "bf16: $*: $(cat "$folder/log")"
    n_runs=$((n_runs + 2))
    same threads ranks || note_failure "other numbers in bf16: $*"
}
two_bytes 3 stages=3 sync_mode=bsp schedule=zb-h1 recompute_ratio=0.5

# Ranks whose instruction sets round matrix products differently do not start.
rm -rf "$folder/ranks"
timeout 120 "${mpirun[@]}" -n 2 bash -c 'rank=$OMPI_COMM_WORLD_RANK
    [ "${rank:-$PMI_RANK}" = 0 ] || export VPIPE_ISA=plain
    exec "$@"' bash "$program" train "$folder/small.yml" --quiet \
    --output "$folder/ranks" --set stages=2 --set precision=bf16 --max-steps 2 \
    >"$folder/log" 2>&1 </dev/null &&
    note_failure 'ranks of two instruction sets have trained'
grep -q 'the instruction set (see VPIPE_ISA) is plain on rank 1 (host .*; start' \
    "$folder/log" || note_failure "two instruction sets: $(cat "$folder/log")"

# ---- Shards of the optimizer's state ---------------------------------------
# same_state RUN RUN STEP: weights, moments and versions are equal, file by
# file.
same_state()
{
    local file n=0

    for file in "$folder/$1/checkpoints/step-$3"/*.safetensors; do
        cmp -s "$file" "$folder/$2/checkpoints/step-$3/${file##*/}" || return 1
        n=$((n + 1))
    done
    [ $n -gt 4 ]
}

# sliced RANKS STEPS [OPTION...]: replicas with shards, as processes, give the
# numbers and the checkpoints of replicas without. One half of the run has
# shards, the other has none, in both orders.
sliced()
{
    local n=$1 steps=$2 first=true second=false swap

    set_all checkpoint_every="$((steps / 2))" keep_checkpoints=9 "${@:3}"
    rm -rf "$folder/threads"
    train threads 0 "${options[@]}" --max-steps "$steps" ||
        note_failure "without slices: $*: $(cat "$folder/log")"
    for swap in 1 2; do
        rm -rf "$folder/ranks"
        train ranks "$n" "${options[@]}" --set shard_optimizer=$first \
            --max-steps "$((steps / 2))" &&
            train ranks "$n" "${options[@]}" --set shard_optimizer=$second \
                --max-steps "$steps" ||
            note_failure "slices: $*: $(cat "$folder/log")"
        n_runs=$((n_runs + 1))
        same threads ranks || note_failure "other numbers, slices $first: $*"
        same_state threads ranks "$((steps / 2))" &&
            same_state threads ranks "$steps" ||
            note_failure "another state, slices $first: $*"
        first=false second=true
    done
}
sliced 5 4 stages=2 'replicas=[2,3]' sync_mode=bsp optimizer=lamb grad_clip=0.1 \
    tie_embeddings=true vocab=5000
sliced 4 12 stages=2 'replicas=[3,1]' sync_mode=asp tie_embeddings=false
[ -z "${VP_FULL:-}" ] || {
    sliced 4 4 stages=2 'replicas=[2,2]' chunks=2 schedule=interleaved \
        sync_mode=bsp precision=bf16 optimizer=adam
    sliced 3 4 stages=1 'replicas=[3]' sync_mode=bsp precision=bf16 \
        optimizer=lamb vocab=5000
    sliced 4 16 stages=2 'replicas=[2,2]' sync_mode=asp macrobatch=true \
        tie_embeddings=false precision=bf16 optimizer=sgd
    sliced 4 4 stages=1 'replicas=[4]' sync_mode=bsp reduce=exact \
        accumulation_steps=3 eval_every=1
}

# With reduce: fast the sums are the same with and without shards.
rm -rf "$folder/threads" "$folder/ranks"
set_all stages=1 'replicas=[2]' sync_mode=bsp reduce=fast
train threads 2 "${options[@]}" --max-steps 3 && train ranks 2 \
    "${options[@]}" --set shard_optimizer=true --max-steps 3 ||
    note_failure "reduce: fast, slices: $(cat "$folder/log")"
n_runs=$((n_runs + 1))
same threads ranks || note_failure "other numbers: reduce: fast, slices"

# With precision: auto the ranks agree on a precision that is fast on all of
# them, and the run reports it. Rank 0 prefers bf16 on some machines.
agree()
{
    timeout 120 "${mpirun[@]}" -n 2 bash -c 'rank=$OMPI_COMM_WORLD_RANK
        [ "${rank:-$PMI_RANK}" = 0 ] || export VPIPE_ISA='"$1"'
        exec "$@"' bash "$program" train "$folder/small.yml" --quiet \
        --output "$folder/ranks" --set stages=2 --set precision=auto \
        --max-steps "$3" "${@:4}" >"$folder/log" 2>&1 </dev/null ||
        note_failure "precision auto with $1: $(cat "$folder/log")"
    grep -q "^precision: $2\$" "$folder/ranks/config.yml" &&
        grep -q "\"precision\": \"$2\"" \
            "$folder/ranks/checkpoints/step-$3/manifest.json" ||
        note_failure "precision auto with $1 is not $2"
    n_runs=$((n_runs + 1))
}
rm -rf "$folder/ranks"
agree plain fp32 2
# A resumed run keeps its precision, even if all ranks now prefer another.
best=$("$program" info | sed -n 's/^products .*, by \([a-z0-9_]*\)$/\1/p')
agree "$best" fp32 3 --resume "$folder/ranks"
rm -rf "$folder/ranks"
if [ "$best" = amx_bf16 ]; then
    agree "$best" bf16 2
    agree "$best" bf16 3 --resume "$folder/ranks"
    rm -rf "$folder/ranks"
    agree avx512_bf16 fp32 2
fi

# ---- Resuming --------------------------------------------------------------
# goes_on MODE RANKS...: each number of ranks resumes the run of the one before.
goes_on()
{
    local mode=$1 step=0 n

    shift
    rm -rf "$folder/whole" "$folder/parts"
    set_all sync_mode="$mode" tie_embeddings=false checkpoint_every=2
    train whole 0 --set stages="$1" "${options[@]}" --max-steps $((3 * $#)) ||
        note_failure "whole: $(cat "$folder/log")"
    for n in "$@"; do
        step=$((step + 3))
        n_runs=$((n_runs + 1))
        train parts "$n" --set stages="$n" "${options[@]}" --max-steps $step ||
            note_failure "$mode to step $step on $n: $(cat "$folder/log")"
    done
    same whole parts || note_failure "not as if it had never stopped: $mode $*"
    # Drawn twice: soon after the last resume, and at the end.
    "$program" trace "$folder/parts" >"$folder/log" 2>&1 ||
        note_failure "trace: $mode $*: $(cat "$folder/log")"
}
goes_on bsp 2 4 3
goes_on asp 2 2

# epochs MODE LAST MORE STEP...: a checkpoint is written at the end of every
# epoch of 4 minibatches, up to step LAST, and after resuming up to MORE, where
# the run ends.
epochs()
{
    local mode=$1 last=$2 more=$3 found

    shift 3
    n_runs=$((n_runs + 1))
    rm -rf "$folder/epochs"
    set_all stages=3 sync_mode="$mode" tie_embeddings=false num_minibatches=4 \
        checkpoint_every=epoch keep_checkpoints=9
    train epochs 3 "${options[@]}" --max-steps "$last" &&
        train epochs 3 "${options[@]}" --max-steps "$more" ||
        note_failure "epochs, $mode: $(cat "$folder/log")"
    found=$(cd "$folder/epochs/checkpoints" && echo step-*)
    [ "$found" = "$*" ] || note_failure "epochs, $mode: $found, not $*"
}
epochs bsp 1 3 step-1 step-2 step-3
epochs asp 5 9 step-4 step-5 step-8 step-9

# ---- Data ------------------------------------------------------------------
# files RANKS READERS [OPTION...]: the first READERS ranks, those of stage
# 0, read files; the others, which have none, learn the size of the data by messages.
files()
{
    local n=$1 first=$2 text options i run=()

    shift 2
    text=$(cd "$(dirname "$0")/../../docs" && pwd)
    options=(train "$folder/small.yml" --quiet --output "$folder/apart"
        --set synthetic_data=false --set eval_every=2 --max-steps 4 "$@")
    n_runs=$((n_runs + 1))
    rm -rf "$folder/files" "$folder/apart"
    train files 0 "${options[@]:5}" --set data_dir="$text" ||
        note_failure "files: $(cat "$folder/log")"
    for ((i = 0; i < n; i++)); do
        [ $i = 0 ] || run+=(:)
        run+=(-n 1 "$program" "${options[@]}" --set
            data_dir="$([ $i -lt "$first" ] && echo "$text" || echo /nowhere)")
    done
    timeout 120 "${mpirun[@]}" "${run[@]}" >"$folder/log" 2>&1 </dev/null ||
        note_failure "files of the first stage: $*: $(cat "$folder/log")"
    same files apart || note_failure "other numbers with files: $*"
}
files 3 1 --set stages=3 --set sync_mode=bsp --set accumulation_steps=4
files 3 2 --set stages=2 --set 'replicas=[2,1]' --set sync_mode=asp \
    --set tie_embeddings=false

# ---- Refusals --------------------------------------------------------------
# refuse STATUS TEXT RANKS [OPTION...]: one process prints one line.
refuse()
{
    local want=$1 text=$2

    shift 2
    rm -rf "$folder/bad"
    train bad "$@"
    [ $? = "$want" ] || note_failure "exit status is not $want: $*"
    [ "$(grep -cF -- "$text" "$folder/log")" = 1 ] ||
        note_failure "not one line '$text': $*: $(cat "$folder/log")"
}
refuse 2 '3 processes were started, but the pipeline has 2 ranks; start 2' \
    3 --set stages=2
refuse 2 'memory_limit is' 2 --set stages=2 --set memory_limit=1000
refuse 2 'unknown key' 2 --set stage=2
refuse 2 '/nowhere' 3 --set stages=3 --set synthetic_data=false \
    --set data_dir=/nowhere
refuse 1 'non-finite' 2 --set stages=2 --set sync_mode=bsp \
    --set learning_rate=100 --set optimizer=sgd --set grad_clip=0

# ---- Encoding text -----------------------------------------------------------
# Two replicas start at the same time: one process encodes the text, the other
# waits.
tokenizers=$(cd "$(dirname "$0")/.." && pwd)/golden/tokenizers
mkdir "$folder/text"
for name in bert gpt2 bytes; do
    for ((i = 0; i < 2000; i++)); do
        echo "Sentence $i of a text. It has $((i % 7)) words."
    done >"$folder/text/a.txt"
    options=(--set model_type="${name/bytes/gpt2}" --set synthetic_data=false
        --set data_dir="$folder/text" --set stages=1 --set 'replicas=[2]'
        --set sync_mode=bsp --set vocab=2000 --set optimizer=adamw
        --max-steps 3)
    [ $name = bytes ] || options+=(--set tokenizer="$tokenizers/$name")
    rm -rf "$folder/threads" "$folder/ranks" "$folder/text/.vpipe-cache"
    train ranks 2 "${options[@]}" ||
        note_failure "$name, text: $(cat "$folder/log")"
    [ $name = bytes ] ||
        [ "$(find "$folder/text/.vpipe-cache" -mindepth 1 -maxdepth 1 | wc -l)" \
            = 1 ] || note_failure "$name: not one folder of tokens"
    train threads 0 "${options[@]}" || note_failure "$name: $(cat "$folder/log")"
    same threads ranks || note_failure "$name: other numbers on text"
    n_runs=$((n_runs + 1))
done

# ---- Many short runs -------------------------------------------------------
if [ -n "${VP_FULL:-}" ]; then
    for ((i = 0; i < 200; i++)); do
        rm -rf "$folder/again"
        set_all stages=$((2 + i % 3)) sync_mode=$([ $((i % 2)) = 0 ] &&
            echo bsp || echo asp) tie_embeddings=false
        train again $((2 + i % 3)) "${options[@]}" --max-steps 3 ||
            note_failure "run $i of 200: $(cat "$folder/log")"
        n_runs=$((n_runs + 1))
    done
fi

echo "$n_runs runs of processes, of $n_cases configurations; $failures failed"
[ $failures = 0 ]
