#!/bin/sh
# Training on text and token files: which files are read, left out or refused, and
# whether a run has learned.
#   tests/system/cli_text.sh PROGRAM
set -u

. "$(dirname "$0")/cli_lib.sh"

# ---- Text ------------------------------------------------------------------
# Documented losses depend on every byte of the text of the small
# configurations, so it must not change; see its README.
checks=$((checks + 1))
: >out
: >err
[ "$(cksum <"$configs/data/prose.txt")" = "4000939623 305782" ] ||
    fail 'configs/data/prose.txt is not the frozen text'
grep -n '^data_dir: *\.\.' "$configs"/*.yml "$configs"/*/*.yml >out &&
    fail 'a configuration learns what is outside of configs'
run 0 train "$configs/bert_tiny.yml" --dry-run
has out 'text: 1 file, 306 kB'

# Files that are not text are refused before any file is written. Data that is
# left out, changed or generated is reported once, before the first step.
text="--set layers=1 --set hidden=16 --set heads=2 --set seq_length=16"
text="$text --set eval_every=1 --set threads_per_stage=1 --set total_steps=2"
text="$text --set batch_size=64 --set vocab=260 --set synthetic_data=false"
mkdir text
awk 'BEGIN { for (i = 0; i < 200; i++) print "some words in line", i }' \
    >text/a.txt
cp text/a.txt text/b.rst
cp text/a.txt text/c.rst
cp text/a.txt text/d.tsv
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $text --set "data_dir=$PWD/text" \
    --output taken
[ "$(grep -cF "$PWD/text: 1 file taken as text; not taken: .rst 2, .tsv 1; from\
 a folder vpipe takes .c .h .md .txt .py .sh .cmake .yml" out)" = 1 ] ||
    fail 'not one line about what was not taken'
[ ! -s err ] || fail 'a notice is not an error'
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $text --set "data_dir=$PWD/text" \
    --output taken_quiet --quiet
[ ! -s out ] || fail '--quiet says what was not taken'
# shellcheck disable=SC2086
run 0 train "$configs/translation_tiny.yml" $text --dry-run \
    --set seq_length=64 --set "data_dir=$PWD/text/a.txt"
[ "$(grep -cF "$PWD/text/a.txt: the target of each line is made up from it (its\
 words in reverse order, a-z in upper case): an exercise, not a translation\
 data set" out)" = 1 ] || fail 'an exercise is not called so'
run 0 train "$configs/translation_tiny.yml" --dry-run
grep -q exercise out && fail 'generated pairs are called an exercise'

# A run with an evaluation reports at its end whether it has learned;
# --require-loss-below turns that into the exit status.
learn="$text --set data_dir=$PWD/text/a.txt --require-loss-below"
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $learn unigram --set total_steps=40 \
    --set eval_every=20 --set learning_rate=0.02 --output learned
line=' is 0\.[0-9]{3} of 2\.6969, the best guess without context$'
grep -qE "^learned   yes: held-out loss [01]\.[0-9]{4}$line" out ||
    fail 'a run does not say that it learned'
[ ! -s err ] || fail 'a run that learned writes to stderr'
# shellcheck disable=SC2086
run 1 train "$configs/gpt2_tiny.yml" $learn unigram --output unlearned
line=' is [2-9]\.[0-9]{3} of 2\.6969, the best guess without context$'
grep -qE "^learned   no: held-out loss [0-9.]+$line" out ||
    fail 'a run does not say that it did not learn'
grep -qE "^held-out loss [0-9.]+ is not below 2\.6969, the best guess without\
 context, as --require-loss-below requires; raise total_steps or change\
 learning_rate\$" err || fail 'no line about a loss that is too high'
[ -e unlearned/checkpoints/step-2/manifest.json ] ||
    fail 'a run that did not learn was not saved'
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $learn 9 --output limit --quiet
# shellcheck disable=SC2086
run 1 train "$configs/gpt2_tiny.yml" $learn 2.5 --output limit_missed --quiet
[ ! -s out ] || fail '--quiet prints the loss'
has err ' is not below 2.5000, as --require-loss-below requires; '
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about a loss above the limit'
# shellcheck disable=SC2086
run 1 train "$configs/gpt2_tiny.yml" $learn unigram --resume unlearned \
    --forward-only --quiet
has err ' is not below 2.6969, the best guess without context'
# shellcheck disable=SC2086
run 1 train "$configs/gpt2_tiny.yml" $learn unigram --set eval_every=5 \
    --output unasked --quiet
has err 'there is no held-out loss for --require-loss-below: the run ended before'
# shellcheck disable=SC2086
refuse "vpipe train: option '--require-loss-below' compares the held-out loss,\
 but eval_every is 0; set eval_every" train "$configs/gpt2_tiny.yml" $learn 9 \
    --set eval_every=0 --output unasked_too
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $learn unigram --dry-run

printf 'caf\351\n' >>text/a.txt
offset=$(($(wc -c <text/a.txt) - 2))
# shellcheck disable=SC2086
refuse "$PWD/text/a.txt: offset $offset (line 201): not UTF-8: E9; convert the\
 file, for example with 'iconv -f WINDOWS-1252 -t UTF-8 FILE -o NEW', or set\
 invalid_utf8: replace" train "$configs/gpt2_tiny.yml" $text \
    --set "data_dir=$PWD/text" --output latin
[ ! -e latin ] || fail 'a run on bytes that are not text left a folder'
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $text --set "data_dir=$PWD/text" \
    --set invalid_utf8=replace --output latin
[ "$(grep -cF "invalid_utf8 is replace: U+FFFD replaces 1 NUL byte or\
 invalid UTF-8 sequence in 1 file, the first in $PWD/text/a.txt, offset\
 $offset" out)" = 1 ] || fail 'not one line about what was replaced'
grep -q '^invalid_utf8: replace$' latin/config.yml ||
    fail 'config.yml does not keep invalid_utf8'

cp text/b.rst text/a.txt
cp text/b.rst text/train.bin
# shellcheck disable=SC2086
refuse "$PWD/text/train.bin: offset 0: does not begin with the number of\
 llm.c's token files (20240520 or 20240801); copy or write the file anew, or set\
 data_format: nanogpt if it holds uint16 ids without a header" \
    train "$configs/gpt2_tiny.yml" $text --set "data_dir=$PWD/text" \
    --set invalid_utf8=replace --output tokens
[ ! -e tokens ] || fail 'a run on token files left a folder'

# Token files, trained end to end.
golden=$configs/../tests/golden/tokens
run 0 train "$configs/gpt2_tiny.yml" --set "data_dir=$golden/nanogpt" \
    --set data_format=nanogpt --set seq_length=8 --set total_steps=3 \
    --output nanogpt
has out 'token files: 1 file, 300 tokens of uint16'
has out 'nanogpt: 1 token file taken; not taken: .pkl 1'
grep -q '^data_format: nanogpt$' nanogpt/config.yml ||
    fail 'config.yml does not keep data_format'

# Sentence pairs of fairseq.
pairs="--set data_dir=$configs/../tests/golden/fairseq/mmap --set vocab=64"
# shellcheck disable=SC2086
refuse "$configs/../tests/golden/fairseq/mmap: fairseq's dictionaries pad with\
 id 1, but pad_id is 0; set pad_id: 1" \
    train "$configs/translation_tiny.yml" $pairs
# shellcheck disable=SC2086
run 0 train "$configs/translation_tiny.yml" $pairs --set pad_id=1 \
    --set seq_length=16 --set total_steps=3 --output fairseq
has out 'fairseq: 301 sentence pairs, de to en'
grep -q '^required_batch_size_multiple: 16$' fairseq/config.yml ||
    fail 'config.yml does not keep required_batch_size_multiple'

# The table of docs/data.md lists exactly the keys and formats of the program.
run 0 train --help
data=$configs/../docs/data.md
# shellcheck disable=SC2016 # these are quotes of the document
for key in $(sed -n 's/^| \(`[a-z_0-9]*`\(, `[a-z_0-9]*`\)*\) | .*/\1/p' "$data" |
    tr -d '`,' | sort -u); do
    case $key in
    key | data_format | auto | text | hdf5 | llmc | nanogpt | megatron | \
        fairseq | chid | parallel) ;;
    *) grep -qE "^ *$key( |\$)" out || fail "docs/data.md: no key $key" ;;
    esac
done
for word in auto text hdf5 llmc nanogpt megatron fairseq chid parallel; do
    grep -q "^| \`$word\` |" "$data" || fail "docs/data.md: no format $word"
done
refuse "--set: key 'data_format' must be one of auto, text, hdf5, llmc, nanogpt,\
 megatron, fairseq, chid, parallel, not 'x'; write for example\
 'data_format=llmc'" train "$configs/gpt2_tiny.yml" --set data_format=x

end_cli
