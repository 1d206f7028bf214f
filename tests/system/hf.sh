#!/bin/bash
# Hugging Face folders: import and export give the same bytes, fine-tuning gives the
# losses of PyTorch under any partition, and each mistake gives one line.
#   tests/system/hf.sh PROGRAM [MPIRUN]
set -u

program=$(realpath "${1:?usage: tests/system/hf.sh PROGRAM [MPIRUN]}")
mpirun=${2:-}
golden=$(cd "$(dirname "$0")/../golden/hf" && pwd -P) || exit 1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
checks=0
failures=0

fail()
{
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    printf '  stdout: %s\n' "$(head -c 400 out)"
    printf '  stderr: %s\n' "$(head -c 400 err)"
}

# run STATUS ARGUMENT...: leaves stdout in `out` and stderr in `err`.
run()
{
    local want=$1 got
    shift
    checks=$((checks + 1))
    "$program" "$@" >out 2>err </dev/null
    got=$?
    [ "$got" -eq "$want" ] || fail "exit $got, not $want: vpipe $*"
}

# refuse PATTERN ARGUMENT...: exit 2, and one line on stderr that matches the
# pattern.
refuse()
{
    local pattern=$1
    shift
    run 2 "$@"
    [ ! -s out ] || fail "stdout is not empty: vpipe $*"
    [ "$(wc -l <err)" -eq 1 ] || fail "not one line: vpipe $*"
    grep -qE "$pattern" err || fail "no '$pattern': vpipe $*"
}

# says TEXT: a line of stdout contains the text.
says()
{
    grep -qF "$1" out || fail "stdout does not say '$1'"
}

# same A B: both folders hold the same files.
same()
{
    checks=$((checks + 1))
    diff -r "$1" "$2" >diff.txt 2>&1 || fail "$1 and $2: $(head -1 diff.txt)"
}

# ---- Help and mistakes ------------------------------------------------------
for command in import export; do
    run 0 $command --help
    says "usage: vpipe $command"
    [ "$(awk '{ print length }' out | sort -n | tail -1)" -le 80 ] ||
        fail "the help of $command is wider than 80 columns"
    refuse "vpipe $command: name a" $command
    refuse "unexpected argument 'c'" $command a b c
    refuse 'a: ' $command a b
done
refuse "must be f32, f16 or bf16, not 'f8'" export a b --dtype f8
refuse "must be a size, not 'x'" export a b --shard-size x

# ---- Import and export ------------------------------------------------------
for name in gpt2 bert bert_untied m2m m2m_untied; do
    run 0 import "$golden/$name" "$name.ckpt"
    run 0 export "$name.ckpt" "$name.back"
    same "$golden/$name" "$name.back"
done
refuse 'gpt2.back: is not empty; name a new folder' export gpt2.ckpt gpt2.back
refuse 'gpt2.back: is not empty; name a new folder' import "$golden/gpt2" \
    gpt2.back
refuse 'is a Hugging Face folder already' export "$golden/gpt2" x
run 0 import "$golden/bert" note.ckpt
says 'tensors that are not trained: 4, such as bert.pooler.dense.bias'

# The files of a tokenizer are exported as well.
cp -r "$golden/gpt2" spoken
cp "$golden"/../tokenizers/gpt2/* spoken
run 0 import spoken spoken.ckpt
run 0 export spoken.ckpt spoken.back
same spoken spoken.back

# Old tensor names are exported under their present names, and stay so.
for name in gpt2_old bert_old; do
    run 0 import "$golden/$name" "$name.ckpt"
    cp out notes
    run 0 export "$name.ckpt" "$name.new"
    run 0 import "$name.new" "$name.ckpt2"
    [ "$(grep -c note: out)" -eq 0 ] || fail "$name: names are not today's"
    run 0 export "$name.ckpt2" "$name.new2"
    same "$name.new" "$name.new2"
    cp notes out
    says 'tensors with old names: '
    says 'buffers dropped: '
done
cp notes out
says 'embeddings.LayerNorm.beta as bert.embeddings.LayerNorm.bias'

# Shards of other sizes, and back to one file.
run 0 export gpt2.ckpt shards --shard-size 8K
[ -f shards/model.safetensors.index.json ] || fail 'no index'
[ "$(ls shards/model-*.safetensors | wc -l)" -gt 2 ] || fail 'too few shards'
run 0 import shards shards.ckpt
run 0 export shards.ckpt shards.back
same shards shards.back
run 0 export shards.ckpt whole --shard-size 1G
same "$golden/gpt2" whole
run 0 export bert_untied.ckpt halves --shard-size 4K # F16 weights
run 0 import halves halves.ckpt
run 0 export halves.ckpt halves.whole --shard-size 1G
same "$golden/bert_untied" halves.whole

# Other data types: a second rounding changes nothing.
for type in f16 bf16; do
    run 0 export gpt2.ckpt $type --dtype $type
    run 0 import $type $type.ckpt
    run 0 export $type.ckpt $type.back
    same $type $type.back
    run 0 export $type.ckpt $type.wide --dtype f32
    run 0 import $type.wide $type.wide.ckpt
    cmp -s $type.wide.ckpt/step-0/block-0001.safetensors \
        $type.ckpt/step-0/block-0001.safetensors || fail "$type is not exact"
done
grep -q '"dtype": "bfloat16"' bf16/config.json || fail 'no dtype'

# ---- Damage -----------------------------------------------------------------
cp -r "$golden/bert" broken
head -c 5000 "$golden/bert/model-00002-of-00004.safetensors" \
    >broken/model-00002-of-00004.safetensors
refuse 'model-00002-of-00004.safetensors: tensor .* are outside the' \
    import broken broken.ckpt
[ ! -e broken.ckpt ] || fail 'a refused import leaves a folder'
sed -i 's/"model-00003/"..\/model-00003/' broken/model.safetensors.index.json
refuse 'is not the name of a file in this folder' import broken broken.ckpt
refuse 'holds no checkpoint' export "$golden" x

# ---- Fine-tuning ------------------------------------------------------------
cat >fine.yml <<YAML
init: $golden/gpt2
data_dir: $golden/finetune
data_format: nanogpt
device: cpu
seq_length: 8
batch_size: 2
seed: 7
optimizer: adamw
learning_rate: 0.01
learning_rate_policy: constant
weight_decay: 0.01
beta1: 0.9
beta2: 0.999
eps: 1e-8
grad_clip: 0
total_steps: 6
accumulation_steps: 1
threads_per_stage: 1
YAML

# losses RUN: one per line, with all digits.
losses()
{
    sed -nE 's/.*"loss": ([0-9.]+).*/\1/p' "$1/metrics.jsonl"
}

# alike A B: both runs have bit-identical losses and final weights.
alike()
{
    checks=$((checks + 1))
    [ "$(losses "$1" | wc -l)" -eq 6 ] || fail "$1: not six losses"
    [ "$(losses "$1")" = "$(losses "$2")" ] || fail "$1, $2: other losses"
    for file in "$1"/checkpoints/step-6/block-*; do
        cmp -s "$file" "$2/checkpoints/step-6/${file##*/}" ||
            fail "$2: other weights in ${file##*/}"
    done
}

mkdir text
run 0 train fine.yml --quiet --output one
losses one | paste - "$golden/finetune_losses.txt" |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) bad = 1; n++ }
         END { exit bad || n != 6 }' || fail 'losses differ from those of PyTorch'
for stages in 2 4; do
    run 0 train fine.yml --quiet --set stages=$stages --output "local$stages"
    alike one "local$stages"
    [ -n "$mpirun" ] || continue
    run 0 train fine.yml --quiet --set stages=$stages \
        --set distributed_backend=mpi --output "mpi$stages"
    alike one "mpi$stages"
done
run 0 train fine.yml --quiet --set init=gpt2.ckpt --output from_ckpt
alike one from_ckpt
run 0 train fine.yml --quiet --resume gpt2.ckpt --output resumed
alike one resumed
run 0 train fine.yml --quiet --set checkpoint_every=2 --set export_every=4 \
    --output exports
alike one exports
[ "$(ls exports/export)" = step-4 ] || fail "exports: $(ls exports/export)"
run 0 export exports/checkpoints/step-4 step4
same step4 exports/export/step-4
# asp unties the embeddings: the first loss is the same, and the export is
# untied.
sed /accumulation_steps/d fine.yml >asp.yml
run 0 train asp.yml --set sync_mode=asp --set stages=3 --output asp
[ "$(losses asp | head -1)" = "$(losses one | head -1)" ] ||
    fail 'asp starts from other weights'
says 'the output layer starts as a copy of the token table'
run 0 export asp asp.model
grep -q '"tie_word_embeddings": false' asp.model/config.json ||
    fail 'the export of asp is tied'
run 0 import asp.model asp.ckpt
run 0 export one one.model
run 0 train fine.yml --quiet --set init=one.model --output two
run 0 train fine.yml --quiet --set init=one --output two_too
alike two two_too
[ "$(losses one | head -1)" != "$(losses two | head -1)" ] ||
    fail 'the export is not what was trained'
run 2 train fine.yml --set hidden=32 --output x
grep -q "key 'init': hidden is 32 (--set), but .* has 16; use --set hidden=16" \
    err || fail 'both numbers are not named'

refuse "key 'init' names 'nothing', which has no config.json" \
    train fine.yml --set init=nothing --output x
refuse "key 'init': .* holds neither a Hugging Face model nor a checkpoint" \
    train fine.yml --set init=text --set model_type=gpt2 --output x

# The run reports tensors that were not trained.
cat >bert.yml <<YAML
init: $golden/bert
synthetic_data: true
device: cpu
seq_length: 16
batch_size: 2
total_steps: 1
threads_per_stage: 1
YAML
run 0 train bert.yml --quiet --output bert_run
run 0 export bert_run bert_trained
says 'stale tensors: 4, such as bert.pooler.dense.bias'
run 0 import bert_trained bert_trained.ckpt

# ---- Models that were not imported ------------------------------------------
for i in 1 2 3 4 5 6 7 8 9; do
    echo "Line $i of a text that is long enough for a few windows of tokens."
done >text/a.txt
run 0 train <(echo 'model_type: bert') --quiet --set data_dir=text \
    --set tokenizer="$golden/../tokenizers/bert" --set hidden=16 \
    --set layers=1 --set heads=2 --set positions=16 --set seq_length=16 \
    --set batch_size=2 --set total_steps=1 --set device=cpu --output wordy
run 0 export wordy wordy.model
cmp -s "$golden/../tokenizers/bert/vocab.txt" wordy.model/vocab.txt ||
    fail 'no vocab.txt'
grep -q '"mask_token": "\[MASK\]"' wordy.model/tokenizer_config.json ||
    fail 'no tokenizer_config.json'
for model in 'bert tie_embeddings=false' 'bert tie_embeddings=true' \
    'cpm tie_embeddings=true' 'translation tie_embeddings=true' \
    'translation tie_embeddings=false'; do
    rm -rf new*
    run 0 train <(echo "model_type: ${model% *}") --quiet --set ${model#* } \
        --set vocab=264 --set hidden=16 --set layers=1 --set heads=2 \
        --set positions=16 --set seq_length=16 --set batch_size=16 \
        --set total_steps=1 --set device=cpu --output new
    run 0 export new new.model
    run 0 import new.model new.ckpt
    run 0 export new.ckpt new.back
    same new.model new.back
done

if [ "$failures" != 0 ]; then
    echo "hf.sh: $failures of $checks checks failed"
    exit 1
fi
echo "hf.sh: $checks checks passed"
