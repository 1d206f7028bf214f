#!/bin/bash
# bench/tensor_memory.sh PROGRAM: memory of CPM-large on 8 ranks with mp_size 1, 2 and
# 4, without and with sequence_parallel, as priced by --dry-run, as a table in Markdown:
# of the rank with the most, and of all ranks together. Nothing is trained.
set -euo pipefail

program=$(realpath "${1:?usage: bench/tensor_memory.sh PROGRAM}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >large.yml <<'YAML'
model_type: cpm
size: large
device: cpu
precision: fp32
synthetic_data: true
seq_length: 696
batch_size: 1
optimizer: adam
tie_embeddings: false
YAML

# price MP_SIZE SETTING...: a row of the table
price()
{
    local n=$1

    shift
    "$program" train large.yml --dry-run --set mp_size="$n" \
        --set stages=$((8 / n)) "$@" >out 2>err || { cat err >&2; exit 1; }
    awk -v n="$n" -v mode="$*" '
        function gib(number, unit) {
            return number / (unit == "GiB" ? 1 : unit == "MiB" ? 1024 : 1048576)
        }
        /^stage [0-9]+ / {
            total = gib($3, $4)
            if (total > most) most = total
            all += n * total
            for (i = 5; i <= NF - 2; i++) {
                kind = $i
                sub(/^\(/, "", kind)
                if (kind == "weights" || kind == "activations")
                    sum[kind] += n * gib($(i + 1), substr($(i + 2), 1, 3))
            }
        }
        END {
            printf "| %s | %d | %s | %d | %.1f | %.1f | %.1f | %.1f |\n",
                mode ~ /asp/ ? "asp" : "bsp", n,
                mode ~ /sequence_parallel/ ? "yes" : "no", 8 / n, most, all,
                sum["weights"], sum["activations"]
        }' out
}

echo '| training | `mp_size` | slices | stages | largest rank | all ranks | weights | activations |'
echo '| --- | --- | --- | --- | --- | --- | --- | --- |'
for mode in accumulation_steps=8 sync_mode=asp; do
    for n in 1 2 4; do
        price $n --set "$mode"
        [ $n = 1 ] || price $n --set "$mode" --set sequence_parallel=true
    done
done
