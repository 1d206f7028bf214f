#!/bin/sh
# `vpipe eval` and `vpipe logits` print and write the right results, and each mistake
# gives one line.
#   tests/system/eval.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/system/eval.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
golden=$source/tests/golden
. "$source/tests/system/tool_lib.sh"

# says PATTERN: a line of stdout matches the pattern.
says() {
    checks=$((checks + 1))
    grep -q -- "$1" out || fail "no line '$1'"
}

# ---- Help ---------------------------------------------------------------------
for name in eval logits; do
    run 0 $name --help
    says "usage: vpipe $name MODEL"
    [ "$(awk '{ print length }' out | sort -n | tail -1)" -le 80 ] ||
        fail "the help of $name is wider than 80 columns"
    run 0 --help
    says "^  $name "
done

# ---- A run --------------------------------------------------------------------
cp "$source/README.md" prose.txt # tokens are stored beside the file
run 0 train "$source/configs/gpt2_tiny.yml" --quiet --output run \
    --set total_steps=20 --set tokenizer="$golden/tokenizers/gpt2" \
    --set vocab=2000 --set data_dir=prose.txt --set synthetic_data=false \
    --set threads_per_stage=1

run 0 eval run
says '^model       gpt2, checkpoint of step 20$'
says ' next tokens$'
says '^loss        [0-9.]* nats per token$'
says '^perplexity  [0-9.]*$'
says '^took        [0-9:]*, [0-9.]* [KMGi]*B$'
says '^accuracy    [0-9.]* % of the next tokens, [0-9.]* % among'

# Results do not depend on the number of stages; the time is not compared.
run 0 eval run --json
sed 's/,"stages".*//' out >one
says '^{"path":"run/checkpoints/step-20","model_type":"gpt2","data":"'
for stages in 2 3 6; do
    run 0 eval run --json --set stages=$stages
    sed 's/,"stages".*//' out >several
    cmp -s one several || fail "$stages stages evaluate differently"
done
run 0 eval run/checkpoints/step-20 --json
sed 's/,"stages".*//' out >several
cmp -s one several || fail "the checkpoint is evaluated differently"

# Evaluates all of other data, or the tenth that training would hold out.
seq 1 3000 >numbers.txt
run 0 eval run --data numbers.txt --json
whole=$(sed 's/.*"samples":\([0-9]*\).*/\1/' out)
run 0 eval run --data numbers.txt --held-out --json
tenth=$(sed 's/.*"samples":\([0-9]*\).*/\1/' out)
[ "$whole" -gt 20 ] && [ "$tenth" -eq $((whole / 10)) ] ||
    fail "$tenth of $whole samples are held out"

# ---- Logits -------------------------------------------------------------------
printf 'the pipeline\nruns and runs\n' >text
run 0 logits run text --out text.safetensors
says '^wrote   text.safetensors: logits \[2, [0-9]*, [0-9]*\], lengths \[2\]$'
run 0 data encode --tokenizer "$golden/tokenizers/gpt2" text
first=$(sed -n 1p out | tr ' ' ,)
second=$(sed -n 2p out | tr ' ' ,)
run 0 logits run --ids "$first" --ids "$second" --out ids.safetensors \
    --set stages=3
cmp -s text.safetensors ids.safetensors || fail "text and ids give other logits"
run 0 logits run --ids "$first" --out first.safetensors
cmp -s text.safetensors first.safetensors && fail "one sequence gives two"

# Without a tokenizer a file holds ids. Text for BERT gets [CLS] and [SEP].
cp -R "$golden/logits/bert" bert
printf '5 6 7\n' >ids
run 0 logits bert ids --out a
run 0 logits bert --ids 5,6,7 --out b
cmp -s a b || fail "a file of ids gives other logits"
{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
    seq 10 44
} >bert/vocab.txt
printf '12 40\n' >ids
run 0 logits bert ids --out a
run 0 logits bert --ids 2,7,35,3 --out b
cmp -s a b || fail "[CLS] and [SEP] are not around the text"

run 0 import bert imported
run 0 logits imported ids --out a
cmp -s a b || fail "an imported model gives other logits, or lost its tokenizer"

run 0 logits "$golden/logits/m2m" --ids 5,6,2:2,7 --out m2m
says '^wrote   m2m: logits \[1, 2, 40\], lengths \[1\]$'

# ---- Mistakes -----------------------------------------------------------------
refuse "vpipe eval: no model; name the folder of a run, a checkpoint or a Hugging \
Face folder" eval
refuse "vpipe eval: two models, 'run' and 'numbers.txt'; give one, and data by \
'--data PATH'" eval run numbers.txt
refuse "vpipe eval: '--held-out' needs '--data PATH'; leave it out: held-out \
data is the default" eval run --held-out
refuse "vpipe eval: $golden/logits/gpt2 does not name the data it was trained on; \
write '--data PATH'" eval "$golden/logits/gpt2"
refuse "vpipe eval: text: is a file, not a model; name the folder of a run, a \
checkpoint or a Hugging Face folder" eval text
refuse "vpipe logits: no file to write; write '--out FILE.safetensors'" \
    logits run --ids 5
refuse "vpipe logits: no sequence; name a file, or write for example '--ids 5,6,7'" \
    logits run --out x
refuse "vpipe logits: option '--ids': 'x' is no token id; write numbers, for \
example 5,6,7" logits run --ids 5,5,x --out x
printf '5 6\n5 -6\n' >ids
refuse "vpipe logits: ids:2: '-6' is no token id; write numbers, for example \
5,6,7" logits "$golden/logits/gpt2" ids --out x
refuse "vpipe logits: sequence 1: 40 is no id of the model; its ids are 0 to 39" \
    logits "$golden/logits/gpt2" --ids 40 --out x
[ ! -e x ] || fail "a file was left behind"

printf 'eval: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
