# Shared by the tests of ranks as processes. Status 77 means that a program or
# package for a test is missing.
# shellcheck shell=bash

skip()
{
    echo "SKIPPED: $(basename "$0" .sh): $*"
    exit 77
}

# need TOOL...: skips the test if a tool is missing.
need()
{
    local tool

    for tool in "$@"; do
        command -v "$tool" >/dev/null ||
            skip "$tool is missing; scripts/setup full installs it"
    done
}

failures=0

# note_failure TEXT: counts a failure and shows the output of the last command.
# For scripts that go on and check `failures` at their end.
note_failure()
{
    local file

    failures=$((failures + 1))
    echo "FAILED: $*"
    for file in out err; do
        [ ! -s $file ] || { echo "-- $file"; head -c 2000 $file; }
    done
}

# fail TEXT: prints the end of the logs in $folder and exits. For scripts that
# stop at the first failure.
fail()
{
    local file

    echo "FAILED: $*"
    for file in "$folder"/*.log "$folder"/*.out; do
        [ ! -s "$file" ] || { echo "-- $file"; tail -n 15 "$file"; }
    done
    exit 1
}

# until_true SECONDS WHAT COMMAND...: repeats the command until it succeeds;
# fails after SECONDS.
until_true()
{
    local limit=$((SECONDS + $1)) what=$2

    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $limit ] || fail "$what took too long"
        sleep 0.1
    done
}

# write_training STEPS: prints the configuration of a small run.
write_training()
{
    cat <<END
model_type: bert
vocab: 264
hidden: 64
layers: 4
heads: 4
seq_length: 32
batch_size: 4
dropout: 0.1
synthetic_data: true
stages: 4
accumulation_steps: 4
sync_mode: bsp
total_steps: $1
threads_per_stage: 1
watchdog_seconds: 10
END
}

# losses RUN: prints steps and losses of a run, with all digits.
losses()
{
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\),.*/\1 \2/p' \
        "$1/metrics.jsonl"
}

has_steps()
{
    [ "$(losses "$1" | wc -l)" -ge "$2" ]
}

# same_losses RUN RUN: true if both have the same losses, and at least one.
same_losses()
{
    cmp <(losses "$1") <(losses "$2") && [ -n "$(losses "$1")" ]
}
