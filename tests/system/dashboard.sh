#!/bin/bash
# The dashboard of a run serves good and hostile clients correctly, the losses are
# those of a run without it, and its memory does not grow.
#   tests/system/dashboard.sh PROGRAM HOSTILE [few]
# `few` for sanitizers: fewer clients, and memory is not measured.
# VP_FULL=1: 1,000 requests and 200 stuck clients.
set -u

program=$(realpath "${1:?usage: tests/system/dashboard.sh PROGRAM HOSTILE [few]}")
hostile=$(realpath "${2:?usage: tests/system/dashboard.sh PROGRAM HOSTILE [few]}")
few=${3:-}
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
subcommand=train
# shellcheck source=tests/system/tool_lib.sh
. "$here/tool_lib.sh"

n_requests=120 n_stuck=70
[ "${VP_FULL:-0}" = 0 ] || { n_requests=1000; n_stuck=200; }
[ -z "$few" ] || { n_requests=60; n_stuck=30; }
grown_kib=8192 # memory that the server may add to the run

cat >small.yml <<'EOF'
model_type: gpt2
vocab: 128
hidden: 32
layers: 2
heads: 2
positions: 32
seq_length: 32
batch_size: 4
stages: 2
total_steps: 1000000
checkpoint_every: 0
device: cpu
EOF

# ---- Refusals ------------------------------------------------------------------
for place in x 70000 1:2:3 :80 '[::1]' ::1:80; do
    refuse "--dashboard: '$place' is not [HOST:]PORT; write for example '--dashboard 8080'" \
        small.yml --dashboard "$place"
done
mkdir alone
cp "$program" alone/vpipe
checks=$((checks + 1))
alone/vpipe train small.yml --dashboard 0 >out 2>err
[ $? -eq 2 ] && grep -q '^--dashboard: libvpipe_http.so cannot be loaded (no such file); install libmicrohttpd-dev and build it' err ||
    fail 'a program without the plugin'

# ---- A run with a dashboard ----------------------------------------------------
# field NAME: a value of the run's /proc/PID/status, in kB.
field()
{
    sed -n "s/^$1:[^0-9]*\([0-9]*\).*/\1/p" /proc/$pid/status
}

"$program" train small.yml --output watched --dashboard 0 --set tensorboard=true \
    --set prometheus_file="$folder/vpipe.prom" >watched.out 2>err &
pid=$!
trap 'kill -KILL $pid 2>/dev/null; rm -rf "$folder"' EXIT
for ((i = 0; i < 400; i++)); do
    sleep 0.05
    grep -q '"loss": [0-9]' watched/status.json 2>/dev/null && break
done
port=$(sed -n 's/^dashboard http:.*:\([0-9]*\)\/,.*/\1/p' watched.out)
refuse "--dashboard: cannot listen on 127.0.0.1 port $port (Address already in use); choose another, or port 0 for a free one" \
    small.yml --output other --dashboard "$port"
checks=$((checks + 1))
[ "$(stat -c %a watched/dashboard.token)" = 600 ] ||
    fail "the token can be read by others"
grep -q "$(cat watched/dashboard.token)" watched.out &&
    fail 'the token is in output that is not a terminal'

before=$(field VmRSS)
checks=$((checks + 1))
"$hostile" "$port" watched/dashboard.token $n_requests $n_stuck >out 2>&1 ||
    fail 'hostile clients'
after=$(field VmRSS)
checks=$((checks + 1))
[ -n "$few" ] || [ $((after - before)) -lt $grown_kib ] ||
    fail "memory grew from $before to $after kB"

# Like a browser: sends the token once, then the cookie; events are lines of the
# run.
checks=$((checks + 1))
if command -v curl >/dev/null; then
    url=http://127.0.0.1:$port token=$(cat watched/dashboard.token)
    curl -s -c jar -o page -L "$url/?token=$token" 2>err
    grep -q '<script>' page || fail 'no page'
    grep -q "$token" page && fail 'the token is in the page'
    grep -q '#HttpOnly_127.0.0.1.*vpipe_' jar || fail 'no cookie'
    # The stream has no end; a busy machine may need longer for its first lines.
    for seconds in 2 5 10; do
        curl -s -b jar -m $seconds "$url/events?from=0" >events
        sed -n 's/^data: \({"step": .*\)/\1/p' events | head -20 >lines
        [ "$(wc -l <lines)" -lt 20 ] || break
    done
    head -20 watched/metrics.jsonl | cmp -s - lines ||
        fail 'events are not lines of metrics.jsonl'
    grep -q '^event: status$' events || fail 'no status among the events'
fi

kill -TERM $pid
wait $pid
[ $? -eq 3 ] || fail 'the run does not stop'
[ ! -e watched/dashboard.token ] || fail 'the token is left behind'
grep -q '"state": "interrupted"' watched/status.json || fail 'the last state'

# ---- The same run without a dashboard ------------------------------------------
steps=$(grep -c '"loss"' watched/metrics.jsonl)
[ "$steps" -lt 3000 ] || steps=3000
run 0 small.yml --output plain --quiet --max-steps "$steps"
for name in watched plain; do
    sed -n "s/.*\"loss\": \([^,]*\),.*/\1/p" $name/metrics.jsonl |
        head -n "$steps" >$name.losses
done
checks=$((checks + 1))
[ "$(wc -l <plain.losses)" = "$steps" ] && cmp -s watched.losses plain.losses ||
    fail 'losses differ from those of a run without a dashboard'

echo "dashboard.sh: $checks checks, $steps steps, $((after - before)) kB grown, $failures failed"
[ $failures = 0 ]
