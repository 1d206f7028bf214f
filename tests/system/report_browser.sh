#!/bin/bash
# Tests pages of vpipe report in a browser: see report_browser.py.
#   tests/system/report_browser.sh PROGRAM
# Exits with 77 if Chromium or Python is not installed.
set -u

program=$(realpath "${1:?usage: tests/system/report_browser.sh PROGRAM}")
here=$(cd "$(dirname "$0")" && pwd)
configs=$here/../../configs

for chromium in chromium chromium-browser google-chrome ''; do
    command -v "$chromium" >/dev/null && break
done
[ -n "$chromium" ] || {
    echo 'report_browser: skipped, there is no chromium; apt-get install chromium'
    exit 77
}
command -v python3 >/dev/null || {
    echo 'report_browser: skipped, there is no python3'
    exit 77
}

folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1

"$program" train "$configs/report/few_minibatches.yml" --output one --max-steps 30 \
    --set eval_every=5 --quiet || exit 1
"$program" train "$configs/report/memory_bound.yml" --output two --max-steps 4 \
    --quiet || exit 1
mkdir large
cp one/{config.yml,plan.json,trace.json} large
awk 'BEGIN {
    srand(1)
    for (i = 1; i <= 1000000; i++)
        printf "{\"step\": %d, \"epoch\": 0, \"minibatch\": %d, \"loss\": %.16f, " \
            "\"lr\": %.9g, \"grad_norm\": %.16f, \"samples_per_second\": %.6g, " \
            "\"tokens_per_second\": %.6g, \"tflops\": 0.1, \"seconds\": %.6g, " \
            "\"bubble\": %.6g, \"memory\": [9549824, 9781248, 9781248, 1]}\n",
            i, 4 * i, 2 + 4 / (1 + i * 1e-4) + 0.2 * rand(), 1e-3 / i, 3 + rand(),
            500 + rand(), 15000 + 100 * rand(), 0.13 + 0.01 * rand(), rand()
}' >large/metrics.jsonl
"$program" report one two --out several.html >/dev/null || exit 1
TIMEFORMAT='vpipe report of a million steps: %U s of CPU'
time "$program" report large >/dev/null || exit 1
[ "$(stat -c %s large/report.html)" -lt 2000000 ] || {
    echo 'report_browser: the page of a million steps has 2 MB or more'
    exit 1
}
"$here/report_browser.py" "$chromium" one/report.html several.html large/report.html
