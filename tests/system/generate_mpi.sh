#!/bin/bash
# With ranks as processes, generate, translate, eval and logits give the output of one
# process, byte by byte; a lost rank is named.
#   tests/system/generate_mpi.sh PROGRAM MPIRUN [OPTION...]
# With VP_FULL=1 every case runs with 2 and 4 stages, started by vpipe and by MPIRUN;
# else each case runs in one of these four ways.
set -u

program=$(realpath "${1:?usage: tests/system/generate_mpi.sh PROGRAM MPIRUN [OPTION...]}")
shift
mpirun=("$@")
source=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
golden=$source/tests/golden
. "$source/tests/system/cluster_lib.sh"
need "${mpirun[0]}"
. "$source/tests/system/tool_lib.sh"
gpt2=$golden/logits/gpt2
m2m=$golden/translate/m2m

# hand RANKS ARGUMENT...: mpirun starts the ranks.
hand() {
    local n=$1

    shift
    timeout 60 "${mpirun[@]}" -n "$n" "$program" "$@" --set stages="$n" >out 2>err \
        </dev/null
}

# launch RANKS ARGUMENT...: vpipe starts mpirun.
launch() {
    local n=$1

    shift
    timeout 60 "$program" "$@" --set stages="$n" --set distributed_backend=mpi \
        >out 2>err </dev/null
}

ways=('launch 2' 'hand 4' 'hand 2' 'launch 4')
n_cases=0

# same ARGUMENT...: processes print what one process prints. The file of --out
# is compared as well, and stderr, whose lines may come in another order.
same() {
    local way chosen=("${ways[@]}")

    "$program" "$@" >want 2>want_err </dev/null || fail "one process: vpipe $*"
    [ ! -e file ] || mv file want_file
    [ -n "${VP_FULL:-}" ] || chosen=("${ways[n_cases % ${#ways[@]}]}")
    n_cases=$((n_cases + 1))
    for way in "${chosen[@]}"; do
        checks=$((checks + 1))
        $way "$@" || fail "status $?, $way: vpipe $*"
        cmp -s want out || fail "$way prints something else: vpipe $*"
        cmp -s <(sort want_err) <(sort err) || fail "$way says something else: vpipe $*"
        [ ! -e want_file ] || cmp -s want_file file ||
            fail "$way writes another file: vpipe $*"
        rm -f file
    done
    rm -f want_file
}

# ---- Generating ---------------------------------------------------------------
# Prompts of different lengths, 1 to 90 ids.
cut -d '|' -f 1 "$golden/generate.txt" | sort -u >prompts
[ "$(wc -l <prompts)" -ge 4 ] || fail "only $(wc -l <prompts) prompts"
greedy=(generate "$gpt2" --prompts prompts --ignore-eos)
same "${greedy[@]}" --print-ids
same "${greedy[@]}" --set batch_size=1 # more texts than lines of the cache
same "${greedy[@]}" --no-cache --max-tokens 8
same "${greedy[@]}" --temperature 1.5 --top-k 20 --top-p 0.95 --seed 7
same "${greedy[@]}" --max-tokens 1000 --set batch_size=2 # ends at the last position
same generate "$gpt2" --ids 5,17,30 --ids 37

# Text, and a stop text that only the lead's tokenizer can find.
cp "$source/README.md" prose.txt
run 0 train "$source/configs/gpt2_tiny.yml" --quiet --output run \
    --set total_steps=4 --set tokenizer="$golden/tokenizers/gpt2" \
    --set vocab=2000 --set data_dir=prose.txt --set synthetic_data=false \
    --set threads_per_stage=1 --set checkpoint_every=2 --set eval_every=0 \
    --set positions=9000
text=(generate run --temperature 1 --seed 3 --prompt 'The pipeline' --prompt A)
same "${text[@]}"
stop=$(head -1 want | cut -c 8-10)
"$program" "${text[@]}" --stop "$stop" >stopped 2>err
cmp -s stopped want && fail "'$stop' stops no text"
same "${text[@]}" --stop "$stop"

cp -R "$golden/logits/bert" bert
{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
    seq 10 44
} >bert/vocab.txt
same generate bert --prompt '[MASK]' --prompt '12 [MASK] 40 [MASK]' \
    --set batch_size=1
hand 2 generate bert --prompt '12 [MASK] 40 [MASK]'
cmp -s "$golden/fill.txt" out || fail "gaps are not those that are stored"

# ---- Translating --------------------------------------------------------------
cut -d '|' -f 7 "$golden/translate.txt" | tr , ' ' >sentences
for rule in hf fairseq; do
    for beams in 1 4 5; do
        same translate "$m2m" sentences --print-ids --rule $rule --beams $beams
    done
done
head -3 sentences >few
"$program" translate "$m2m" <few >want
"$program" translate "$m2m" --set distributed_backend=mpi --set stages=2 <few \
    >out 2>err || fail "the standard input is not read"
cmp -s want out || fail "the standard input is translated otherwise"

# ---- Evaluating ---------------------------------------------------------------
# numbers FILE: the results without times and values that depend on the stages.
numbers() {
    sed 's/"stages".*//' "$1"
}
run 0 train "$source/configs/gpt2_tiny.yml" --quiet --output cpm \
    --set model_type=cpm --set total_steps=2 --set data_dir="$golden/chid" \
    --set synthetic_data=false --set seq_length=12 --set vocab=1000 \
    --set threads_per_stage=1 --set eval_every=0
for model in run cpm; do
    run 0 eval $model --json
    numbers out >want
    cp err want_err
    n_cases=$((n_cases + 1))
    ${ways[n_cases % 4]} eval $model --json || fail "eval $model: status $?"
    numbers out | cmp -s want - || fail "eval $model: other numbers"
    cmp -s want_err err || fail "eval $model: stderr differs"
done
grep -q '"questions":' out || fail "no question was asked"

# Logits of 300 positions and 2000 tokens do not fit one message.
head -c 1500 prose.txt | tr '\n' ' ' >long
same logits run long --out file
same logits "$golden/logits/m2m" --ids 5,6,2:2,7 --ids 9,2:2 --out file

# ---- Inputs of each rank ------------------------------------------------------
# Only the lead reads the prompts.
"$program" generate "$gpt2" --prompts prompts >want
part=("$program" generate "$gpt2" --set stages=2 --prompts)
"${mpirun[@]}" -n 1 "${part[@]}" prompts : -n 1 "${part[@]}" missing >out 2>err \
    </dev/null || fail "a rank that does not lead needs the prompts"
cmp -s want out || fail "prompts of the lead alone give other ids"

# refuse_ranks MESSAGE RANKS ARGUMENT...: exit 2, the message once, empty
# stdout.
refuse_ranks() {
    local message=$1

    shift
    checks=$((checks + 1))
    launch "$@"
    [ $? = 2 ] || fail "not refused: vpipe $*"
    [ ! -s out ] || fail "stdout is not empty: vpipe $*"
    sed 's/^rank 0 on host [^ ]* failed: //' err | cmp -s - <(echo "$message") ||
        fail "not the line '$message': vpipe $*"
}
refuse_ranks 'sequence 2: 40 is no id of the model; its ids are 0 to 39' \
    2 generate "$gpt2" --ids 5 --ids 40
refuse_ranks "vpipe generate: --set: key 'replicas': a trained model has one rank \
for each stage; leave it out" 2 generate "$gpt2" --ids 5 --set 'replicas=[1, 2]'
part=("$program" generate --ids 5 --set stages=2)
"${mpirun[@]}" -n 1 "${part[@]}" run/checkpoints/step-4 : \
    -n 1 "${part[@]}" run/checkpoints/step-2 >out 2>err </dev/null &&
    fail "ranks take weights of two checkpoints"
grep -q 'is a checkpoint of step 2 .* on rank 1, but rank 0 has a checkpoint of step 4' \
    err || fail "two checkpoints are not named"

# ---- Lost ranks ---------------------------------------------------------------
# A text of 8000 tokens takes some seconds.
slow=(generate run --ids 5,6,7 --ignore-eos --max-tokens 8000 --print-ids)

# find_rank NUMBER: process id of a rank.
find_rank() {
    local pid

    for pid in $(pgrep -f "generate run .*watchdog_seconds=8"); do
        [ "$(readlink "/proc/$pid/exe")" = "$program" ] &&
            tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null |
            grep -q "^OMPI_COMM_WORLD_RANK=$1\$" && echo "$pid"
    done
}

# lose SIGNAL RANK: sends the signal to the rank, or to the launcher if RANK is
# empty, after the first id. Sets the status.
lose() {
    local begin=$SECONDS pid pids

    : >out
    "$program" "${slow[@]}" --set distributed_backend=mpi --set stages=2 \
        --set watchdog_seconds=8 >out 2>err </dev/null &
    child=$!
    until [ -s out ] || [ $((SECONDS - begin)) -gt 30 ]; do
        sleep 0.05
    done
    pids=$(find_rank '[01]')
    [ "$(echo "$pids" | wc -l)" -eq 2 ] || fail "not two ranks, but '$pids'"
    begin=$SECONDS
    if [ -n "$2" ]; then
        kill -"$1" "$(find_rank "$2")"
    else
        kill -"$1" $child
    fi
    wait $child
    status=$?
    [ $((SECONDS - begin)) -le 12 ] || fail "the end took $((SECONDS - begin)) s"
    for pid in $pids; do
        [ ! -e "/proc/$pid" ] || fail "the rank with process id $pid is left"
    done
    checks=$((checks + 1))
}

lose KILL 1
[ $status = 1 ] || fail "status $status after a kill, not 1"
grep -q '^rank 1 on host .* is dead: ended by signal 9 (Killed)' err ||
    fail "the rank that was killed is not named"
if [ -n "${VP_FULL:-}" ]; then
    lose STOP 1
    [ $status = 1 ] || fail "status $status after a stop, not 1"
    grep -q '^rank 1 on host .* is stopped' err ||
        fail "the rank that was stopped is not named"
    lose TERM 1
    [ $status = 3 ] || fail "status $status after SIGTERM to a rank, not 3"
fi
lose TERM ''
[ $status = 3 ] || fail "status $status after SIGTERM, not 3"
[ ! -s err ] || fail "a clean stop is not silent"
"$program" "${slow[@]}" --max-tokens 30 >want 2>err
n=$(wc -c <out)
n=$((n < 50 ? n : 50))
cmp -s <(head -c $n out) <(head -c $n want) || fail "the text began otherwise"

printf 'generate_mpi: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
