#!/bin/bash
# Exported models load in transformers and give the logits of the folder that was
# imported; models that were trained from scratch load as well.
#   tests/system/hf_transformers.sh PROGRAM
# PYTHON names a Python with torch and transformers; exits with 77 without one.
set -u

program=$(realpath "${1:?usage: tests/system/hf_transformers.sh PROGRAM}")
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
python=${PYTHON:-python3}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1

if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    echo "SKIPPED: hf_transformers: $python has no torch and transformers;" \
        "set PYTHON"
    exit 77
fi

pairs=() # arguments of check_hf.py
for name in gpt2 gpt2_old bert bert_old bert_untied m2m m2m_untied; do
    "$program" import "$here/../golden/hf/$name" "$name.ckpt" >log 2>&1 &&
        "$program" export "$name.ckpt" "$name" >log 2>&1 ||
        { cat log; exit 1; }
    pairs+=("$name=$here/../golden/hf/$name")
done

for model in bert cpm translation; do
    for tied in true false; do
        echo "model_type: $model" >new.yml
        "$program" train new.yml --quiet --set tie_embeddings=$tied \
            --set vocab=264 --set hidden=16 --set layers=1 --set heads=2 \
            --set positions=16 --set seq_length=16 --set batch_size=16 \
            --set total_steps=1 --set device=cpu --output $model.$tied.run \
            >log 2>&1 &&
            "$program" export $model.$tied.run $model.$tied >log 2>&1 ||
            { cat log; exit 1; }
        pairs+=("$model.$tied")
    done
done
# The tokenizer of a run, and one of an imported model.
mkdir text
yes 'A line of a text that is long enough for a few windows.' | head -20 \
    >text/a.txt
for model in bert gpt2; do
    echo "model_type: $model" >new.yml
    "$program" train new.yml --quiet --set data_dir=text \
        --set tokenizer="$here/../golden/tokenizers/$model" --set hidden=16 \
        --set layers=1 --set heads=2 --set positions=16 --set seq_length=16 \
        --set batch_size=2 --set total_steps=1 --set device=cpu \
        --output $model.text.run >log 2>&1 &&
        "$program" export $model.text.run $model.text >log 2>&1 &&
        "$program" import $model.text $model.text.ckpt >log 2>&1 &&
        "$program" export $model.text.ckpt $model.text2 >log 2>&1 ||
        { cat log; exit 1; }
    pairs+=("$model.text2=$model.text")
done
cp -r "$here/../golden/hf/m2m" m2m.json
cp "$here/../golden/tokenizers/qwen2/tokenizer.json" m2m.json
"$program" import m2m.json m2m.json.ckpt >log 2>&1 &&
    "$program" export m2m.json.ckpt m2m.json2 >log 2>&1 || { cat log; exit 1; }
pairs+=(m2m.json2)

if ! "$python" "$here/../golden/check_hf.py" "${pairs[@]}" >log 2>&1; then
    tail -5 log
    exit 1
fi
echo 'hf_transformers.sh: all folders load'
