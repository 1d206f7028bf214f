#!/bin/sh
# `vpipe generate` gives the ids of transformers for any number of stages and any batch,
# and texts end in the right place. Each mistake gives one line.
#   tests/system/generate.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/system/generate.sh PROGRAM}")
source=$(cd "$(dirname "$0")/../.." && pwd -P) || exit 1
golden=$source/tests/golden
. "$source/tests/system/tool_lib.sh"

# same FILE WHAT: stdout equals the file.
same() {
    checks=$((checks + 1))
    cmp -s "$1" out || fail "$2"
}

run 0 generate --help
[ "$(awk '{ print length }' out | sort -n | tail -1)" -le 80 ] ||
    fail "the help is wider than 80 columns"
grep -q 'usage: vpipe generate MODEL' out || fail "the help has no usage"

# ---- Ids of transformers ------------------------------------------------------
gpt2=$golden/logits/gpt2

# ending ID: a copy of the model with ID as its end-of-text id.
ending() {
    rm -rf model
    cp -R "$gpt2" model
    sed -i "s/\"eos_token_id\": 0/\"eos_token_id\": $1/" \
        model/generation_config.json
}

n_cases=0
while IFS='|' read -r prompt end options ids; do
    n_cases=$((n_cases + 1))
    printf '%s\n' "$ids" >expected
    if [ "$end" = none ]; then
        ending 0
        options="$options --ignore-eos"
    else
        ending "$end"
    fi
    for stages in 1 2 4; do
        # shellcheck disable=SC2086 # options are several words
        run 0 generate model --ids "$prompt" --print-ids $options \
            --set stages=$stages
        same expected "$stages stages continue $prompt otherwise"
        [ ! -s err ] || fail "stderr is not empty"
    done
done <"$golden/generate.txt"
[ "$n_cases" -eq 8 ] || fail "$n_cases cases in generate.txt"

# The end-of-text id is also found in a list, in config.json and in an imported
# model.
prompt=$(sed -n 's/^\([0-9,]*\)|35|.*/\1/p' "$golden/generate.txt")
sed -n 's/^[0-9,]*|35|.*|//p' "$golden/generate.txt" >expected
ending '[1, 35]'
run 0 generate model --ids "$prompt" --print-ids
same expected "a list of ends is not read"
run 0 import model imported
run 0 generate imported --ids "$prompt"
same expected "the end of an imported model is not found"
rm model/generation_config.json
sed -i 's/"eos_token_id": 0/"eos_token_id": 35/' model/config.json
run 0 generate model --ids "$prompt"
same expected "the end in config.json is not read"
run 0 generate model --ids "$prompt" --ignore-eos
[ "$(wc -w <out)" -eq 20 ] || fail "--max-tokens is not 20, or the text ended"

# Rows of a batch do not influence each other.
sed -n 's/^\([0-9,]*\)|none|.*-penalty 1.0|.* .* .*/\1/p' \
    "$golden/generate.txt" >prompts
sed -n 's/^[0-9,]*|none|.*-penalty 1.0|\(.* .* .*\)/\1/p' \
    "$golden/generate.txt" | cut -d ' ' -f 1-20 >expected
[ "$(wc -l <prompts)" -eq 3 ] || fail "three prompts are expected"
for batch in 1 2 3; do
    for stages in 1 2; do
        run 0 generate "$gpt2" --prompts prompts --ignore-eos \
            --set batch_size=$batch --set stages=$stages
        same expected "batches of $batch give other ids"
    done
done

# The cache changes no id; counts are printed only with --stats.
run 0 generate "$gpt2" --prompts prompts --ignore-eos --no-cache
same expected "ids without a cache are others"
run 0 generate "$gpt2" --prompts prompts --ignore-eos --stats
same expected "--stats changes the ids"
grep -q '^vpipe generate: prompts: [0-9]* ids in .*; cache: .* bytes)$' err ||
    fail "--stats tells nothing"
"$program" generate "$gpt2" --prompts prompts --max-tokens 30 \
    --set memory_limit=60000 >out 2>err && fail "a cache too large is taken"
grep -q "^vpipe generate: stage 0 needs .*cache .*memory_limit is" err ||
    fail "the size of the cache is not told"

# The model has 128 positions; the last id needs no position.
prompt=$(awk -F '|' 'length($1) > 200 { print $1 }' "$golden/generate.txt")
run 0 generate "$gpt2" --ids "$prompt" --ignore-eos --max-tokens 1000
[ "$(wc -w <out)" -eq 39 ] || fail "90 ids are not continued by 39"
printf '%s\n' "vpipe generate: text 1 ends at the model's 128 positions" >expected
cmp -s expected err || fail "the end at the last position is not told"

# ---- Sampling -----------------------------------------------------------------
draw="generate $gpt2 --ignore-eos --temperature 1.5 --top-k 20 --top-p 0.95"
# shellcheck disable=SC2086
for seed in 1 2; do
    run 0 $draw --ids 5,6 --ids 7,8,9 --ids 10 --seed $seed
    cp out drawn.$seed
    for set in batch_size=1 batch_size=2 stages=2 stages=4; do
        run 0 $draw --ids 5,6 --ids 7,8,9 --ids 10 --seed $seed --set $set
        same drawn.$seed "$set changes what is drawn"
    done
done
cmp -s drawn.1 drawn.2 && fail "two seeds draw the same"
# shellcheck disable=SC2086
run 0 $draw --ids 5,6 --ids 5,6 --seed 1
[ "$(sort -u out | wc -l)" -eq 2 ] || fail "two texts of a job draw the same"

# ---- Texts --------------------------------------------------------------------
cp "$source/README.md" prose.txt # tokens are stored beside the file
run 0 train "$source/configs/gpt2_tiny.yml" --quiet --output run \
    --set total_steps=20 --set tokenizer="$golden/tokenizers/gpt2" \
    --set vocab=2000 --set data_dir=prose.txt --set synthetic_data=false \
    --set threads_per_stage=1
text="generate run --temperature 1 --seed 3 --max-tokens 30"
# shellcheck disable=SC2086
{
    run 0 $text --prompt 'The pipeline'
    cp out whole
    printf 'The pipeline\n' >prompt.txt
    run 0 $text --prompts prompt.txt
    same whole "a file gives another text than --prompt"
    run 0 data encode --tokenizer "$golden/tokenizers/gpt2" prompt.txt
    ids=$(tr ' ' , <out)
    run 0 $text --ids "$ids"
    same whole "ids give another text than --prompt"
    # The text ends before the stop text, also in the middle of a token.
    n_stops=0
    for place in 3 5 7 9 12; do
        stop=$(tr '\n' '~' <whole | tr '~' '.' | cut -c $place-$((place + 2)))
        case $stop in *.*) continue ;; esac
        n_stops=$((n_stops + 1))
        last=$stop
        run 0 $text --prompt 'The pipeline' --stop "$stop"
        awk -v stop="$stop" 'BEGIN { RS = "\001" }
            { printf "%s\n", substr($0, 1, index($0, stop) - 1) }' whole >expected
        same expected "the text does not end before '$stop'"
    done
    [ "$n_stops" -ge 2 ] || fail "only $n_stops places to stop at"
    run 0 $text --prompt 'The pipeline' --print-ids
    cp out all_ids
    run 0 $text --prompt 'The pipeline' --print-ids --stop "$last"
    [ "$(wc -w <out)" -lt "$(wc -w <all_ids)" ] || fail "--stop ends no ids"
}

# A prompt that is computed in several pieces, and texts that wait for a line of
# the cache.
run 0 train "$source/configs/gpt2_tiny.yml" --quiet --output long \
    --set total_steps=2 --set positions=700 --set seq_length=32 \
    --set threads_per_stage=1
awk 'BEGIN { for (k = 1; k < 5; k++) { line = ""
    for (i = 0; i < k * 150; i++) line = line (i ? " " : "") (i * k * 37 + k) % 90
    print line } }' >long.txt
draw="generate long --prompts long.txt --max-tokens 12 --ignore-eos --print-ids"
# shellcheck disable=SC2086
{
    run 0 $draw --no-cache
    cp out whole_ids
    for set in batch_size=1 batch_size=2 batch_size=4 stages=2 stages=4; do
        run 0 $draw --set $set
        same whole_ids "$set: pieces of prompts give other ids"
    done
}

# A character of several tokens is printed when it is complete. Here 28 tokens
# are 14 characters; 29 tokens end within a character, which becomes U+FFFD.
yes '漢字' | head -1000 | tr -d '\n' >kanji.txt
run 0 train "$source/configs/gpt2_tiny.yml" --quiet --output kanji \
    --set total_steps=60 --set tokenizer="$golden/tokenizers/gpt2" \
    --set vocab=2000 --set data_dir=kanji.txt --set synthetic_data=false \
    --set threads_per_stage=1
for tokens in 28 29; do
    run 0 generate kanji --prompt '漢字' --max-tokens $tokens
    printf '漢字漢字漢字漢字漢字漢字漢字%s\n' "$([ $tokens = 29 ] && printf '�')" \
        >expected
    same expected "$tokens tokens are not whole characters"
done

# ---- Gaps of a masked language model ------------------------------------------
cp -R "$golden/logits/bert" bert
{
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n'
    seq 10 44
} >bert/vocab.txt
for stages in 1 2; do
    run 0 generate bert --prompt '12 [MASK] 40 [MASK]' --set stages=$stages
    same "$golden/fill.txt" "gaps are filled otherwise"
done
for batch in 1 2; do
    run 0 generate bert --prompt '[MASK]' --prompt '12 [MASK] 40 [MASK]' \
        --set batch_size=$batch
    sed -n 's/^prompt 2, //p' out >second
    cmp -s "$golden/fill.txt" second || fail "a batch fills gaps otherwise"
done
run 0 generate bert --prompt '[MASK]' --prompt '12 [MASK] 40 [MASK]' --print-ids
[ "$(sed -n 2p out)" = '26 0' ] || fail "--print-ids has not the best ids"

# ---- Mistakes -----------------------------------------------------------------
refuse "vpipe generate: no model; name the folder of a run, a checkpoint or a \
Hugging Face folder" generate
refuse "vpipe generate: no prompt; write '--prompt TEXT' or '--ids 5,17,300'" \
    generate run
refuse "vpipe generate: prompts of two kinds; give one of '--prompt', '--prompts' \
and '--ids'" generate run --prompt a --ids 5
refuse "vpipe generate: unexpected argument 'a'; write '--prompt TEXT'" \
    generate run a
refuse "vpipe generate: '--top-k' draws, but the temperature is 0; write \
'--temperature 1'" generate run --prompt a --top-k 5
refuse "vpipe generate: top_p is 2; give a number from 0 to 1 (1: off)" \
    generate run --prompt a --temperature 1 --top-p 2
refuse "vpipe generate: option '--max-tokens': '0' is not a whole number from 1 to \
2147483647" generate run --prompt a --max-tokens 0
refuse "vpipe generate: option '--temperature': 'hot' is not a number; write for \
example '--temperature 0.9'" generate run --prompt a --temperature hot
refuse "vpipe generate: option '--ids': '5:6' has a decoder input; remove ':' and \
what follows" generate run --ids 5:6
refuse "vpipe generate: $gpt2 has no tokenizer, which '--prompt' needs; give ids by \
'--ids'" generate "$gpt2" --prompt a
refuse "vpipe generate: $gpt2 has no tokenizer, which '--stop' needs; leave it out" \
    generate "$gpt2" --ids 5 --stop a
refuse "vpipe generate: sequence 2: 40 is no id of the model; its ids are 0 to 39" \
    generate "$gpt2" --ids 5 --ids 40
refuse "vpipe generate: sequence 1 has no gap; write [MASK] in the place of a word" \
    generate bert --prompt 12
refuse "vpipe generate: $golden/logits/m2m is a translation model; use 'vpipe \
translate'" generate "$golden/logits/m2m" --ids 5
: >empty
refuse "vpipe generate: empty: has no prompt; write one on each line" \
    generate "$gpt2" --prompts empty
printf '{"eos_token_id": "x"}' >model/generation_config.json
refuse "vpipe generate: model/generation_config.json: eos_token_id is neither an id \
nor a list of ids; correct the file" generate model --ids 5

printf 'generate: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
