#!/bin/sh
# Runs and pipelines: files of the run folder, schedules that do not change the losses,
# and folders that are refused.
#   tests/system/cli_runs.sh PROGRAM
set -u

. "$(dirname "$0")/disk_lib.sh"
. "$(dirname "$0")/cli_lib.sh"

# ---- Runs ------------------------------------------------------------------
for file in bert_one gpt2_tiny translation_tiny; do
    # shellcheck disable=SC2086
    run 0 train "$configs/$file.yml" $tiny --dry-run --output dry
    has out "${file%%_*}"
    has out 'dry run'
    [ ! -e dry ] || fail "a dry run wrote a folder ($file)"
done

# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --output run
[ ! -s err ] || fail 'a good run writes to stderr'
has out 'step 4/4'
grep -q "$(printf '\033')" out && fail 'escape sequences outside a terminal'
[ "$(n_steps run/metrics.jsonl)" -eq 4 ] || fail 'not one line per update'
has out 'forecast  by the first steps: step '
[ "$(tail -n 1 run/metrics.jsonl | cut -c1-37)" = \
    '{"step": 4, "event": "forecast", "for' ] || fail 'no forecast at the end'

# config.yml of a run folder repeats the run with the same losses.
run 0 train run/config.yml --output again --quiet
[ ! -s out ] || fail '--quiet is not quiet'
[ -s again/metrics.jsonl ] || fail 'config.yml does not run'
[ "$(losses run)" = "$(losses again)" ] ||
    fail 'config.yml does not repeat the run'

# shellcheck disable=SC2086
run 0 train $tiny --max_steps 2 --output short -- "$configs/gpt2_tiny.yml"
[ "$(n_steps short/metrics.jsonl)" -eq 2 ] || fail '--max_steps 2'

# ---- Pipelines -------------------------------------------------------------
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

# Tables, timelines and errors use the user's rank numbers.
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

# finite FOLDER N: metrics of N steps, each with a finite loss.
finite() {
    [ "$(grep -cE '"loss": [0-9]+\.[0-9]+,' "$1/metrics.jsonl")" -eq "$2" ] ||
        fail "not $2 losses in $1"
}

# Asynchronous: a step is one minibatch, with a gradient norm per stage.
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

# Synchronous: the number of stages, the schedule and recomputation do not
# change the losses.
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
has out 'lists     by the greedy rule: those of v-auto keep more than 3 chunks'
has vauto/config.yml 'schedule_memory: 3'
[ "$(losses one)" = "$(losses vauto)" ] || fail 'v-auto is not one stage'
# A schedule that is computed for the stages. A resumed run uses the same lists.
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
# The checkpoint holds the schedule: a run can be resumed without the file, but
# not with another schedule.
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

# A run folder is not overwritten.
# shellcheck disable=SC2086
run 2 train "$configs/bert_one.yml" $tiny --output run
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about the used folder'

# A path that cannot be a run folder is refused with a remedy.
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
# A run neither mixes its files with others nor replaces a config.yml.
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
# Files of a run that was stopped before its first step may be overwritten.
mkdir begun
: >begun/lock
: >begun/config.yml
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --output begun --quiet
# The message names a limit of the system that was reached. Descriptors that the
# caller left open would count.
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

# The disk holds two checkpoints and one that is being written. The setting that
# the message suggests works.
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

# A damaged shard is not read as text.
printf 'no shard' >broken.hdf5
refuse "$PWD/broken.hdf5: is not an HDF5 file; copy or write the shard anew, or move\
 it out of data_dir" train "$configs/bert_one.yml" \
    --set "data_dir=$PWD/broken.hdf5"

# The plugin of a transport is checked before mpirun is started.
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
# Without a driver, the message does not mention CUDA's libraries or the plugin.
if ! ldconfig -p 2>/dev/null | grep -qF libcuda.so.1; then
    refuse "--set: device cuda: there is no NVIDIA driver; install one, or use\
 device: cpu" train "$configs/bert_tiny.yml" --set device=cuda
fi
program=$big

end_cli
