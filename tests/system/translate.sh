#!/bin/sh
# `vpipe translate` gives the ids of transformers and fairseq for any number of stages
# and any batch, reads and writes text, and computes BLEU. Each mistake gives one line.
#   tests/system/translate.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/system/translate.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
golden=$source/tests/golden
. "$source/tests/system/tool_lib.sh"

# same FILE WHAT: stdout equals the file.
same() {
    checks=$((checks + 1))
    cmp -s "$1" out || fail "$2"
}

run 0 translate --help
[ "$(awk '{ print length }' out | sort -n | tail -1)" -le 80 ] ||
    fail "the help is wider than 80 columns"
grep -q 'usage: vpipe translate MODEL' out || fail "the help has no usage"
run 0 --help
grep -q '^  translate ' out || fail "'vpipe --help' does not list translate"

# ---- Stored ids ---------------------------------------------------------------
m2m=$golden/translate/m2m

# One case for each number of beams and each rule. early_stopping is a key of
# the model's folder.
n_cases=0
sort -t '|' -u -k 1,3 "$golden/translate.txt" >cases
while IFS='|' read -r rule stop beams penalty most forced ids want; do
    n_cases=$((n_cases + 1))
    rm -rf model
    cp -R "$m2m" model
    case $stop in
    no_gain) stop=false ;;
    full) stop=true ;;
    never) stop='"never"' ;;
    esac
    sed -i "s/\"eos_token_id\": 2/\"early_stopping\": $stop, &/" \
        model/generation_config.json
    printf '%s\n' "$want" >expected
    run 0 translate model --ids "$ids" --print-ids --rule "$rule" \
        --beams "$beams" --length-penalty "$penalty" --max-tokens "$most" \
        --forced-bos "$forced"
    same expected "$rule, $beams beams translate $ids otherwise"
    [ ! -s err ] || fail "stderr is not empty"
done <cases
[ "$n_cases" -ge 10 ] || fail "only $n_cases cases"

# Defaults in the model's folder have the effect of the options.
rm -rf model
cp -R "$m2m" model
sed -i 's/"eos_token_id": 2/"num_beams": 4, "length_penalty": 2.0, '\
'"early_stopping": true, "max_length": 7, "forced_bos_token_id": 7, &/' \
    model/generation_config.json
ids=19,6,12,10,2
run 0 translate "$m2m" --ids $ids --beams 4 --length-penalty 2 --max-tokens 6 \
    --forced-bos 7
cp out expected
run 0 translate model --ids $ids
same expected "generation_config.json is not read"
run 0 translate model --ids $ids --forced-bos -1 --max-tokens 20
cmp -s expected out && fail "options do not replace the folder's keys"
run 0 import model imported
run 0 translate imported --ids $ids
same expected "the options of an imported model are not found"

# ---- Cuts and batches ---------------------------------------------------------
cut -d '|' -f 7 "$golden/translate.txt" | tr , ' ' >sentences
for rule in hf fairseq; do
    run 0 translate "$m2m" sentences --beams 4 --rule $rule
    cp out whole
    [ "$(wc -l <out)" -eq "$(wc -l <sentences)" ] || fail "lines are missing"
    for set in stages=2 stages=4 batch_size=64 batch_size=320; do
        run 0 translate "$m2m" sentences --beams 4 --rule $rule --set $set
        same whole "$set translates otherwise"
    done
done
run 0 translate "$m2m" sentences --beams 4 --rule fairseq --no-cache
same whole "without a cache it translates otherwise"
"$program" translate "$m2m" --beams 4 --rule fairseq <sentences >out 2>err ||
    fail "the standard input is not read"
same whole "the standard input is translated otherwise"

# ---- Text ---------------------------------------------------------------------
# Words are translated to upper case, byte by byte.
mkdir pairs
awk 'BEGIN {
    n = split("cat sat mat dog one red", word, " ")
    for (i = 0; i < 600; i++) {
        line = word[i % n + 1] (i % 7 < 4 ? " " word[int(i / 7) % n + 1] : "")
        print line >"pairs/train.de"
        print toupper(line) >"pairs/train.en"
    }
}'
run 0 train "$source/configs/translation_tiny.yml" --quiet --output run \
    --set data_dir=pairs --set synthetic_data=false --set vocab=260 \
    --set source_lang=de --set target_lang=en --set hidden=64 \
    --set seq_length=16 --set total_steps=150 --set eval_every=0 \
    --set threads_per_stage=1
printf 'red cat\r\ndog\nmat sat\n' >in
printf 'RED CAT\nDOG\nMAT SAT\n' >reference
run 0 translate run in --beams 2 --max-tokens 12 --reference reference
same reference "words are not in upper case"
printf '%s\n' 'BLEU = 0.00 100.0/100.0/0.0/0.0 (BP = 1.000 ratio = 1.000 hyp_len = 5 ref_len = 5)' \
    'exact match = 100.00 (3 of 3)' >expected
cmp -s expected err || fail "BLEU is not that of sacreBLEU"
cp out whole
for set in stages=2 stages=4 batch_size=64; do
    run 0 translate run in --beams 2 --max-tokens 12 --set $set
    same whole "$set gives another text"
done
run 0 translate run in --print-ids --max-tokens 12 --reference reference
[ "$(sed -n 2p out)" = '72 83 75 2' ] || fail "--print-ids has not the bytes"
cmp -s expected err || fail "BLEU depends on --print-ids"
rm -rf pairs # translation does not need the data

# With a tokenizer. A run on files of 'vpipe data pairs' uses its ids plus 4.
mkdir tokens
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n' >tokens/vocab.txt
seq 4 19 >>tokens/vocab.txt
cp -R "$m2m" model2
cp tokens/vocab.txt model2
printf '9 19 9 7\n' >in
run 0 translate model2 in
cp out expected
run 0 translate "$m2m" --ids 9,19,9,7,2
sed 's/ 2$//' out >ids
cmp -s ids expected || fail "a tokenizer gives another translation than ids"

mkdir text
for i in 1 2 3 4 5 6 7 8; do
    seq 4 19 | awk -v i=$i '{ print $1, ($1 + i) % 16 + 4 }'
done >text/train.de
awk '{ print $2, $1 }' text/train.de >text/train.en
run 0 data pairs --tokenizer tokens --out pairs --source-lang de \
    --target-lang en text/train.de text/train.en
run 0 train "$source/configs/translation_tiny.yml" --quiet --output run2 \
    --set data_dir=pairs --set synthetic_data=false --set tokenizer=tokens \
    --set pad_id=1 --set hidden=64 --set seq_length=16 --set total_steps=20 \
    --set eval_every=0 --set threads_per_stage=1 --set vocab=24
printf '9 19 7\n' >in
run 0 translate run2 in --print-ids --max-tokens 5
cp out expected
run 0 translate run2 --ids 13,23,11,2 --print-ids --max-tokens 5
same expected "the ids of pairs are not those of the tokenizer plus 4"
refuse "--set: key 'tokenizer': pairs of text are read byte by byte; make files of \
ids by 'vpipe data pairs' and set pad_id to 1, or remove it" \
    train "$source/configs/translation_tiny.yml" --set data_dir=text \
    --set tokenizer=tokens --set source_lang=de --set target_lang=en \
    --output run3

# ---- Mistakes -----------------------------------------------------------------
for model in bert gpt2; do
    refuse "vpipe translate: $golden/logits/$model is a $model model, which does \
not translate; use 'vpipe generate'" translate "$golden/logits/$model" --ids 5
done
refuse "vpipe translate: no model; name the folder of a run, a checkpoint or a \
Hugging Face folder" translate
refuse "vpipe translate: two files, 'a' and 'b'; give one" translate model a b
refuse "vpipe translate: both a file and '--ids'; give one of them" \
    translate model a --ids 5
refuse "vpipe translate: option '--rule': 'moses' is no rule; write 'hf' or \
'fairseq'" translate model --ids 5 --rule moses
refuse "vpipe translate: option '--beams': '0' is not a whole number from 1 to 1024" \
    translate model --ids 5 --beams 0
refuse "vpipe translate: option '--length-penalty': 'x' is not a number; write for \
example '--length-penalty 0.6'" translate model --ids 5 --length-penalty x
refuse "vpipe translate: option '--ids': '5:6' has a decoder input; remove ':' and \
what follows" translate model --ids 5:6
refuse "vpipe translate: sequence 2: 20 is no id of the model; its ids are 0 to 19" \
    translate model --ids 5 --ids 20
run 1 translate model missing
printf '5 x\n' >bad
refuse "vpipe translate: bad:1: 'x' is no token id; write numbers, for example \
5,6,7" translate model bad
refuse "vpipe translate: reference: has 3 lines for 1 sentences; write one line for \
each" translate model --ids 5,2 --reference reference
: >empty
refuse "vpipe translate: empty: has no sentence; write one on each line" \
    translate model empty
printf '{"num_beams": "x"}' >model/generation_config.json
refuse "vpipe translate: model/generation_config.json: num_beams is not a number \
above 0; correct the file" translate model --ids 5

printf 'translate: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
