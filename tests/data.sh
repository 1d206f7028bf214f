#!/bin/sh
# `vpipe data` from outside: what the subcommands print, and that each mistake
# costs one line.
#   tests/data.sh build/vpipe
set -u

program=$(realpath "${1:?usage: tests/data.sh PROGRAM}")
tokenizers=$(cd "$(dirname "$0")/golden/tokenizers" && pwd -P) || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
checks=0
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    printf '  stdout: %s\n' "$(head -c 400 out)"
    printf '  stderr: %s\n' "$(head -c 400 err)"
}

# run STATUS ARGUMENT...: leaves stdout in `out` and stderr in `err`.
run() {
    want=$1
    shift
    checks=$((checks + 1))
    "$program" data "$@" >out 2>err </dev/null
    got=$?
    [ "$got" -eq "$want" ] || fail "exit $got, not $want: vpipe data $*"
}

# refuse MESSAGE ARGUMENT...: exit 2, nothing on stdout, just this on stderr.
refuse() {
    message=$1
    shift
    run 2 "$@"
    [ ! -s out ] || fail "stdout is not empty: vpipe data $*"
    printf '%s\n' "$message" >expected
    cmp -s expected err || fail "not the line '$message': vpipe data $*"
}

# same TEXT: stdout is this.
same() {
    printf "$1" >expected
    cmp -s expected out || fail "not the output '$1'"
}

# ---- Help and mistakes ------------------------------------------------------
run 0 --help
cp out help
for name in encode decode vocab; do
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
# Lines end at LF only; empty ones count; the last one needs no LF.
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
