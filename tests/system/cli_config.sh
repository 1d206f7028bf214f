#!/bin/sh
# Each mistake in a configuration gives one line. A plan reports what this machine
# lacks, and a run that does not fit is refused before training.
#   tests/system/cli_config.sh PROGRAM [FOLDER OF AN OLD GPU DRIVER]
set -u

old_driver=${2:-}
[ -z "$old_driver" ] || old_driver=$(cd "$old_driver" && pwd) || exit 1
. "$(dirname "$0")/cli_lib.sh"

# lacks TEXT: one line of a dry run reports what this machine lacks, with TEXT.
lacks() {
    [ "$(grep -c '^this machine lacks: ' out)" = 1 ] ||
        fail 'not one line about what is lacking'
    grep '^this machine lacks: ' out | grep -qF -- "$1" || fail "not lacking: $1"
    has out 'dry run: the configuration is good'
    [ ! -s err ] || fail 'what is lacking is no error'
}

# ---- Mistakes in a configuration -------------------------------------------
refuse "$configs/bert/vgpus=4/vpipe.json: key 'model_type' is missing; add one\
 of bert, gpt2, cpm, translation, for example 'model_type: bert', or give a plan\
 by '--set partition=FILE'" train "$configs/bert/vgpus=4/vpipe.json"
refuse "--set: masked LM: seq_length is 1, but 3 positions are special; set it to\
 4 or more" train "$configs/bert_tiny.yml" --set seq_length=1 --dry-run
refuse 'none.yml: cannot be opened: No such file or directory; check the path' \
    train none.yml
refuse 'none.yml: cannot be opened: No such file or directory; check the path' \
    train --config_file none.yml
refuse '.: cannot be read: Is a directory; give a YAML file' train .
: >empty.yml
refuse "empty.yml: the file holds no configuration; write at least\
 'model_type: bert'" train empty.yml
printf 'model_type: bert\nlaers: 2\n' >a.yml
refuse "a.yml:2: unknown key 'laers'; did you mean 'layers'?" train a.yml
refuse "a.yml:2: unknown key 'laers'; did you mean 'layers'?" \
    train a.yml --dry-run --quiet
printf 'model_type: bert\nbatch_size: 8.5\n' >a.yml
refuse "a.yml:2: key 'batch_size' must be a whole number from 1 to 16777216,\
 not '8.5'; write for example 'batch_size: 8'" train a.yml
refuse "--set: key 'batch_size' must be a whole number from 1 to 16777216,\
 not '0'; write for example 'batch_size=8'" train a.yml --set batch_size=0
refuse "--set: vocab is 100, but text needs 260 ids (256 bytes and 4 special\
 ones); set vocab to 260 or more" train "$configs/bert_tiny.yml" --dry-run \
    --set vocab=100
refuse "--set: vocab is 9, which the generated language cannot have; set it\
 between 19 and 2147483647" train "$configs/bert_tiny.yml" --dry-run \
    --set vocab=9 --set synthetic_data=true
refuse "--set: key 'device' must be one of auto, cpu, cuda, not 'cuda:1'; numbers\
 of GPUs belong to machines, one entry per rank, for example ['localhost:1']" \
    train "$configs/bert_tiny.yml" --set device=cuda:1
printf 'model_type: bert\nswap: true\n' >a.yml
refuse "a.yml:2: key 'swap' is known but not supported by this version yet;\
 remove it" train a.yml
printf 'model_type: bert\ndevice: cpu\nprecision: fp16\n' >a.yml
refuse "a.yml:3: key 'precision': only fp32 and bf16 run on a CPU (no GPU is\
 used); set precision: bf16" train a.yml
refuse "a.yml:3: key 'precision': only fp32 and bf16 run on a CPU (no GPU is\
 used); set precision: bf16" train a.yml --dry-run
if [ ! -e /dev/nvidia0 ]; then
    run 2 train a.yml --set device=cuda
    has err '--set: device cuda: '
    [ "$(wc -l <err)" = 1 ] || fail 'more than a line about a missing GPU'
    run 2 train a.yml --set device=auto
    has err "a.yml:3: key 'precision': only fp32 and bf16 run on a CPU ("
    # A dry run needs no GPU.
    for device in cuda auto; do
        run 0 train a.yml --set device=$device --dry-run
        lacks GPU
        has out 'stage 0 '
    done
fi
if [ -n "$old_driver" ]; then
    export LD_LIBRARY_PATH="$old_driver"
    run 2 train a.yml --set device=cuda
    has err '--set: device cuda: the NVIDIA driver supports CUDA up to 12.2, and '
    [ "$(wc -l <err)" = 1 ] || fail 'more than a line about an old driver'
    run 0 info
    has out 'no GPU      the NVIDIA driver supports CUDA up to 12.2, and '
    unset LD_LIBRARY_PATH
fi

export VPIPE_ISA=sse9
refuse "VPIPE_ISA: unknown instruction set 'sse9'; use plain, avx2, avx512,\
 avx512_bf16 or amx_bf16" \
    train a.yml --set precision=fp32
unset VPIPE_ISA

printf 'model_type: bert\nlayers: 4\npartition: [3, 3, 2]\n' >a.yml
refuse "a.yml:3: key 'partition' has 8 blocks, but the model has 9; make them\
 equal, or leave partition out" train a.yml --dry-run
refuse "a.yml:3: key 'partition' has 3 entries for 4 stages; give one each" \
    train a.yml --set stages=4
refuse "--set: key 'schedule' is gpipe, which needs sync_mode bsp; set that,\
 or use pipedream" train a.yml --set 'partition=[3, 3, 3]' \
    --set sync_mode=asp --set schedule=gpipe

# A plan above memory_limit is refused before training.
# shellcheck disable=SC2086
run 2 train "$configs/bert_tiny.yml" $pipe --set memory_limit=1K --output big
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about memory'
grep -qE '^--set: stage 0 needs [0-9.]+ [KM]iB \(.*\), memory_limit is 1 KiB; ' err ||
    fail 'not what a stage needs and may have'
[ ! -e big ] || fail 'a refused run wrote a folder'
# So is one that needs more memory than the machine has.
run 2 train "$configs/bert_one.yml" --output huge --set device=cpu \
    --set synthetic_data=true --set batch_size=400000 --set seq_length=64 \
    --set hidden=8192 --set heads=64 --set layers=24
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about room'
has err '--set: the stages here and the copies to save them need 191 TiB, '
has err ' left; no batch_size or recompute_ratio makes it fit: use a machine with'
[ ! -e huge ] || fail 'a run that does not fit has left a folder'
# A dry run may plan for another machine.
run 0 train "$configs/bert_one.yml" --dry-run --set device=cpu \
    --set synthetic_data=true --set batch_size=400000 --set seq_length=64 \
    --set hidden=8192 --set heads=64 --set layers=24
lacks 'memory (191 TiB needed, '
# memory_limit also applies to a dry run.
# shellcheck disable=SC2086
run 2 train "$configs/bert_tiny.yml" $pipe --set memory_limit=1K --dry-run
has err ', memory_limit is 1 KiB; '
# The batch_size that the message suggests fits.
room="--set device=cpu --set synthetic_data=true --set seq_length=64"
# shellcheck disable=SC2086
run 2 train "$configs/bert_one.yml" --output huge $room \
    --set batch_size=16777216
batch=$(sed -nE 's/.* left; use batch_size ([0-9]+)$/\1/p' err)
[ -n "$batch" ] || fail 'no batch_size that fits'
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" --dry-run $room --set "batch_size=$batch"
# The memory of other machines is unknown here.
for hosts in localhost a; do
    big="--set device=cpu --set synthetic_data=true --set batch_size=10000000"
    big="$big --set distributed_backend=mpi"
    big="$big --set machines=[$hosts:0,$hosts:0,$hosts:0,$hosts:0]"
    # shellcheck disable=SC2086
    run 0 train "$configs/bert_tiny.yml" --dry-run $big
    if [ $hosts = localhost ]; then
        lacks 'memory ('
        # shellcheck disable=SC2086
        run 2 train "$configs/bert_tiny.yml" $big
        has err ' left; use batch_size '
    else
        grep -F 'memory (' out | grep lacks && fail 'memory of another host'
    fi
done
# A plan depends on the data only for its length.
refuse "--set: key 'data_dir' names 'nowhere', which cannot be read: No such\
 file or directory; generate data with --set synthetic_data=true, or correct\
 the path" train "$configs/bert_tiny.yml" --set data_dir=nowhere
run 0 train "$configs/bert_4vpipe.yml" --set data_dir=nowhere --dry-run
lacks 'the data (data_dir nowhere cannot be read)'
has out 'data      nowhere: not on this machine'
has out 'work      minibatches of '
grep '^to beat' out && fail 'a loss to beat without data'
run 0 train "$configs/bert_tiny.yml" --set data_dir=nowhere --explain
has out 'data_dir: '
# All shipped configurations can be planned on any machine.
for file in "$configs"/*.yml "$configs"/compare/*.yml; do
    run 0 train "$file" --dry-run
    [ ! -s err ] || fail "a plan of $file writes to stderr"
    grep -qE '^stage 0 +[0-9.]+ [KMGT]iB \(' out || fail "no memory: $file"
    has out 'dry run: the configuration is good'
    grep -qE '^(schedule|bubble|proof) ' out ||
        case $file in
        *one.yml | *gpt2_tiny.yml | *translation_tiny.yml) ;;
        *data_parallel.yml) ;;
        *) fail "no schedule: $file" ;;
        esac
    [ "$(grep -c '^this machine lacks: ' out)" -le 1 ] ||
        fail "more than a line about what is lacking: $file"
done

# Lines whose results backward does not read are neither recomputed nor counted.
run 0 train "$configs/bert_tiny.yml" --dry-run --set recompute_ratio=0
grep '^bubble' out >expected
run 0 train "$configs/bert_tiny.yml" --dry-run \
    --set 'recompute_ratio=[0.3, 0, 0, 0]'
has out ' 3/10 '
grep '^bubble' out | cmp -s expected - || fail 'nothing is recomputed, and counted'
run 0 train "$configs/bert_tiny.yml" --dry-run
grep '^bubble' out | cmp -s expected - && fail 'recomputed, and not counted'

end_cli
