#!/bin/sh
# The built program from outside: exit codes, where output goes, and that each
# mistake costs one friendly line.
#   tests/system/cli.sh build/vpipe [FOLDER OF AN OLD GPU DRIVER]
set -u

program=${1:?usage: tests/system/cli.sh PROGRAM [FOLDER OF AN OLD GPU DRIVER]}
old_driver=${2:-}
case $program in
/*) ;;
*) program=$PWD/$program ;;
esac
[ -z "$old_driver" ] || old_driver=$(cd "$old_driver" && pwd) || exit 1
[ -x "$program" ] || {
    echo "$program is not a program; build it first"
    exit 1
}
configs=$(cd "$(dirname "$0")/../../configs" && pwd -P) || exit 1
. "$(dirname "$0")/disk_lib.sh"
. "$(dirname "$0")/tool_lib.sh"

# has FILE TEXT
has() {
    grep -qF -- "$2" "$1" || fail "no '$2' in $1"
}

# ---- Help and versions -----------------------------------------------------
run 0 --help
has out 'usage: vpipe'
has out 'train'
cp out help
run 0 -h
cmp -s out help || fail '-h is not --help'
run 0 help
cmp -s out help || fail 'help is not --help'
for command in train compare schedule trace data info; do
    has help "  $command "
    run 0 $command --help
    cp out help_of_one
    run 0 help $command
    cmp -s out help_of_one || fail "'help $command' is not '$command --help'"
done
refuse "vpipe: unknown command 'trian'; did you mean 'train'?" help trian
refuse "vpipe help: unexpected argument 'info'; name one command" \
    help train info
run 0 --version
grep -qE '^vpipe [0-9]+\.[0-9]+\.[0-9]+$' out || fail 'no version'
run 2
[ ! -s out ] || fail 'usage without a command belongs on stderr'
has err 'usage: vpipe'
run 0 train --help
for word in --set --output --max-steps --dry-run --quiet model_type \
    batch_size memory_limit; do
    has out "$word"
done
grep -q ' $' out && fail 'spaces at the end of a line of help'
# A long name stands alone; meanings begin in one column.
grep -qx '  --require-loss-below LOSS' out || fail 'a name runs into its meaning'
[ "$(awk '{ print length }' out | sort -n | tail -1)" -le 80 ] ||
    fail 'help is wider than 80 columns'
run 0 info --help
run 0 info
for word in vpipe compiler cores memory GPU; do
    has out "$word"
done

# ---- Mistakes on the command line ------------------------------------------
refuse "vpipe: unknown command 'trian'; did you mean 'train'?" trian
refuse "vpipe completion: no shell; write for example 'vpipe completion bash'" \
    completion
refuse "vpipe completion: unknown shell 'tcsh'; write bash, zsh, fish or data" \
    completion tcsh
refuse "vpipe completion: unexpected argument 'zsh'; name one shell" \
    completion bash zsh
refuse "vpipe: unknown command 'xyzzy'; 'vpipe --help' lists the commands" \
    xyzzy
refuse "vpipe train: no configuration; write for example 'vpipe train\
 $configs/bert_tiny.yml'" train
has help "start with: $program train $configs/bert_tiny.yml"
(cd "$configs/.." && "$program" train 2>&1) |
    grep -qF "'vpipe train configs/bert_tiny.yml'" ||
    fail 'a file below the working directory has a long name'
refuse "vpipe train: unknown option '--outptu'; did you mean '--output'?" \
    train a.yml --outptu x
refuse "vpipe train: unknown option '--max_stpes'; did you mean\
 '--max-steps'?" train a.yml --max_stpes=3
refuse "vpipe train: unknown option '-x'; 'vpipe train --help' lists the\
 options" train -x
# Names of other programs; only where a command takes keys.
refuse "vpipe train: unknown option '--lr'; use '--set learning_rate=...'" \
    train a.yml --lr 0.1
refuse "vpipe train: unknown option '--device'; use '--set device=...'" \
    train a.yml --device=cuda
refuse "vpipe train: unknown option '--epochs'; use '--set epochs=...'" \
    train a.yml --epochs 3
refuse "vpipe train: unknown option '--steps'; use '--max-steps N'" \
    train a.yml --steps=3
refuse "vpipe compare: unknown option '--lr'; use '--set learning_rate=...'" \
    compare a.yml --lr 0.1
refuse "vpipe schedule: unknown option '--lr'; 'vpipe schedule --help' lists\
 the options" schedule 1f1b --lr 0.1
refuse "vpipe train: option '--set' needs a value; write '--set KEY=VALUE'" \
    train a.yml --set
refuse "vpipe train: option '--output' needs a value; write '--output DIR'" \
    train a.yml --output=
# An option is not the value of the one before it.
refuse "vpipe train: option '--verbose' needs a value, but '--dry-run' follows;\
 write '--verbose LIST'" train a.yml --verbose --dry-run
refuse "vpipe train: option '--verbose' needs a list, not 'a.yml'; write for\
 example '--verbose stages,time'" train --verbose a.yml
refuse "vpipe train: option '--output' needs a value, but '--set=layers=2'\
 follows; write '--output DIR'" train a.yml --output --set=layers=2
refuse "vpipe train: option '--set' needs a value, but '--lr' follows; write\
 '--set KEY=VALUE'" train a.yml --set --lr 3
refuse "vpipe schedule: option '--svg' needs a value, but '-h' follows; write\
 '--svg FILE'" schedule 1f1b --svg -h
refuse "vpipe train: option '--quiet' takes no value; remove '=1'" \
    train a.yml --quiet=1
for bad in 0 -3 2.5 many 99999999999999999999; do
    refuse "vpipe train: option '--max-steps' must be a whole number from 1,\
 not '$bad'; write for example '--max-steps 10'" train a.yml --max-steps "$bad"
done
refuse "vpipe train: option '--restarts' must be a whole number from 0 to\
 1000, not 'often'; write for example '--restarts 3'" train a.yml \
    --restarts often
for bad in 0 -2 bigram 1e999; do
    refuse "vpipe train: option '--require-loss-below' must be a number above 0\
 or unigram, not '$bad'; write for example '--require-loss-below unigram'" \
        train a.yml --require-loss-below "$bad"
done
refuse "vpipe train: two configurations, 'a.yml' and 'b.yml'; give one" \
    train a.yml b.yml
refuse "vpipe train: two configurations, 'a.yml' and 'b.yml'; give one" \
    train --config_file a.yml b.yml
refuse "vpipe train: two configurations, 'a.yml' and 'b.yml'; give one" \
    train --config-file a.yml b.yml
refuse "vpipe info: unexpected argument 'now'; remove it" info now
refuse "vpipe info: unknown option '--hlep'; did you mean '--help'?" \
    info --hlep

refuse "vpipe schedule: option '--minibatches' must be a whole number from 1 to\
 536870912, not '2147483647'; write for example '--minibatches 4'" \
    schedule 1f1b --stages 2 --minibatches 2147483647
for bad in 1e308,1e308,1e308 0,0,0 1,1 1,-1,1; do
    refuse "vpipe schedule: option '--costs' must be three or four times from 0\
 to 1e+100, the first three not all 0, not '$bad'; write for example '--costs\
 1,1,1,0.1'" schedule 1f1b --stages 2 --minibatches 2 --costs "$bad"
done
refuse 'vpipe schedule: --every is for macrobatch; leave it out for pipedream' \
    schedule pipedream --stages 2 --minibatches 4 --every 3
refuse "vpipe schedule: no/x: cannot be written (No such file or directory);\
 choose another place" schedule 1f1b --stages 2 --minibatches 4 --text no/x
run 0 schedule 1f1b --stages 2 --minibatches 8 --costs 1e100,1e100,1e100,1e100
grep -qE 'inf|nan' out && fail 'costs at their limit are too large'
run 0 schedule 1f1b --stages 1 --minibatches 1
has out '1f1b: 1 stage on 1 rank, 1 minibatch'
run 0 schedule zb-h2 --stages 4 --minibatches 8
has out 'bubble simulated=0.111111 theory=0.111111 span=0.000000'
grep -q 'greedy' out && fail 'a schedule of its own rule is called greedy'
run 0 schedule zb-h2 --stages 4 --minibatches 6
has out 'lists   by the greedy rule: zb-h2 has its own from 7 minibatches on'
run 0 schedule v-auto --stages 4 --minibatches 8 --memory 3
has out 'lists   by the greedy rule: v-auto has none that keep 3 chunks'
run 0 schedule v-auto --stages 4 --minibatches 8 --memory 6
has out 'memory  at most 6 slots in use on a rank'
has out 'bubble simulated=0.094340 theory=0.094340 span=0.094340'
refuse "vpipe schedule: schedule zb-v has no memory to set; leave it out, or use\
 v-auto" schedule zb-v --stages 2 --minibatches 4 --memory 4
# Made to measure: the best placement, within the memory that is given.
run 0 schedule auto --stages 4 --minibatches 8 --costs 1,1.4,0.6,0.1 --memory 6 \
    --text auto.txt --svg auto.svg
has out 'auto: 8 stages on 4 ranks, 8 minibatches'
has out 'memory  at most 6 slots in use on a rank'
has auto.svg '<svg'
run 0 schedule auto.txt
has out 'auto: 8 stages on 4 ranks, 8 minibatches'
run 0 schedule auto --stages 4 --minibatches 8 --chunks 1 --memory 8
has out 'auto: 4 stages on 4 ranks'
has out 'time    27;'
run 0 schedule auto --stages 3 --minibatches 4 --chunks 3 --recompute
has out 'auto: 9 stages on 3 ranks'
for costs in 0,0,1 0,1,0 1e100,1e100,1e100,1e100; do
    run 0 schedule auto --stages 2 --minibatches 4 --costs $costs
    grep -qE 'inf|nan' out && fail "costs $costs are too large or too small"
done
refuse "vpipe schedule: schedule auto: rank 0 may keep 1, but one minibatch\
 takes 2; give it more memory" \
    schedule auto --stages 4 --minibatches 8 --memory 1
# Read again, a schedule has the same bubble: the lists show what it is.
for how in 'zb-h2 --early' 'zb-v --early' 'v-half --recompute' \
    'v-auto --memory 6'; do
    # shellcheck disable=SC2086
    run 0 schedule $how --stages 4 --minibatches 8 --text again.txt
    grep '^bubble' out >expected
    run 0 schedule again.txt
    grep '^bubble' out | cmp -s expected - || fail "another bubble: $how"
done
refuse "vpipe schedule: option '--stages' has no effect: the file again.txt\
 says it; leave it out" schedule again.txt --stages 2
# A schedule that can be read, but is none; a file that is no schedule.
as_written="correct the file, or see how 'vpipe schedule 1f1b --stages 2\
 --minibatches 4 --text -' writes one"
printf 'stages=1 minibatches=2\n0: 0F0 0F1 0B1 0B0 0UPDATE0\n' >wrong.txt
refuse "vpipe schedule: wrong.txt: rank 0, action 2 (0B1): out of order: 0B0\
 comes next on this rank; $as_written" schedule wrong.txt
refuse "vpipe schedule: 'wrog.txt' is neither a schedule nor a readable file; did\
 you mean 'wrong.txt'?" schedule wrog.txt
printf 'not a schedule\n' >wrong.txt
refuse "vpipe schedule: wrong.txt:1:1: 'key=value' belongs here; $as_written" \
    schedule wrong.txt

for word in version -v; do
    refuse "vpipe: unknown command '$word'; did you mean '--version'?" $word
done
refuse "vpipe train: the name of the configuration is empty; give the path of a\
 YAML file" train ''
mkdir plain
refuse "vpipe trace: plain is not the folder of a run; give the folder that\
 'vpipe train' wrote, for example 'vpipe trace runs/NAME'" trace plain
: >plain/config.yml
refuse "vpipe trace: plain holds no trace.json; wait for the end of the run or,\
 if it was resumed, for its first minibatches" trace plain

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
# lacks TEXT: one line of a dry run names what this machine lacks, with TEXT.
lacks() {
    [ "$(grep -c '^this machine lacks: ' out)" = 1 ] ||
        fail 'not one line about what is lacking'
    grep '^this machine lacks: ' out | grep -qF -- "$1" || fail "not lacking: $1"
    has out 'dry run: the configuration is good'
    [ ! -s err ] || fail 'what is lacking is no error'
}
if [ ! -e /dev/nvidia0 ]; then
    run 2 train a.yml --set device=cuda
    has err '--set: device cuda: '
    [ "$(wc -l <err)" = 1 ] || fail 'more than a line about a missing GPU'
    run 2 train a.yml --set device=auto
    has err "a.yml:3: key 'precision': only fp32 and bf16 run on a CPU ("
    # A plan needs no GPU.
    for device in cuda auto; do
        run 0 train a.yml --set device=$device --dry-run
        lacks GPU
        has out 'stage 0 '
    done
fi
if [ -n "$old_driver" ]; then
    export LD_LIBRARY_PATH="$old_driver"
    run 2 train a.yml --set device=cuda
    has err '--set: device cuda: the NVIDIA driver knows CUDA up to 12.2, and '
    [ "$(wc -l <err)" = 1 ] || fail 'more than a line about an old driver'
    run 0 info
    has out 'no GPU      the NVIDIA driver knows CUDA up to 12.2, and '
    unset LD_LIBRARY_PATH
fi

export VPIPE_ISA=sse9
refuse "VPIPE_ISA: unknown instruction set 'sse9'; plain, avx2, avx512,\
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

# ---- Runs ------------------------------------------------------------------
tiny="--set layers=1 --set hidden=16 --set heads=2 --set seq_length=16"
tiny="$tiny --set eval_every=0 --set threads_per_stage=1 --set total_steps=4"
tiny="$tiny --set print_frequency=2 --set synthetic_data=true"
for file in bert_one gpt2_tiny translation_tiny; do
    # shellcheck disable=SC2086
    run 0 train "$configs/$file.yml" $tiny --dry-run --output dry
    has out "${file%%_*}"
    has out 'dry run'
    [ ! -e dry ] || fail "a dry run wrote a folder ($file)"
done

# n_steps FILE: its lines that are about a step
n_steps() {
    grep -c '"loss"' "$1"
}

# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --output run
[ ! -s err ] || fail 'a good run writes to stderr'
has out 'step 4/4'
grep -q "$(printf '\033')" out && fail 'escape sequences outside a terminal'
[ "$(n_steps run/metrics.jsonl)" -eq 4 ] || fail 'not one line per update'
has out 'forecast  by the first steps: step '
[ "$(tail -n 1 run/metrics.jsonl | cut -c1-37)" = \
    '{"step": 4, "event": "forecast", "for' ] || fail 'no forecast at the end'

# The folder's configuration runs again, by itself, to the same losses.
run 0 train run/config.yml --output again --quiet
[ ! -s out ] || fail '--quiet is not quiet'
losses() {
    sed -n 's/.*\("loss": *[^,}]*\).*/\1/p' "$1/metrics.jsonl"
}
[ -s again/metrics.jsonl ] || fail 'config.yml does not run'
[ "$(losses run)" = "$(losses again)" ] ||
    fail 'config.yml does not repeat the run'

# shellcheck disable=SC2086
run 0 train $tiny --max_steps 2 --output short -- "$configs/gpt2_tiny.yml"
[ "$(n_steps short/metrics.jsonl)" -eq 2 ] || fail '--max_steps 2'

# ---- Pipelines -------------------------------------------------------------
# A model of 9 blocks.
pipe="$tiny --set layers=4 --set batch_size=4"

# shellcheck disable=SC2086
run 0 train "$configs/bert_tiny.yml" $pipe --dry-run --output dry
for text in 'schedule  pipedream (asp)' 'on 4 ranks' 'proof ' 'no deadlock' \
    'bubble    simulated' 'stage   rank  blocks' 'stage 3  ' \
    '4 minibatches of 64 tokens'; do
    has out "$text"
done
[ "$(grep -cE '^ +[0-3] +[0-3] +[0-9]-[0-9] .* %$' out)" -eq 4 ] ||
    fail 'not one row per stage'
[ ! -e dry ] || fail 'a dry run of a pipeline wrote a folder'

# Tables, timelines and errors have the user's numbers of the ranks.
cat >placement.json <<'END'
{"module_to_stage_map": [0, 1, 2, 3, 3],
 "stage_to_rank_map": {"0": [3], "1": [1], "2": [0], "3": [2]}}
END
numbers_of_rows() {
    sed -nE "$1" out | tr '\n' ' '
}
# shellcheck disable=SC2086
run 0 train "$configs/bert_tiny.yml" $pipe --set config_file=placement.json \
    --set total_steps=8 --output placed
row='s/^ +[0-3] +([0-3]) +[0-9]-[0-9] .* %$/\1/p'
[ "$(numbers_of_rows "$row")" = '3 1 0 2 ' ] || fail 'the table of stages'
[ "$(numbers_of_rows 's/^rank ([0-9]) .*/\1/p')" = '3 1 0 2 ' ] ||
    fail 'the timeline at the end'
run 0 trace placed
[ "$(numbers_of_rows 's/^([0-9]) +stage .*/\1/p')" = '3 1 0 2 ' ] ||
    fail 'the table of vpipe trace'

# finite FOLDER N: metrics of N steps, each with a number for a loss.
finite() {
    [ "$(grep -cE '"loss": [0-9]+\.[0-9]+,' "$1/metrics.jsonl")" -eq "$2" ] ||
        fail "not $2 losses in $1"
}

# Asynchronous: a step is a minibatch, with a gradient norm per stage.
# shellcheck disable=SC2086
run 0 train "$configs/bert_tiny.yml" $pipe --set total_steps=12 \
    --set eval_every=5 --output asp
finite asp 12
has out 'step 12/12'
has out 'eval at step 10'
has out 'bubble    measured'
has out 'bubble '
number='[0-9.e-]+'
[ "$(grep -cE "\"grad_norm\": \[($number, ){3}$number\], " \
    asp/metrics.jsonl)" -eq 12 ] || fail 'asp: no norm per stage'
[ "$(grep -cE '"memory": \[([0-9]+, ){3}[0-9]+\]' asp/metrics.jsonl)" \
    -eq 12 ] || fail 'asp: no memory per stage'
run 0 train asp/config.yml --output asp_again --quiet
[ "$(losses asp)" = "$(losses asp_again)" ] ||
    fail 'an asynchronous run does not repeat itself'
# shellcheck disable=SC2086
run 0 train "$configs/bert_4pipedream_tiny.yml" $pipe --output pipedream
finite pipedream 4

# Synchronous: the number of stages, the schedule and recomputation change
# nothing in the losses.
group="$pipe --set accumulation_steps=6 --set learning_rate=0.001"
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $group --output one
finite one 4
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $group --set stages=3 \
    --set 'recompute_ratio=[1, 0.5, 0]' --output three
has out 'schedule  1f1b (bsp)'
[ "$(losses one)" = "$(losses three)" ] || fail 'three stages are not one'
# shellcheck disable=SC2086
run 0 train "$configs/bert_4gpipe_tiny.yml" $group --output gpipe
has out 'schedule  gpipe (bsp)'
[ "$(losses one)" = "$(losses gpipe)" ] || fail 'gpipe is not one stage'
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $group --set stages=2 \
    --set schedule=zb-v --set 'partition=[1, 3, 2, 3]' --output zbv
[ "$(losses one)" = "$(losses zbv)" ] || fail 'zb-v is not one stage'
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $group --set stages=2 \
    --set schedule=v-auto --set schedule_memory=3 --output vauto
has out 'lists     by the greedy rule: v-auto has none that keep 3 chunks'
has vauto/config.yml 'schedule_memory: 3'
[ "$(losses one)" = "$(losses vauto)" ] || fail 'v-auto is not one stage'
# A schedule that is made for the stages. Its lists go on with the run.
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $group --set stages=2 --set schedule=auto \
    --set recompute_ratio=0.5 --set checkpoint_every=2 --max-steps 2 --output auto
has out 'schedule  auto (bsp)'
has out 'lists     made for FLOPs and 4 half stages per rank: 2 chunks'
has auto/config.yml 'schedule: auto'
has auto/checkpoints/step-2/manifest.json '"schedule": "schedule=auto stages=4'
run 0 train auto/config.yml --resume auto --dry-run
has out ', as it was saved'
run 0 train auto/config.yml --resume auto --dry-run --set schedule_memory=3
! grep -q 'as it was saved' out || fail 'lists for other memory go on'
run 0 train auto/config.yml --resume auto
has out ', as it was saved'
[ "$(losses one)" = "$(losses auto)" ] || fail 'auto is not one stage'
# A schedule from a file.
run 0 schedule v-half --stages 2 --minibatches 6 --text own.txt
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $group --set schedule=./own.txt \
    --set checkpoint_every=2 --set recompute_ratio=0.5 --output own
has out 'schedule  ./own.txt (bsp)'
[ "$(losses one)" = "$(losses own)" ] || fail 'a schedule file is not one stage'
has own/checkpoints/step-2/manifest.json '"schedule": "schedule=v-half stages=4'
has own/config.yml "schedule: \"$PWD/./own.txt\""
run 0 train own/config.yml --output own_again --quiet
[ "$(losses one)" = "$(losses own_again)" ] || fail 'a schedule file is lost'
# The checkpoint has the text: a run goes on without the file, not with another.
mv own.txt kept.txt
run 0 train own/config.yml --resume own/checkpoints/step-2 --output own_on
has out "own/config.yml:$(sed -n '/^schedule:/=' own/config.yml): key 'schedule'\
 names a file that is not there: the run goes on with the copy in its checkpoint"
[ "$(losses one | tail -n 2)" = "$(losses own_on)" ] ||
    fail 'a run without its schedule file is another'
saved_schedule() {
    grep '"schedule": ' "$1/checkpoints/step-4/manifest.json"
}
[ "$(saved_schedule own)" = "$(saved_schedule own_on)" ] ||
    fail 'a run without its schedule file has another schedule'
run 2 train own/config.yml --output own_bad
has err 'own.txt: cannot be opened: No such file or directory; '
run 0 schedule v-min --stages 2 --minibatches 6 --text own.txt
refuse "own/config.yml:$(sed -n '/^schedule:/=' own/config.yml): key\
 'schedule': $PWD/./own.txt differs from the schedule that\
 own/checkpoints/step-2 was saved with; remove the file to go on with the saved\
 one, or set schedule to a name" \
    train own/config.yml --resume own/checkpoints/step-2 --output own_bad
[ ! -e own_bad ] || fail 'a refused resume left a folder'
run 0 train own/config.yml --resume own --forward-only
run 0 train own/config.yml --resume own/checkpoints/step-2 --quiet \
    --set schedule=zb-v --output own_by_name
[ "$(losses one | tail -n 2)" = "$(losses own_by_name)" ] ||
    fail 'a resumed run does not take a schedule by name'
mv kept.txt own.txt
# shellcheck disable=SC2086
refuse "--set: key 'schedule' names ./own.txt: a schedule from a file needs\
 sync_mode bsp; set that, or use pipedream" train "$configs/bert_tiny.yml" $pipe \
    --set schedule=./own.txt
for wrong in stages=3 accumulation_steps=5 chunks=3; do
    # shellcheck disable=SC2086
    run 2 train "$configs/bert_one.yml" $group --set schedule=./own.txt \
        --set $wrong --output bad
    grep -qE "^--set: key '${wrong%=*}' is ${wrong#*=}, but the schedule in\
 ./own.txt has [0-9]; remove the key" err || fail "no word about $wrong"
done
run 0 schedule pipedream --stages 2 --minibatches 6 --text asp.txt
# shellcheck disable=SC2086
refuse "--set: key 'schedule': ./asp.txt: the schedule is not a group of\
 minibatches with one update at its end, as sync_mode bsp needs; write another\
 one with vpipe schedule" train "$configs/bert_one.yml" $group \
    --set schedule=./asp.txt

# What does not fit is refused before training.
# shellcheck disable=SC2086
run 2 train "$configs/bert_tiny.yml" $pipe --set memory_limit=1K --output big
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about memory'
grep -qE '^--set: stage 0 needs [0-9.]+ [KM]iB \(.*\), memory_limit is 1 KiB; ' err ||
    fail 'not what a stage needs and may have'
[ ! -e big ] || fail 'a refused run wrote a folder'
# Nor does what the machine has no room for begin.
run 2 train "$configs/bert_one.yml" --output huge --set device=cpu \
    --set synthetic_data=true --set batch_size=400000 --set seq_length=64 \
    --set hidden=8192 --set heads=64 --set layers=24
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about room'
has err '--set: the stages here and the copies to save them need 191 TiB, '
has err ' left; no batch_size or recompute_ratio makes it fit: use a machine with'
[ ! -e huge ] || fail 'a run that does not fit has left a folder'
# A plan may be for another machine.
run 0 train "$configs/bert_one.yml" --dry-run --set device=cpu \
    --set synthetic_data=true --set batch_size=400000 --set seq_length=64 \
    --set hidden=8192 --set heads=64 --set layers=24
lacks 'memory (191 TiB needed, '
# A limit of its own is the plan's.
# shellcheck disable=SC2086
run 2 train "$configs/bert_tiny.yml" $pipe --set memory_limit=1K --dry-run
has err ', memory_limit is 1 KiB; '
# What the message says helps.
room="--set device=cpu --set synthetic_data=true --set seq_length=64"
# shellcheck disable=SC2086
run 2 train "$configs/bert_one.yml" --output huge $room \
    --set batch_size=16777216
batch=$(sed -nE 's/.* left; use batch_size ([0-9]+)$/\1/p' err)
[ -n "$batch" ] || fail 'no batch_size that fits'
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" --dry-run $room --set "batch_size=$batch"
# What other machines have is not known here.
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
# Data decides how long the run is, and nothing else of the plan.
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
# All that is shipped is planned, whatever this machine has.
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

# A run folder is not overwritten.
# shellcheck disable=SC2086
run 2 train "$configs/bert_one.yml" $tiny --output run
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about the used folder'

# What cannot be a run folder is refused with a remedy.
: >file
# shellcheck disable=SC2086
refuse 'file is a file, not a folder; choose another --output or log_directory' \
    train "$configs/bert_one.yml" $tiny --output file
# shellcheck disable=SC2086
refuse 'file is no folder; give --resume the folder of a run that was saved' \
    train "$configs/bert_one.yml" $tiny --resume file
# shellcheck disable=SC2086
refuse "gpip is no folder; did you mean 'gpipe'?" \
    train "$configs/bert_one.yml" $tiny --resume gpip
for place in file file/runs file//a/b/; do
    # shellcheck disable=SC2086
    refuse 'file is a file, not a folder; choose another --output or log_directory' \
        train "$configs/bert_one.yml" $tiny --set log_directory=$place
    refuse 'file is a file, not a folder; choose another --output or log_directory' \
        compare "$configs/compare/gpipe.yml" --output $place
done
# A run does not mix its files with others, nor replaces a config.yml.
mkdir others
echo mine >others/config.yml
: >others/.hidden
: >others/notes.txt
# shellcheck disable=SC2086
refuse "others/ holds files that are not of a run ('config.yml'); choose a new\
 or empty folder, for example --output others/run" \
    train "$configs/bert_one.yml" $tiny --output others/
[ "$(cat others/config.yml)" = mine ] || fail 'a config.yml was replaced'
rm others/config.yml others/notes.txt
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --output others --quiet
# What a run left that was stopped before its first step is its own.
mkdir begun
: >begun/lock
: >begun/config.yml
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --output begun --quiet
# Limits of the system are named in place of memory or another folder.
# Descriptors that the caller left open would count.
for n_files in 5 6; do
    checks=$((checks + 1))
    rm -rf few_files
    # shellcheck disable=SC2086
    (exec 3>&- 4>&- 5>&- 6>&- && ulimit -n $n_files && exec "$program" train \
        "$configs/bert_one.yml" $tiny --output few_files) >out 2>err </dev/null &&
        fail "a run with $n_files open files"
    has err '; raise the limit of open files (ulimit -n)'
done
if setpriv --reuid 64999 --clear-groups true 2>/dev/null &&
    chmod 777 . && setpriv --reuid 64999 --clear-groups test -r . -a -x "$program"
then
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    prlimit --nproc=3 setpriv --reuid 64999 --clear-groups "$program" train \
        "$configs/bert_tiny.yml" $tiny --set layers=4 --output few_threads \
        >out 2>err </dev/null && fail 'a run with 3 threads'
    has err ' cannot be started; raise the limits of processes (ulimit -u)'
    [ "$(wc -l <err)" -eq 1 ] || fail 'not one line about threads'
    cp "$configs/bert_one.yml" unread.yml
    chmod 000 unread.yml
    checks=$((checks + 1))
    setpriv --reuid 64999 --clear-groups "$program" train unread.yml >out 2>err
    [ "$(cat err)" = "unread.yml: cannot be opened: Permission denied; change its\
 permissions" ] || fail 'a file without permissions'
fi
if [ "$(id -u)" -ne 0 ]; then
    mkdir closed
    chmod a-w closed
    # shellcheck disable=SC2086
    refuse "closed: cannot be written (Permission denied); choose another\
 --output or log_directory" \
        train "$configs/bert_one.yml" $tiny --output closed
fi

# A disk with room for two checkpoints and the one that is being written: what
# the message says helps.
big=$program
if use_small_disk 4500k; then
    every="--set checkpoint_every=1 --output small/run"
    # shellcheck disable=SC2086
    run 2 train "$configs/bert_one.yml" $tiny $every
    has err 'small/run: not enough space: 4 checkpoints of '
    has err ' bytes are free; set keep_checkpoints: 2, free '
    # shellcheck disable=SC2086
    run 2 train "$configs/bert_one.yml" $tiny $every --set keep_checkpoints=3
    # shellcheck disable=SC2086
    run 2 train "$configs/bert_one.yml" $tiny --set checkpoint_every=epoch \
        --set num_minibatches=1 --output small/run
    has err 'small/run: not enough space: 4 checkpoints of '
    # shellcheck disable=SC2086
    run 0 train "$configs/bert_one.yml" $tiny $every --set keep_checkpoints=2
    # shellcheck disable=SC2086
    run 0 train "$configs/bert_one.yml" $tiny --set keep_checkpoints=3 \
        --output small/run
    program=$big
fi

# A damaged shard is not text.
printf 'no shard' >broken.hdf5
refuse "$PWD/broken.hdf5: is no HDF5 file; copy or write the shard anew, or move\
 it out of data_dir" train "$configs/bert_one.yml" \
    --set "data_dir=$PWD/broken.hdf5"

# The plugin of a transport is looked for before mpirun is started.
mkdir alone
cp "$program" alone/vpipe
program=$PWD/alone/vpipe
for transport in mpi nccl; do
    # shellcheck disable=SC2086
    refuse "--set: transport $transport: libvpipe_$transport.so cannot be loaded\
 (no such file); build it with 'make all', which needs mpicc, or start one\
 process" train "$configs/bert_tiny.yml" $pipe \
        --set distributed_backend=$transport --output unstarted
    [ ! -e unstarted ] || fail 'a run without its transport left a folder'
done
# Without a driver neither CUDA's libraries nor the plugin are of any use.
if ! ldconfig -p 2>/dev/null | grep -qF libcuda.so.1; then
    refuse "--set: device cuda: there is no NVIDIA driver; install one, or use\
 device: cpu" train "$configs/bert_tiny.yml" --set device=cuda
fi
program=$big

# ---- Text ------------------------------------------------------------------
# Documented losses depend on every byte of the text that the small
# configurations learn: it is frozen, see its README.
checks=$((checks + 1))
: >out
: >err
[ "$(cksum <"$configs/data/prose.txt")" = "4000939623 305782" ] ||
    fail 'configs/data/prose.txt is not the frozen text'
grep -n '^data_dir: *\.\.' "$configs"/*.yml "$configs"/*/*.yml >out &&
    fail 'a configuration learns what is outside of configs'
run 0 train "$configs/bert_tiny.yml" --dry-run
has out 'text: 1 file, 306 kB'

# What is not text is refused before anything is made; what is left out, changed
# or made up is said once, before the first step.
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
[ "$(grep -cF "$PWD/text: 1 file taken as text; not taken: .rst 2, .tsv 1; of\
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

# The end of a run with an evaluation says whether it learned, and
# --require-loss-below makes that the exit status.
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
 context, as --require-loss-below asks; raise total_steps or change\
 learning_rate\$" err || fail 'no line about a loss that is too high'
[ -e unlearned/checkpoints/step-2/manifest.json ] ||
    fail 'a run that did not learn was not saved'
# shellcheck disable=SC2086
run 0 train "$configs/gpt2_tiny.yml" $learn 9 --output limit --quiet
# shellcheck disable=SC2086
run 1 train "$configs/gpt2_tiny.yml" $learn 2.5 --output limit_missed --quiet
[ ! -s out ] || fail '--quiet prints the loss'
has err ' is not below 2.5000, as --require-loss-below asks; '
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
[ "$(grep -cF "invalid_utf8 is replace: U+FFFD stands in place of 1 NUL byte or\
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

# Token files, from the key to the loss.
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

# The table of the documents has keys and formats that the program has, and all
# of them.
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

# Lines that backward reads nothing of are not recomputed, nor counted.
run 0 train "$configs/bert_tiny.yml" --dry-run --set recompute_ratio=0
grep '^bubble' out >expected
run 0 train "$configs/bert_tiny.yml" --dry-run \
    --set 'recompute_ratio=[0.3, 0, 0, 0]'
has out ' 3/10 '
grep '^bubble' out | cmp -s expected - || fail 'nothing is recomputed, and counted'
run 0 train "$configs/bert_tiny.yml" --dry-run
grep '^bubble' out | cmp -s expected - && fail 'recomputed, and not counted'

# What cannot be written is a failure, not silence.
if [ -w /dev/full ]; then
    checks=$((checks + 1))
    "$program" --help >/dev/full 2>err
    [ $? -eq 1 ] || fail 'a full disk behind stdout'
fi

# ---- Comparisons -----------------------------------------------------------
small="--set layers=1 --set hidden=16 --set heads=2 --set seq_length=16"
small="$small --set batch_size=2 --set threads_per_stage=1"

# Two methods, as many samples each: 2 updates of 8 minibatches, and 16.
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

# well_formed FILE: one element svg, every tag closed in its order.
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

# The original's three files, narrow: asp cannot tie embeddings, and bsp would.
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
# Asked for by the user, they are refused as before.
# shellcheck disable=SC2086
run 2 compare "$configs/bert_4gpipe.yml" "$configs/compare/gpipe.yml" $narrow
grep -q 'tie_embeddings' out && fail 'ties of different models'
sed "s/'model_type'/'tie_embeddings': True\n&/" "$configs/bert_4gpipe.yml" |
    sed "s|^'directory'.*|'directory': '$configs/bert'|" >tied.yml
# shellcheck disable=SC2086
run 2 compare tied.yml "$configs/bert_4vpipe.yml" $narrow
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about ties'
has err "$configs/bert_4vpipe.yml: tie_embeddings is false, but true in tied.yml:"
# In full size they are planned, without data and without the memory.
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

# ---- Signals ---------------------------------------------------------------
# start FOLDER FILE ARGUMENT...: a long run in the background, once that file of
# its folder is there.
start() {
    where=$1
    file=$2
    shift 2
    checks=$((checks + 1))
    "$program" train "$@" --output "$where" >out 2>err &
    child=$!
    tries=0
    until [ -s "$where/$file" ] || [ $tries -ge 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

# ended STATUS
ended() {
    wait $child
    got=$?
    [ "$got" -eq "$1" ] || fail "exit $got, not $1, after a signal"
}

# A signal stops after the minibatch, with a checkpoint and its own status, and
# the run goes on from there.
long="--set total_steps=200000"
for signal in HUP USR1 TERM; do
    # shellcheck disable=SC2086
    start "stopped$signal" metrics.jsonl "$configs/bert_one.yml" $tiny $long
    kill -"$signal" $child
    ended 3
    has out 'stopping after this update, then saving; a second signal ends'
    has out 'stopped'
    has out "go on     $program train stopped$signal/config.yml --resume stopped"
    [ ! -s err ] || fail 'a clean stop writes to stderr'
    last=$(n_steps "stopped$signal/metrics.jsonl")
    [ -e "stopped$signal/checkpoints/step-$last/manifest.json" ] ||
        fail "no checkpoint of step $last after SIG$signal"
done
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --max-steps $((last + 3))
has out "Resumed from checkpoint step $last"
has out "done      3 updates ($((last + 3)) in all) in "
[ "$(n_steps stoppedTERM/metrics.jsonl)" -eq $((last + 3)) ] ||
    fail 'the stopped run did not go on'
has stoppedTERM/output.log.0 "Resumed from checkpoint step $last"
has stoppedTERM/output.log.0 "=> loading checkpoint 'stoppedTERM'"
[ "$(wc -l <stoppedTERM/command_history.log)" -eq 2 ] ||
    fail 'not one command per run'
tail -1 stoppedTERM/command_history.log | grep -qF -- '--resume stoppedTERM' ||
    fail 'the second command is not in command_history.log'

# Its timeline is of the second part, with the numbers of the run.
run 0 trace stoppedTERM
has out "minibatches $last to $((last + 2)), on 1 rank"
run 0 trace stoppedTERM --last 1
has out "minibatch $((last + 2)), on 1 rank"

# A run that is done stays as it is.
cp stoppedTERM/trace.json done.json
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --max-steps $((last + 3))
grep -q nan out && fail 'not a number after nothing was done'
has out "done      nothing: $((last + 3)) updates are trained already, and\
 --max-steps ends the run at $((last + 3)); raise it to go on"
cmp -s done.json stoppedTERM/trace.json || fail 'an empty trace replaced one'

# What may not change is named with the way back.
# shellcheck disable=SC2086
refuse "--set: hidden is 32, but stoppedTERM/checkpoints/step-$((last + 3)) was\
 saved with 16; a run can only go on with the same: use --set hidden=16, or start\
 a new run" train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --set hidden=32
# shellcheck disable=SC2086
refuse "--set: num_minibatches is 7, but\
 stoppedTERM/checkpoints/step-$((last + 3)) was saved with none; a run can only go\
 on with the same: remove num_minibatches, or start a new run" \
    train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --set num_minibatches=7

# --output may name the run that goes on, under whatever name; an evaluation of
# it needs a folder of its own.
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --output ./stoppedTERM/ --max-steps $((last + 4))
has out "Resumed from checkpoint step $((last + 3))"
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny $long --output stoppedTERM \
    --resume "stoppedTERM/checkpoints/step-$((last + 4))" \
    --max-steps $((last + 5))
[ "$(n_steps stoppedTERM/metrics.jsonl)" -eq $((last + 5)) ] ||
    fail 'a run does not go on in the folder of --output and --resume'
# shellcheck disable=SC2086
run 2 train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --output stoppedHUP
has err 'stoppedHUP holds a run already; '
# shellcheck disable=SC2086
run 2 train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --output stoppedTERM --forward_only
has err 'stoppedTERM holds a run already; '

# A group is longer than any ring of results.
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --max-steps 1 --output long \
    --set accumulation_steps=9000 --set watchdog_seconds=5
[ "$(n_steps long/metrics.jsonl)" -eq 1 ] || fail 'not one step of a long group'

# Signals that come together are one: a program and its group may be sent both.
# shellcheck disable=SC2086
start stoppedtwice metrics.jsonl "$configs/bert_one.yml" $tiny $long
kill -INT $child
kill -TERM $child
kill -TERM $child
ended 3
[ -n "$(find stoppedtwice/checkpoints -name manifest.json)" ] ||
    fail 'no checkpoint after two signals at once'

# A reader that has gone asks for a clean stop, too, which costs one line.
checks=$((checks + 1))
# shellcheck disable=SC2086
"$program" train "$configs/bert_one.yml" $tiny $long --output piped 2>err |
    head -n 1 >out
[ -n "$(find piped/checkpoints -name manifest.json)" ] ||
    fail 'no checkpoint after the reader has gone'
[ "$(cat err)" = "vpipe: the output is not read any more (closed pipe): the run\
 was saved and stopped; go on with --resume piped, or send the output to a\
 file" ] || fail 'not one line about a reader that has gone'
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny $long --resume piped --quiet \
    --max-steps $(($(n_steps piped/metrics.jsonl) + 2))

# While a run lives its folder is taken, before its first checkpoint too.
# shellcheck disable=SC2086
start live metrics.jsonl "$configs/bert_one.yml" $tiny $long \
    --set checkpoint_every=1000000 --quiet
for how in --output --resume; do
    # shellcheck disable=SC2086
    refuse "live: a run is live there (process $child on host $(hostname));\
 choose another --output, or wait for its end" \
        train "$configs/bert_one.yml" $tiny $how live
done
kill -TERM $child
ended 3

# An asynchronous pipeline too; a second signal of any kind ends it at once.
# shellcheck disable=SC2086
start stoppedasp metrics.jsonl "$configs/bert_tiny.yml" $pipe $long
kill -TERM $child
ended 3
[ -n "$(find stoppedasp/checkpoints -name manifest.json)" ] ||
    fail 'no checkpoint of a stopped pipeline'
# shellcheck disable=SC2086
start killed output.log.0 "$configs/bert_one.yml" $tiny $long \
    --set accumulation_steps=100000
sleep 0.3
kill -TERM $child
sleep 1.2
kill -HUP $child
wait $child 2>/dev/null
got=$?
[ "$got" -eq 129 ] || [ "$got" -eq 143 ] ||
    fail "exit $got after a second signal, not by that"
has err 'ended by a second signal, before all was saved'
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about a second signal'
[ "$(grep -c 'stopping after this update' out)" -eq 1 ] ||
    fail 'the first signal is answered twice'

# ---- Looking inside --------------------------------------------------------
# shellcheck disable=SC2086
run 0 train "$configs/bert_tiny.yml" $pipe --set total_steps=8 \
    --set 'partition=[3, 3, 3]' --set recompute_ratio=0 \
    --num-minibatches 4 --verbose stages,versions,communication,time \
    --set verbose_frequency=4 --output inside
grep -q "$(printf '\033')" out && fail 'escape sequences in a pipe'
has out '[1] stages: rank 1 has stage 1 of 3: blocks 3-5'
has out '[0] versions: stage 0: B of minibatch 7 uses version 5'
has out '[2] versions: stage 2: F of minibatch 3 uses version 3'
has out '[1] communication: stage 1 -> stage 0: '
has out "$(printf '[2] \t compute_time ')"
has inside/output.log.1 'versions: stage 1: F of minibatch 3 uses version 2'
has inside/output.log.2 'Epoch 1: '
has inside/plan.json '"partition": [3, 3, 3]'
has inside/machinefile localhost
has inside/command_history.log "--set 'partition=[3, 3, 3]'"
[ "$(grep -c '"epoch": 1' inside/metrics.jsonl)" -eq 4 ] ||
    fail '--num-minibatches does not cut the epoch'
refuse "--set: key 'verbose' has 'foo' as entry 1; write a list of some of\
 stages, tensors, versions, communication, time, for example\
 'verbose=[stages, time]'" train "$configs/bert_tiny.yml" --verbose foo
run 0 train inside/config.yml --resume inside --forward_only
grep -qE '^eval at step 8: loss [0-9.]+ over 4 batches$' out ||
    fail 'an evaluation does not say over what'
run 0 train --help
for word in --verbose --num-minibatches --forward-only --resume --explain \
    --require-loss-below; do
    has out "$word"
done
# Options have hyphens, and take the original's spelling, too.
grep -E '^  --[a-z-]*_' out && fail 'an option with an underscore'
# shellcheck disable=SC2086
run 0 train "$configs/bert_tiny.yml" $pipe --num_minibatches=4 --dry_run

# A loss that is not finite stops the run and says where.
# shellcheck disable=SC2086
run 1 train "$configs/bert_tiny.yml" $pipe --set learning_rate=100 \
    --set grad_clip=0 --set optimizer=sgd --set total_steps=200 --output nan
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about the loss'
has err 'non-finite output of operator '
has err '; lower learning_rate or set grad_clip'

printf '%d checks, %d failures\n' "$checks" "$failures"
[ "$failures" -eq 0 ]
