#!/bin/sh
# Runs that are stopped by signals can be resumed, and --verbose shows the inside of a
# pipeline.
#   tests/system/cli_signals.sh PROGRAM
set -u

. "$(dirname "$0")/cli_lib.sh"

# ---- Signals ---------------------------------------------------------------
# start FOLDER FILE ARGUMENT...: starts a long run and returns when FILE is in
# its folder.
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

# ended STATUS: waits for the run of `start` and checks its status
ended() {
    wait $child
    got=$?
    [ "$got" -eq "$1" ] || fail "exit $got, not $1, after a signal"
}

# A signal stops the run after the current update, with a checkpoint and status
# 3; the run can be resumed.
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

# The timeline of a resumed run has its second part, with continued numbers.
run 0 trace stoppedTERM
has out "minibatches $last to $((last + 2)), on 1 rank"
run 0 trace stoppedTERM --last 1
has out "minibatch $((last + 2)), on 1 rank"

# Resuming a finished run changes nothing.
cp stoppedTERM/trace.json done.json
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny $long --resume stoppedTERM \
    --max-steps $((last + 3))
grep -q nan out && fail 'not a number after nothing was done'
has out "done      nothing: $((last + 3)) updates are trained already, and\
 --max-steps ends the run at $((last + 3)); raise it to go on"
cmp -s done.json stoppedTERM/trace.json || fail 'an empty trace replaced one'

# A key that may not change is named, with the value to use.
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

# --output may name the resumed run in another spelling; an evaluation of it
# needs another folder.
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

# A group of more minibatches than a ring of results holds.
# shellcheck disable=SC2086
run 0 train "$configs/bert_one.yml" $tiny --max-steps 1 --output long \
    --set accumulation_steps=9000 --set watchdog_seconds=5
[ "$(n_steps long/metrics.jsonl)" -eq 1 ] || fail 'not one step of a long group'

# Signals that arrive together count as one: a program and its process group may
# both get it.
# shellcheck disable=SC2086
start stoppedtwice metrics.jsonl "$configs/bert_one.yml" $tiny $long
kill -INT $child
kill -TERM $child
kill -TERM $child
ended 3
[ -n "$(find stoppedtwice/checkpoints -name manifest.json)" ] ||
    fail 'no checkpoint after two signals at once'

# A closed pipe also stops the run cleanly, with one line.
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

# The folder of a running job is locked, even before its first checkpoint.
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

# The same for an asynchronous pipeline; a second signal of any kind ends the
# run at once.
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

# ---- Output of --verbose ---------------------------------------------------
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
# Options are spelled with hyphens; the original's underscores work as well.
grep -E '^  --[a-z-]*_' out && fail 'an option with an underscore'
# shellcheck disable=SC2086
run 0 train "$configs/bert_tiny.yml" $pipe --num_minibatches=4 --dry_run

# A loss that is not finite stops the run; the message names the operator.
# shellcheck disable=SC2086
run 1 train "$configs/bert_tiny.yml" $pipe --set learning_rate=100 \
    --set grad_clip=0 --set optimizer=sgd --set total_steps=200 --output nan
[ "$(wc -l <err)" -eq 1 ] || fail 'not one line about the loss'
has err 'non-finite output of operator '
has err '; lower learning_rate or set grad_clip'

end_cli
