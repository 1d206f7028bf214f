#!/bin/sh
# The command line of the program: help, exit codes, use of stdout and stderr, and one
# helpful line for each mistake.
#   tests/system/cli.sh PROGRAM
set -u

. "$(dirname "$0")/cli_lib.sh"

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
# A long name is on a line of its own; descriptions begin in one column.
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
# Option names of other programs; only for commands that take keys.
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
# An option is not taken as the value of the option before it.
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
has out 'lists   by the greedy rule: those of zb-h2 need at least 7 minibatches'
run 0 schedule v-auto --stages 4 --minibatches 8 --memory 3
has out 'lists   by the greedy rule: those of v-auto keep more than 3 chunks'
run 0 schedule v-auto --stages 4 --minibatches 8 --memory 6
has out 'memory  at most 6 slots in use on a rank'
has out 'bubble simulated=0.094340 theory=0.094340 span=0.094340'
refuse "vpipe schedule: schedule zb-v has no memory to set; leave it out, or use\
 v-auto" schedule zb-v --stages 2 --minibatches 4 --memory 4
# `auto` finds the best placement within the given memory.
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
# A schedule that is parsed from its text has the same bubble, because theory is
# computed from the lists.
for how in 'zb-h2 --early' 'zb-v --early' 'v-half --recompute' \
    'v-auto --memory 6'; do
    # shellcheck disable=SC2086
    run 0 schedule $how --stages 4 --minibatches 8 --text again.txt
    grep '^bubble' out >expected
    run 0 schedule again.txt
    grep '^bubble' out | cmp -s expected - || fail "another bubble: $how"
done
refuse "vpipe schedule: option '--stages' has no effect: the file again.txt\
 sets it; leave it out" schedule again.txt --stages 2
# A text that parses but is not a valid schedule, and a file that is not a
# schedule.
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

# Output that cannot be written gives exit status 1.
if [ -w /dev/full ]; then
    checks=$((checks + 1))
    "$program" --help >/dev/full 2>err
    [ $? -eq 1 ] || fail 'a full disk behind stdout'
fi

end_cli
