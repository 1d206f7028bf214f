#!/bin/bash
# tests/system/extend.sh BUILD [NAME]...: the walk-throughs of docs/extend, each on a
# copy of the sources with examples/extend/NAME.patch applied. Builds the targets that
# the page names and runs its commands, in a folder of BUILD. KEEP=1 keeps the folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- add-an-operator add-a-model add-a-schedule
root=$PWD
folder=$(mktemp -d "$build/extend.XXXXXX")
[ -n "${KEEP:-}" ] || trap 'rm -rf "$folder"' EXIT
failures=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# make TARGET...: builds in the copy; all walk-throughs share its build folder.
make()
{
    if ! ninja -C build "$@" >log 2>&1; then
        tail -n 30 log
        return 1
    fi
}

# check NAME...: builds test_NAME and runs it.
check()
{
    local name

    make "${@/#/test_}" || return 1
    for name in "$@"; do
        "build/test_$name" >log 2>&1 || {
            grep -E 'ERROR|FAILED' log
            fail "test_$name"
        }
    done
}

# losses RUN SETTING...: trains a small model for ten updates and prints the
# losses.
losses()
{
    local run=$1 settings=()
    shift

    for setting in "$@"; do
        settings+=(--set "$setting")
    done
    build/vpipe train configs/gpt2_tiny.yml --max-steps 10 --quiet \
        --set accumulation_steps=5 "${settings[@]}" --output "$run" >/dev/null
    sed -n 's/.*"loss": *\([^,]*\),.*/\1/p' "$run/metrics.jsonl"
}

# same_losses A B: both are the same ten losses.
same_losses()
{
    [ "$(wc -l <<<"$1")" = 10 ] || fail "not ten losses: $1"
    [ "$1" = "$2" ] || fail "losses differ: $1 and $2"
}

add_an_operator()
{
    check reference gradients kernels bf16 model
}

add_a_model()
{
    check model config config_keys || return 1
    make vpipe || return 1
    same_losses "$(losses runs/one model_type=gptp)" \
        "$(losses runs/three model_type=gptp stages=3)"
    build/vpipe train configs/gpt2_tiny.yml --set model_type=gptp \
        --require-loss-below unigram --quiet --output runs/long >log 2>&1 ||
        fail "gptp learns nothing: $(tail -n 3 log)"
}

add_a_schedule()
{
    local page

    check sched simulate sched_zero config || return 1
    make vpipe || return 1
    build/vpipe schedule 2f2b --stages 4 --minibatches 8 --svg 2f2b.svg >chart
    grep -q '</svg>' 2f2b.svg || fail 'no drawing'
    # The page shows this chart.
    page=$(sed -n '/^rank 0 /,/^rank 3 /p' "$root/docs/extend/add-a-schedule.md")
    [ "$page" = "$(sed -n '/^rank 0 /,/^rank 3 /p' chart)" ] ||
        fail "docs/extend/add-a-schedule.md shows another chart"
    same_losses "$(losses runs/usual schedule=1f1b stages=3)" \
        "$(losses runs/pairs schedule=2f2b stages=3)"
}

scripts/source-tree copy "$folder/tree"
cd "$folder/tree"
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DVP_CUDA=OFF \
    -DVP_MPI=OFF -DVP_HTTP=OFF -DVP_LIBRARY=OFF >log 2>&1 || {
    tail -n 30 log
    exit 1
}
for name in "$@"; do
    patch -p1 -s <"$root/examples/extend/$name.patch"
    before=$failures
    "${name//-/_}" || fail "$name does not build"
    patch -R -p1 -s <"$root/examples/extend/$name.patch"
    rm -rf runs
    [ $failures != "$before" ] || echo "$name: ok"
done
echo "extend: $# walk-throughs, $failures failures"
[ $failures = 0 ]
