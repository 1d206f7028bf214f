#!/bin/bash
# bench/monitor_cost.sh PROGRAM [ROUNDS]: measures the CPU time of monitoring, as a
# share of the run's CPU time. The run has status.json, TensorBoard, Prometheus and a
# dashboard with a client of its events and one scrape per second; `vpipe top` shows it
# in a terminal. Counts the threads that write and serve, and vpipe top: the difference
# of two runs would be smaller than their noise, and would not include status.json,
# which every run has. Prints a line per round and the median; exits 1 if the median is
# 0.5 % or more.
set -euo pipefail

program=$(realpath "${1:?usage: bench/monitor_cost.sh PROGRAM [ROUNDS]}")
rounds=${2:-3}
seconds=20
configs=$(cd "$(dirname "$0")/../configs" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# cpu_ns PID PATTERN: CPU time of the threads of a process whose names match.
cpu_ns()
{
    local task n=0

    for task in /proc/"$1"/task/*; do
        [[ $(cat "$task/comm") =~ $2 ]] || continue
        n=$((n + $(cut -d' ' -f1 "$task/schedstat")))
    done
    echo $n
}

shares=()
for ((round = 1; round <= rounds; round++)); do
    "$program" train "$configs/bert_4gpipe_tiny.yml" --output run$round \
        --set total_steps=1000000 --set checkpoint_every=0 \
        --set tensorboard=true --set prometheus_file="$folder/v.prom" \
        --dashboard 0 >out$round 2>&1 &
    pid=$!
    until grep -qs "^step" out$round; do sleep 0.1; done
    token=$(cat run$round/dashboard.token)
    url=$(sed -n 's/^dashboard \(http:[^,]*\),.*/\1/p' out$round)
    curl -s -H "Authorization: Bearer $token" "${url}events" >/dev/null &
    reader=$!
    TERM=xterm CI=false script -qec "exec '$program' top run$round" /dev/null \
        >/dev/null 2>&1 </dev/null &
    terminal=$!
    sleep 1
    view=$(pgrep -P $terminal)
    run=$(cpu_ns $pid .) threads=$(cpu_ns $pid '^vpipe-(monitor|http)$')
    top=$(cpu_ns "$view" .)
    for ((i = 0; i < seconds; i++)); do
        sleep 1
        curl -s -H "Authorization: Bearer $token" "${url}metrics" >metrics
    done
    run=$(($(cpu_ns $pid .) - run))
    threads=$(($(cpu_ns $pid '^vpipe-(monitor|http)$') - threads))
    top=$(($(cpu_ns "$view" .) - top))
    kill -TERM $pid
    wait $pid || true
    kill $reader $terminal 2>/dev/null || true
    shares+=("$(awk -v r=$run -v t=$threads -v p=$top \
        'BEGIN { printf "%.3f", 100 * (t + p) / r }')")
    echo "round $round: run $((run / 1000000)) ms, threads" \
        "$((threads / 1000000)) ms, vpipe top $((top / 1000000)) ms:" \
        "${shares[-1]} %"
done
median=$(printf '%s\n' "${shares[@]}" | sort -n |
    awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }')
echo "median: $median %"
awk -v m="$median" 'BEGIN { exit !(m < 0.5) }'
