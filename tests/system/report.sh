#!/bin/bash
# vpipe report: the page of a run, the causes of lost time that it names, broken or
# hostile run folders, several runs, and refusals.
#   tests/system/report.sh PROGRAM
set -u

program=$(realpath "${1:?usage: tests/system/report.sh PROGRAM}")
configs=$(cd "$(dirname "$0")/../.." && pwd)/configs
. "$(dirname "$0")/tool_lib.sh"

# has FILE TEXT: the file contains the text
has() {
    checks=$((checks + 1))
    grep -qF -- "$2" "$1" || fail "no '$2' in $1"
}

# lacks FILE PATTERN: no line of the file matches the pattern
lacks() {
    checks=$((checks + 1))
    ! grep -qE -- "$2" "$1" || fail "'$2' is in $1"
}

# first FOLDER: the first cause on the folder's page.
first() {
    grep -o '<li><strong>[^<]*' "$1/report.html" | head -1 | sed 's/.*>//'
}

# ---- The page of a run -------------------------------------------------------
run 0 train "$configs/report/few_minibatches.yml" --output few --max-steps 12 --quiet
[ -s few/report.html ] || fail 'train leaves no report.html'
[ "$(first few)" = 'Too few minibatches per update: 2 for 4 stages' ] ||
    fail "few_minibatches: $(first few)"
has few/report.html 'accumulation_steps: 27 would leave 10 %'
cp few/report.html left.html
run 0 report few
[ "$(cat out)" = few/report.html ] || fail 'not the path of the page'
cmp -s left.html few/report.html ||
    fail 'the page that train leaves is not the one of vpipe report'
(cd few && "$program" report . --out ../dot.html) >out 2>err
cmp -s left.html dot.html || fail 'another path to the folder, another page'

# The page loads nothing, and its policy allows nothing unsafe.
lacks few/report.html '(src|href)="[^#]'
lacks few/report.html '@import|url\([^#]|unsafe|<link'
has few/report.html "content=\"default-src 'none'"

run 0 train "$configs/report/slow_stage.yml" --output slow --max-steps 4 --quiet
case $(first slow) in
'Stage 1 is slow: '*) ;;
*) fail "slow_stage: $(first slow)" ;;
esac
has slow/report.html 'stage 1 holds 5 of the 9 blocks'

run 0 train "$configs/report/memory_bound.yml" --output bound --max-steps 4 --quiet
case $(first bound) in
'Memory is the limit: stages recompute activations to fit memory_limit') ;;
*) fail "memory_bound: $(first bound)" ;;
esac
has bound/report.html 'of its memory_limit of 22 MiB (90 %)'

# ---- Several runs ------------------------------------------------------------
run 0 report few slow bound --out three.html
has three.html '<h2>What limits these runs</h2>'
has three.html '<th scope="row">accumulation_steps</th><td>2</td><td>24</td><td>16</td>'
lacks three.html '<th scope="row">hidden</th><td>128</td><td>'
run 0 report few slow
[ "$(cat out)" = report.html ] && [ -s report.html ] ||
    fail 'the page of two runs is not report.html'

# ---- A page that cannot be written does not fail the run -----------------------
mkdir -p full/report.html.tmp
touch full/lock
run 0 train "$configs/report/few_minibatches.yml" --output full --max-steps 2 --quiet
has err 'full/report.html: cannot be written'
[ ! -e full/report.html ] || fail 'there is a page'

# ---- Broken or hostile folders -------------------------------------------------
mkdir "<img src=x onerror=alert(1)>"
cp few/* "<img src=x onerror=alert(1)>" 2>/dev/null
evil='</script><script>alert(1)</script>"'"'"
printf 'warning: %s\001\377\n' "$evil" >>"<img src=x onerror=alert(1)>/output.log.0"
printf '{"step": 13, "lo' >>"<img src=x onerror=alert(1)>/metrics.jsonl"
printf 'x: "%s"\n' '</script><script>alert(1)</script>' \
    >>"<img src=x onerror=alert(1)>/config.yml"
run 0 report "<img src=x onerror=alert(1)>" --out evil.html
lacks evil.html '<img|<script>alert'
has evil.html '&lt;img src=x onerror=alert(1)&gt;'
has evil.html 'metrics.jsonl: 1 line was left out'
for file in metrics.jsonl plan.json trace.json config.yml output.log.0; do
    rm -rf cut
    cp -r few cut
    head -c 150 "few/$file" >"cut/$file"
    run 0 report cut --out cut.html
    rm "cut/$file"
    mkdir "cut/$file"
    [ "$file" = metrics.jsonl ] || run 0 report cut --out cut.html
done
mkdir bare
touch bare/metrics.jsonl
run 0 report bare
has bare/report.html 'The run folder has no timeline'

# ---- vpipe compare of runs -------------------------------------------------------
# Metrics written by hand: the first of ten steps is warm-up, the last one has
# the loss.
mkdir hand
cp slow/config.yml hand
step() {
    printf '{"step": %d, "loss": %s, "samples_per_second": %s, "tokens_per_second"'\
': %s, "seconds": %s, "bubble": %s, "memory": [1048576, 2097152, 3]}\n' "$@"
}
{
    step 1 9 1 2 7 0.5
    for i in 2 3 4 5 6 7 8 9; do step $i 5 100 1000 0.25 0.5; done
    echo '{"step": 9, "eval_loss": 7, "event": "eval"}'
    step 10 1.5 200 3000 1 0.25
} >hand/metrics.jsonl
run 0 compare hand/ slow --quiet
[ "$(awk '$1 == "hand" { $1 = $1; print; exit }' out)" = \
    'hand 3 3 16 24 133.3 (133.3..133.3) 1667 333.33 - 47.5 - - 2 MiB 1.5000' ] ||
    fail 'compare: not the numbers of the folder'
has out 'measured '
lacks out '^simulated|agree'
[ ! -e compare.svg ] || fail 'compare: a picture without --svg'
run 0 compare hand slow --output compared --quiet
[ -s compared/compare.txt ] && [ -s compared/compare.svg ] ||
    fail 'compare: no table and picture in --output'
cmp -s out compared/compare.txt || fail 'compare: not the table that was printed'
lacks compared/compare.svg 'simulated|nan'
cp -r slow other
sed -i 's/^seed: 1/seed: 2/' other/config.yml
subcommand=compare
run 2 slow other
has err "seed is 2, but 1 in slow/config.yml"
rm hand/metrics.jsonl
refuse "hand: the run has made no step; give the folder of a run that has" slow hand
refuse "vpipe compare: '$configs/report/slow_stage.yml' is not a folder, but other \
arguments are; give configurations to train, or folders of runs" \
    slow "$configs/report/slow_stage.yml"
refuse "vpipe compare: runs are compared as they are; --set, --max-steps, --rounds \
and --memory-limit need configurations" slow few --rounds 2

# ---- Refusals ------------------------------------------------------------------
subcommand=report
refuse "vpipe report: no run; give the folder that 'vpipe train' wrote, for example \
'vpipe report runs/NAME'"
refuse "vpipe report: nowhere: No such file or directory; give the folder that 'vpipe \
train' wrote" nowhere
mkdir empty
refuse "vpipe report: empty is not the folder of a run; give the folder that 'vpipe \
train' wrote" empty
run 1 few --out /nowhere/report.html
has err '/nowhere/report.html: cannot be written'
run 0 --help
has out 'usage: vpipe report RUN...'

echo "$checks checks, $failures failures"
[ "$failures" -eq 0 ]
