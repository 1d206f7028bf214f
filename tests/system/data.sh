#!/bin/sh
# `vpipe data`: the output of its subcommands is right, and each mistake gives one line.
#   tests/system/data.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/system/data.sh PROGRAM}")
tokenizers=$(cd "$(dirname "$0")/../golden/tokenizers" && pwd -P) || exit 1
tokens=$(cd "$(dirname "$0")/../golden/tokens" && pwd -P) || exit 1
subcommand=data
. "$(dirname "$0")/tool_lib.sh"

# same TEXT: stdout is exactly this text.
same() {
    printf "$1" >expected
    cmp -s expected out || fail "not the output '$1'"
}

# ---- Help and mistakes ------------------------------------------------------
run 0 --help
cp out help
for name in bert convert encode decode gpt inspect pairs vocab; do
    grep -q "^  $name " help || fail "no $name in the help"
    run 0 $name --help
    grep -q "usage: vpipe data $name" out || fail "no usage of $name"
    [ "$(awk '{ print length }' out | sort -n | tail -1)" -le 80 ] ||
        fail "the help of $name is wider than 80 columns"
done
run 2
refuse "vpipe data: unknown subcommand 'encod'; did you mean 'encode'?" encod
refuse "vpipe data encode: no tokenizer; write '--tokenizer DIR'" encode x
refuse "vpipe data encode: no file; name one, or '-' for the standard input" \
    encode --tokenizer x
refuse "vpipe data encode: x: cannot be opened: No such file or directory; \
check the path" encode --tokenizer x y
refuse "vpipe data decode: nothing: cannot be opened: No such file or \
directory; check the path" decode --tokenizer "$tokenizers/gpt2" nothing
refuse "vpipe data vocab: no folder for the files; write '--out DIR'" vocab x
refuse "vpipe data vocab: unknown type 'unigram'; write '--type bpe' or \
'--type wordpiece'" vocab --type unigram

# ---- encode, decode ---------------------------------------------------------
# Only LF ends a line; empty lines count; the last line needs no LF.
printf 'a b\n\n\rb<|endoftext|>\r\na' >text
run 0 encode --tokenizer "$tokenizers/gpt2" text
same '65 346\n\n202 66 0 202\n65\n'
cp out ids
run 0 decode --tokenizer "$tokenizers/gpt2" ids
same 'a b\n\n\rb<|endoftext|>\r\na\n'
run 0 decode --tokenizer "$tokenizers/gpt2" --skip-special ids
same 'a b\n\n\rb\r\na\n'
run 0 encode --ordinary --tokenizer "$tokenizers/gpt2" text
[ "$(sed -n 3p out | wc -w)" -gt 8 ] || fail 'a special token in ordinary text'
"$program" data encode --tokenizer "$tokenizers/gpt2" - <text >out 2>err
cmp -s out ids || fail 'other ids from the standard input'
printf '65 x\n' >bad
refuse "vpipe data decode: bad:1: 'x' is no token id; write numbers and \
spaces" decode --tokenizer "$tokenizers/gpt2" bad
printf '65\n65 2000\n' >bad
"$program" data decode --tokenizer "$tokenizers/gpt2" bad >out 2>err
grep -q '^vpipe data decode: bad:2: id 2000 is no token' err ||
    fail 'no line of an unknown id'

# ---- gpt --------------------------------------------------------------------
# ids_of FILE: the ids of a shard.
ids_of() {
    tail -c +1025 "$1" | od -An -v -tu2 | tr -s ' \n' ' '
}

refuse "vpipe data gpt: no tokenizer; write '--tokenizer DIR'" gpt x
refuse "vpipe data gpt: no folder for the shards; write '--out FOLDER'" \
    gpt --tokenizer x
refuse "vpipe data gpt: no text; name one or more files" \
    gpt --tokenizer x --out y
refuse "vpipe data gpt: option '--valid' must be a number from 0 to 0.5, not \
'0.6'; write for example '--valid 0.01'" gpt --valid 0.6
refuse "vpipe data gpt: 'a/b' cannot be the name of shards; write letters, for \
example '--name wiki'" gpt --tokenizer x --out y --name a/b z
printf '{"text": "a"}\n{"text": "b"}\n{"words": "b"}\n' >few.jsonl
refuse "vpipe data gpt: few.jsonl: offset 28 (line 3): has no such key; \
correct the line, or set the key of the text (now 'text')" \
    gpt --tokenizer "$tokenizers/gpt2" --out set few.jsonl
[ ! -e set ] || fail 'a folder is left after an error'
refuse "vpipe data gpt: the tokenizer has no token that begins or ends a text; \
name one with '--end-of-text ID'" \
    gpt --tokenizer "$tokenizers/bert" --out set few.jsonl
sed -i '$d' few.jsonl
run 0 gpt --tokenizer "$tokenizers/gpt2" --out set/ --valid 0.5 few.jsonl
same "set/: 2 documents, 4 tokens, 1 shard for training; for evaluation 1 \
documents, 2 tokens\n"
[ "$(ids_of set/set_train_000000.bin)" = ' 0 65 ' ] || fail 'other ids to train'
[ "$(ids_of set/set_val_000000.bin)" = ' 0 66 ' ] || fail 'other ids held out'
run 0 gpt --tokenizer "$tokenizers/gpt2" --out set --name x --end-of-text 7 \
    --shard-tokens 3 few.jsonl
[ "$(ids_of set/x_train_000000.bin)" = ' 7 65 7 ' ] || fail 'no full shard'
[ "$(ids_of set/x_train_000001.bin)" = ' 66 ' ] || fail 'no second shard'

# SIGTERM while shards are written.
yes 'the quick brown fox jumps over the lazy dog' | head -c 200000000 >long
checks=$((checks + 1))
"$program" data gpt --tokenizer "$tokenizers/gpt2" --out killed --threads 1 \
    --shard-tokens 1000000 long >out 2>err </dev/null &
while [ ! -e killed/.killed.partial/killed_train_000000.bin ] &&
    kill -0 $! 2>/dev/null; do
    sleep 0.01
done
kill -TERM $!
wait $!
[ $? = 3 ] || fail 'a signal does not end the work with 3'
[ ! -e killed ] || fail 'something is left after a signal'
printf 'vpipe data gpt: stopped by a signal; nothing was written\n' >expected
cmp -s expected err || fail 'not one line about the signal'
rm long

# ---- inspect ----------------------------------------------------------------
refuse "vpipe data inspect: no file; name one" inspect
refuse "vpipe data inspect: nothing: cannot be read: No such file or \
directory; check the path" inspect nothing
run 0 inspect set/set_val_000000.bin --tokenizer "$tokenizers/gpt2"
same 'format      llmc, token ids of uint16
tokens      2
documents   1
vocabulary  2 different ids, the largest is 66
samples     <|endoftext|>b\n'
run 0 inspect -n 1 "$tokens/megatron/my_text_document.idx"
cut -c 1-70 out >cut && mv cut out
same 'format      megatron, token ids of uint16
tokens      500
documents   37
vocabulary  499 different ids, the largest is 50224
samples     18347 41969 36697 28724 35546 19111 10737 16818 43521 1015\n'
refuse "vpipe data inspect: $tokens/nanogpt/meta.pkl: is a Python pickle by \
its name (.pkl), which vpipe does not read because a pickle can run programs; \
set data_dir to data in another format" inspect "$tokens/nanogpt/meta.pkl"
printf '{"text": "a\\u001b[2J\\n\\u009bb"}\n' >escape.jsonl
run 0 inspect escape.jsonl
same 'format      text
samples     a\\x1B[2J\\n\\xC2\\x9Bb
documents   1
bytes       9 in UTF-8\n'
head -c 1688 "$tokens/llmc/tiny_train_000001.bin" >short.bin
refuse "vpipe data inspect: short.bin: offset 8: the header counts 333 tokens \
of uint16, but the file has 1688 bytes and not 1690; copy or write the file \
anew" inspect short.bin
printf 'Eins\tOne\nZwei\tTwo \033[2J\n\tno\n' >pairs.tsv
run 0 inspect pairs.tsv -n 1
same 'format      parallel
samples     Eins
  target    One
pairs       2, 1 with an empty side
bytes       8 and 11 in UTF-8\n'
printf '{"translation": {"de": "Ja", "en": "Yes"}}\n' >pairs.jsonl
run 0 inspect pairs.jsonl --source-lang de --target-lang en
same 'format      parallel
samples     Ja
  target    Yes
pairs       1, 0 with an empty side
bytes       2 and 3 in UTF-8\n'
printf 'Ja\n' >pair.de
printf 'Yes\nNo\n' >pair.en
run 2 inspect pair.de pair.en
grep -q 'pair.de: has no line 2, but pair.en has one; line i of both' err ||
    fail 'files of different lengths'
run 0 inspect "$tokens/../chid/dev.json" -n 0
grep -q '^sentences ' out || fail 'CHID is not counted'
refuse "vpipe data inspect: one language; write --source-lang and --target-lang" \
    inspect pairs.jsonl --source-lang de

# ---- bert and pairs ---------------------------------------------------------
printf 'A first sentence.\nA second one.\n\nAnother text. It goes on.\n' >b.txt
run 0 bert --tokenizer "$tokenizers/bert" --out shards --seq-length 32 b.txt
run 0 inspect shards/shards_training_000000.hdf5 --tokenizer "$tokenizers/bert" \
    -n 1
grep -q '^samples     \[CLS\] ' out || fail 'no sample of BERT'
refuse "vpipe data bert: no tokenizer; write '--tokenizer DIR'" bert x
refuse "vpipe data bert: the tokenizer has no [PAD] token, which BERT needs; \
choose a tokenizer of BERT (vocab.txt), or make one with 'vpipe data vocab \
--type wordpiece'" bert --tokenizer "$tokenizers/gpt2" --out no b.txt
refuse "vpipe data bert: option '--seq-length' must be a whole number from 8 to \
65536, not '7'" bert --seq-length 7 x
refuse "vpipe data bert: unknown style 'x'; write '--sentences lines' or \
'prose', or leave it out" bert --sentences x y
[ ! -e no ] || fail 'a folder is left'
printf 'Ja.\nNein.\n' >train.de
printf 'Yes.\nNo.\n' >train.en
run 0 pairs --tokenizer "$tokenizers/bert" --out pairs train.de train.en
[ "$(ls pairs | tr '\n' ' ')" = "dict.de.txt dict.en.txt train.de-en.de.bin \
train.de-en.de.idx train.de-en.en.bin train.de-en.en.idx " ] ||
    fail 'other files of pairs'
refuse "vpipe data pairs: no two languages; write for example '--source-lang de \
--target-lang en'" pairs --tokenizer "$tokenizers/bert" --out no pairs.tsv
refuse "vpipe data pairs: three files; give two with a sentence on each line, or \
one .tsv or .jsonl" pairs x y z

# ---- convert ----------------------------------------------------------------
refuse "vpipe data convert: no files; give IN and OUT" convert x
refuse "vpipe data convert: 'y' does not end in .bin, as files of the format \
llmc do; name it so" convert x y
refuse "vpipe data convert: 'y.bin' does not end in .idx, as files of the format \
fairseq do; name it so" convert x y.bin --to fairseq
refuse "vpipe data convert: set/set_val_000000.bin: is there already; remove \
it, or name another file" convert x set/set_val_000000.bin
# Files of llm.c are unchanged; those of nanoGPT hold the same ids.
for file in llmc/tiny_train_000001 llama3/all; do
    rm -f new.bin
    run 0 convert "$tokens/$file.bin" new.bin
    cmp -s "$tokens/$file.bin" new.bin || fail "$file.bin has changed"
done
rm new.bin
run 0 convert --format nanogpt "$tokens/nanogpt/train.bin" new.bin
tail -c +1025 new.bin | cmp -s - "$tokens/nanogpt/train.bin" ||
    fail 'other ids than those of nanoGPT'
# Both layouts of fairseq hold the same ids.
run 0 convert "$tokens/fairseq/train.idx" mmap.bin
same 'mmap.bin: 433 tokens, from fairseq to llmc\n'
run 0 convert "$tokens/legacy/train.bin" legacy.bin
cmp -s mmap.bin legacy.bin || fail 'other ids of the legacy layout'
run 0 convert --end-of-text 65536 "$tokens/fairseq/train.idx" ends.bin
same 'ends.bin: 466 tokens, from fairseq to llmc\n'
[ "$(wc -c <ends.bin)" = $((1024 + 4 * 466)) ] || fail 'no uint32 ids'
[ "$(tail -c +1025 ends.bin | od -An -v -tu4 -w4 | grep -c 65536)" = 33 ] ||
    fail 'not an id before every document'
refuse "vpipe data convert: $tokens/llmc/tiny_val_000000.bin: neither file \
has an index of documents; leave --end-of-text out" \
    convert --end-of-text 1 "$tokens/llmc/tiny_val_000000.bin" no.bin
# Conversion to other formats and back gives the same bytes.
run 0 convert "$tokens/llmc/tiny_val_000000.bin" plain.bin --to nanogpt
tail -c +1025 "$tokens/llmc/tiny_val_000000.bin" | cmp - plain.bin ||
    fail 'other ids without a header'
run 0 convert plain.bin back.bin --format nanogpt
cmp "$tokens/llmc/tiny_val_000000.bin" back.bin || fail 'not the same back'
run 0 convert "$tokens/fairseq/train.idx" again.idx --to fairseq
cmp "$tokens/fairseq/train.idx" again.idx || fail 'another index of fairseq'
cmp "$tokens/fairseq/train.bin" again.bin || fail 'other ids of fairseq'
run 0 convert "$tokens/fairseq/train.idx" there.idx
run 0 convert there.idx home.idx --to fairseq
cmp "$tokens/fairseq/train.idx" home.idx || fail 'Megatron-LM: another index'
cmp "$tokens/fairseq/train.bin" home.bin || fail 'Megatron-LM: other ids'
run 0 convert ends.bin cut.idx --to fairseq --end-of-text 65536
run 0 convert cut.idx uncut.bin --end-of-text 65536
cmp ends.bin uncut.bin || fail 'documents are cut elsewhere'
refuse "vpipe data convert: ends.bin: is there already; remove it, or name \
another file" convert x ends.idx
refuse "vpipe data convert: there.idx: both files have an index, which separates \
documents; leave --end-of-text out" convert there.idx no.idx --end-of-text 1
refuse "vpipe data convert: wide.bin: files of nanoGPT hold ids up to 65535, but \
one is 65536; choose another format" convert ends.bin wide.bin --to nanogpt
refuse "vpipe data convert: few.jsonl: holds text, not token ids; name a \
token file" convert few.jsonl no.bin
[ ! -e no.bin ] && [ ! -e no.bin.partial ] || fail 'a file is left'

# ---- Training on text -------------------------------------------------------
# The first run encodes the text, the second one finds the ids; losses equal
# those of training on shards made with `vpipe data gpt`.
mkdir corpus
cat "$tokenizers"/gpt2/merges.txt "$tokenizers"/gpt2/vocab.json >corpus/a.txt
cat >text.yml <<EOF
model_type: gpt2
hidden: 16
layers: 1
heads: 2
seq_length: 16
total_steps: 3
data_dir: corpus
tokenizer: $tokenizers/gpt2
EOF
for number in 1 2; do
    checks=$((checks + 1))
    "$program" train text.yml --output "run$number" >out 2>err </dev/null ||
        fail 'cannot train on text'
    grep '^tokenizer: ' out >"said$number"
done
grep -q '^tokenizer: 1 documents encoded to [0-9]* tokens, kept in ' said1 ||
    fail 'the first run does not encode'
grep -q '^tokenizer: tokens of an earlier run in ' said2 ||
    fail 'the second run encodes again'
grep -q '^vocab: 2000$' run1/config.yml || fail 'not the size of the tokenizer'
run 0 gpt --tokenizer "$tokenizers/gpt2" --out made corpus/a.txt
"$program" train text.yml --set data_dir=made --output run3 >out 2>err \
    </dev/null || fail 'cannot train on shards'
for number in 1 2 3; do
    grep -o '"loss":[^,]*' "run$number/metrics.jsonl" >"loss$number"
done
[ -s loss1 ] && cmp -s loss1 loss2 && cmp -s loss1 loss3 ||
    fail 'other losses of the same tokens'

# ---- vocab ------------------------------------------------------------------
yes 'the quick brown fox jumps over the lazy dog' | head -n 50 >text
run 0 vocab --type bpe --size 280 --out bpe text
same 'bpe: 280 tokens, 23 merges, from 10 different words\n'
run 0 encode --tokenizer bpe text
[ "$(head -n 1 out | wc -w)" -lt 44 ] || fail 'nothing was merged'
run 0 vocab --type wordpiece --size 80 --out words text
run 0 encode --tokenizer words/vocab.txt text
cp out ids
run 0 encode --tokenizer words text
cmp -s out ids || fail 'vocab.txt and tokenizer.json give other ids'
[ ! -e words/vocab.txt.tmp ] || fail 'a temporary file is left'
refuse "vpipe data vocab: special tokens and single characters are 257 \
tokens, more than 100; ask for more tokens" vocab --size 100 --out new text
[ ! -e new ] || fail 'a folder is left'
: >text
refuse "vpipe data vocab: the files hold no words; give text" \
    vocab --out new text

echo "data: $checks checks, $failures failures"
[ $failures = 0 ]
