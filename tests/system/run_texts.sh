#!/bin/sh
# A run generates texts while it trains: losses are bit-identical to those without
# texts, the texts are those of the checkpoint of that step, and each mistake gives
# one line.
#   tests/system/run_texts.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/system/run_texts.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
golden=$source/tests/golden
. "$source/tests/system/tool_lib.sh"

tiny="--set total_steps=6 --set checkpoint_every=3 --set threads_per_stage=1 \
--set hidden=32 --set eval_every=0 --set learning_rate=0.01"

# losses RUN: all losses as printed in metrics.jsonl.
losses() {
    sed -n 's/.*\("minibatch": [0-9]*, "loss": [^,]*\).*/\1/p' "$1/metrics.jsonl"
}

# texts RUN STEP: the texts of the samples of this step.
texts() {
    sed -n "s/^{\"step\": $2, \"event\": \"sample\", .*\"text\": \"\(.*\)\"}\$/\1/p" \
        "$1/metrics.jsonl"
}

# same_run NAME KEY COMMAND KEY=VALUE...: trains with and without texts every 3
# steps; `vpipe COMMAND` must make the same texts from the checkpoints.
same_run() {
    name=$1 key=$2 command=$3
    shift 3
    rm -rf with without
    # shellcheck disable=SC2086 # several words
    {
        run 0 train "$source/configs/${name}_tiny.yml" --quiet $tiny "$@" \
            --output without
        run 0 train "$source/configs/${name}_tiny.yml" --quiet $tiny "$@" \
            --output with --set "$key=3" --set sample_prompts=prompts \
            --set sample_tokens=6
    }
    losses without >expected
    losses with >got
    checks=$((checks + 1))
    [ "$(wc -l <got)" -eq 6 ] && cmp -s expected got ||
        fail "$key changes losses: $name $*"
    [ "$(grep -c '"event": "sample"' with/metrics.jsonl)" -eq 4 ] ||
        fail "not two texts after steps 3 and 6: $name $*"
    for step in 3 6; do
        texts with $step >expected
        # shellcheck disable=SC2086
        run 0 $command with/checkpoints/step-$step --max-tokens 6
        cmp -s expected out ||
            fail "step $step: the checkpoint says something else: $name $*"
    done
    grep -h '^Sample: \[3\]\[1\]' with/output.log.* | sed 's/.* => //' >got
    texts with 3 | sed -n 1p >expected
    cmp -s expected got || fail "the log has not the text: $name $*"
}

printf '5 6 7\n20 21 22 23\n' >prompts
generate='generate --ids 5,6,7 --ids 20,21,22,23'
for set in stages=1 stages=2 stages=4; do
    same_run gpt2 generate_every "$generate" --set $set --set accumulation_steps=2
done
same_run gpt2 generate_every "$generate" --set stages=2 --set sync_mode=asp
same_run gpt2 generate_every "$generate" --set stages=2 --set schedule=zb-v \
    --set accumulation_steps=4
printf '5 6 7 2\n20 21 22 23 2\n' >prompts
translate='translate --ids 5,6,7,2 --ids 20,21,22,23,2'
same_run translation translate_every "$translate"
same_run translation translate_every "$translate" --set stages=2 \
    --set accumulation_steps=2

# A fine-tuned model uses the search settings of its folder.
cp -R "$golden/translate/m2m" m2m
sed -i 's/"eos_token_id": 2/"num_beams": 4, &/' m2m/generation_config.json
printf '11 15 9 2\n' >prompts
cat >fine.yml <<END
init: m2m
seq_length: 16
batch_size: 64
total_steps: 1
threads_per_stage: 1
translate_every: 1
sample_prompts: prompts
END
run 0 train fine.yml --quiet --output fine
texts fine 1 >expected
run 0 translate fine --ids 11,15,9,2 --max-tokens 40
cmp -s expected out || fail "the folder of the first weights is not read"

# Prompts as text need a tokenizer; evaluations are at other steps.
cp "$source/README.md" prose.txt
printf 'The pipeline\nA "stage"\n' >prompts
# shellcheck disable=SC2086
run 0 train "$source/configs/gpt2_tiny.yml" --quiet $tiny --output words \
    --set tokenizer="$golden/tokenizers/gpt2" --set vocab=2000 \
    --set data_dir=prose.txt --set synthetic_data=false --set eval_every=2 \
    --set generate_every=3 --set sample_prompts=prompts --set sample_tokens=9
[ "$(grep -c '"eval_loss"' words/metrics.jsonl)" -eq 3 ] || fail "not three evaluations"
run 0 generate words --prompts prompts --max-tokens 9 --print-ids
[ "$(wc -l <out)" -eq 2 ] || fail "two prompts are expected"
grep -q '"event": "sample", "number": 2, "prompt": "A \\"stage\\"", "text": "' \
    words/metrics.jsonl || fail "a quotation mark is not escaped"

# ---- Mistakes -----------------------------------------------------------------
gpt2=$source/configs/gpt2_tiny.yml
refuse "--set: key 'generate_every' needs prompts; add 'sample_prompts: FILE', with \
one on each line" train "$gpt2" --set generate_every=2
refuse "--set: key 'generate_every' needs ranks that are threads of one process, one \
for each stage; remove it or 'replicas'" train "$gpt2" --set generate_every=2 \
    --set sample_prompts=prompts --set replicas=[2]
refuse "--set: key 'generate_every' needs ranks that are threads of one process, one \
for each stage; remove it or 'distributed_backend'" train "$gpt2" \
    --set generate_every=2 --set sample_prompts=prompts --set stages=2 \
    --set distributed_backend=mpi
refuse "--set: key 'translate_every' has no effect with model_type gpt2; remove it" \
    train "$gpt2" --set translate_every=2 --set sample_prompts=prompts
refuse "--set: key 'generate_every' has no effect with model_type bert; remove it" \
    train "$source/configs/bert_tiny.yml" --set generate_every=2
refuse "prompts:1: 'The pipeline' is no token id; write numbers, for example 5,6,7" \
    train "$gpt2" --output no --set generate_every=2 --set sample_prompts=prompts
[ ! -e no ] || fail "a refused run has a folder"
printf '5\n5 9999\n' >prompts
refuse "prompts:2: sequence 2: 9999 is no id of the model; its ids are 0 to 127" \
    train "$gpt2" --output no --set generate_every=2 --set sample_prompts=prompts
: >prompts
refuse "prompts: has no prompt; write one on each line" train "$gpt2" --output no \
    --set generate_every=2 --set sample_prompts=prompts

printf 'run_texts: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
