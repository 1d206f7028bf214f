# What the tests of ranks as processes have in common. Status 77 says that
# something for a test is missing.
# shellcheck shell=bash

skip()
{
    echo "SKIPPED: $(basename "$0" .sh): $*"
    exit 77
}

# need TOOL...
need()
{
    local tool

    for tool in "$@"; do
        command -v "$tool" >/dev/null ||
            skip "$tool is missing; scripts/setup full installs it"
    done
}

failures=0

# For scripts that go on and look at `failures` at their end; shows what the last
# command said.
note_failure()
{
    local file

    failures=$((failures + 1))
    echo "FAILED: $*"
    for file in out err; do
        [ ! -s $file ] || { echo "-- $file"; head -c 2000 $file; }
    done
}

# For those that do not. Uses: folder.
fail()
{
    local file

    echo "FAILED: $*"
    for file in "$folder"/*.log "$folder"/*.out; do
        [ ! -s "$file" ] || { echo "-- $file"; tail -n 15 "$file"; }
    done
    exit 1
}

# until_true SECONDS WHAT COMMAND...: waits for the command to succeed.
until_true()
{
    local limit=$((SECONDS + $1)) what=$2

    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $limit ] || fail "$what took too long"
        sleep 0.1
    done
}

# write_training STEPS
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

# The steps and losses of a run, with all their digits.
losses()
{
    sed -n 's/^{"step": \([0-9]*\),.*"loss": \([^,]*\),.*/\1 \2/p' \
        "$1/metrics.jsonl"
}

has_steps()
{
    [ "$(losses "$1" | wc -l)" -ge "$2" ]
}

# same_losses RUN RUN
same_losses()
{
    cmp <(losses "$1") <(losses "$2") && [ -n "$(losses "$1")" ]
}
