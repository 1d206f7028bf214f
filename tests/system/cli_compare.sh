#!/bin/sh
# vpipe compare prints its table, draws its picture, and refuses configurations that
# cannot be compared.
#   tests/system/cli_compare.sh PROGRAM
set -u

. "$(dirname "$0")/cli_lib.sh"

# ---- Comparisons -----------------------------------------------------------
small="--set layers=1 --set hidden=16 --set heads=2 --set seq_length=16"
small="$small --set batch_size=2 --set threads_per_stage=1"

# Both methods train on the same number of samples: 2 updates of 8 minibatches,
# and 16 updates.
# shellcheck disable=SC2086
run 0 compare "$configs/compare/gpipe.yml" "$configs/compare/vpipe.yml" \
    $small --set 'partition=[2, 1]' --max-steps 2 --output compared
[ ! -s err ] || fail 'a good comparison writes to stderr'
tr -s ' ' <out >columns
has columns ' mb per samples/s ms per comm. bubble simulated bubble largest last'
has columns "name stages ranks batch step median (least..most) tokens/s step %\
 % samples/s % stage loss"
number='[0-9]+(\.[0-9]+)?'
row=" +2 +2 +2 +(8|1) +$number \\($number\\.\\.$number\\)( +-?$number){6}"
row="$row +$number [KM]iB +$number\$"
for name in gpipe vpipe; do
    [ "$(grep -cE "^$name$row" out)" -eq 1 ] || fail "no row of $name"
    grep -qE "^$name +$number [KM]iB, $number [KM]iB\$" out ||
        fail "no memory of $name"
done
grep -qE '^measured  (gpipe > vpipe|vpipe > gpipe)$' out || fail 'no order'
[ "$(n_steps compared/gpipe/metrics.jsonl)" -eq 2 ] || fail 'gpipe: not 2 steps'
[ "$(n_steps compared/vpipe/metrics.jsonl)" -eq 16 ] || fail 'vpipe: not 16'

# well_formed FILE: one svg element, in which tags are closed in order.
well_formed() {
    [ -s "$1" ] || fail "no picture $1"
    tr '\n' ' ' <"$1" | sed 's/</\n</g' | awk '
        NR == 1 { if ($0 ~ /[^ ]/) exit bad = 1; next }
        depth == 0 && seen { exit bad = 1 }
        !match($0, /^<\/?[a-z]+/) || $0 !~ />/ { exit bad = 1 }
        {
            name = substr($0, 2, RLENGTH - 1)
            tag = substr($0, 1, index($0, ">"))
            text = substr($0, length(tag) + 1)
            gsub(/&(amp|lt|gt|quot|#[0-9]+);/, "", text)
            if (text ~ /[&>]/ || gsub(/"/, "\"", tag) % 2) exit bad = 1
            if (name ~ /^\//) {
                if (open[depth--] != substr(name, 2)) exit bad = 1
            } else if (tag !~ /\/>$/) open[++depth] = name
            if (!seen++ && name != "svg") exit bad = 1
        }
        END { exit bad || depth != 0 || !seen }' || fail "$1 is not well-formed"
}
well_formed compared/compare.svg
for word in gpipe vpipe '</svg>'; do
    has compared/compare.svg "$word"
done
# shellcheck disable=SC2086
run 0 compare "$configs/compare/gpipe.yml" $small --set 'partition=[2, 1]' \
    --max-steps 1 --quiet --output alone --svg picture.svg
well_formed picture.svg
[ ! -e alone/compare.svg ] || fail '--svg: a picture in the folder, too'
cmp -s out alone/compare.txt || fail '--quiet prints more than the table'

# The original's three files with a narrow model: asp cannot tie embeddings, so
# bsp does not tie them either.
original="$configs/bert_4vpipe.yml $configs/bert_4gpipe.yml"
original="$original $configs/bert_4pipedream.yml"
narrow="--set hidden=16 --set ffn=32 --set heads=2 --set vocab=200"
narrow="$narrow --set positions=16 --set seq_length=16 --set max_pred=4"
narrow="$narrow --set batch_size=2 --set threads_per_stage=1"
untied="note: tie_embeddings is set to false in all of them, as in\
 $configs/bert_4vpipe.yml: stages cannot share weights in sync_mode asp"
# shellcheck disable=SC2086
run 0 compare $original $narrow --set synthetic_data=true --max-steps 32 \
    --output original
[ ! -s err ] || fail 'the comparison of the original writes to stderr'
[ "$(grep -cxF "$untied" out)" = 1 ] || fail 'not one line about ties'
for name in bert_4vpipe bert_4gpipe bert_4pipedream; do
    grep -q '^tie_embeddings: false$' "original/$name/config.yml" ||
        fail "$name: tied"
    [ -s "original/$name/metrics.jsonl" ] || fail "$name did not run"
done
# Tied embeddings that the user asks for are still refused.
# shellcheck disable=SC2086
run 2 compare "$configs/bert_4gpipe.yml" "$configs/compare/gpipe.yml" $narrow
grep -q 'tie_embeddings' out && fail 'ties of different models'
sed "s/'model_type'/'tie_embeddings': True\n&/" "$configs/bert_4gpipe.yml" |
    sed "s|^'directory'.*|'directory': '$configs/bert'|" >tied.yml
# shellcheck disable=SC2086
run 2 compare tied.yml "$configs/bert_4vpipe.yml" $narrow
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about ties'
has err "$configs/bert_4vpipe.yml: tie_embeddings is false, but true in tied.yml:"
# At full size they are planned without the data and without enough memory.
# shellcheck disable=SC2086
run 0 compare $original --memory-limit 1T
[ "$(grep -cE '^bert_4(vpipe|gpipe|pipedream) +[0-9]+$' out)" = 3 ] ||
    fail 'not one batch per file'
[ "$(grep -cE '^note: bert_4[a-z]+: for that batch this machine lacks: memory ' \
    out)" = 3 ] || fail 'not one line each about what is lacking'

refuse "none.yml: cannot be opened: No such file or directory; check the path" \
    compare "$configs/compare/gpipe.yml" none.yml
refuse "vpipe compare: no/x.svg: cannot be written (No such file or directory);\
 choose another place" compare "$configs/compare/gpipe.yml" --svg no/x.svg
refuse "vpipe compare: no configurations; write for example 'vpipe compare\
 $configs/compare/gpipe.yml $configs/compare/vpipe.yml'" compare
# shellcheck disable=SC2086
run 1 compare "$configs/compare/gpipe.yml" "$configs/compare/vpipe.yml" \
    $small --set 'partition=[2, 1]' --set learning_rate=100 \
    --set grad_clip=0 --set optimizer=sgd --set lr_warmup=0 --output failed
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about the failed run'
has err 'non-finite '

end_cli
