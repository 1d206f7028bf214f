#!/bin/bash
# tests/system/manual.sh PROGRAM [FOLDER]: every command has a manual page, and the
# pages name every option, key and value of the program's tables. mandoc must not
# complain about the built pages in FOLDER. Exits with 77 if there is no FOLDER or no
# mandoc; the rest was checked.
set -euo pipefail

program=$(realpath "$1")
source=$(cd "$(dirname "$0")/../../man" && pwd)
pages=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
checks=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# Writes pages without backslashes, stars and underscores, which are markup of
# scdoc; names are compared without underscores.
expand()
{
    LC_ALL=C awk -v program="$program" -v version=1.2.3 -v share=/share \
        -v root="$source/.." -f "$source/expand.awk" "$1" >"$folder/page.scd"
    if grep -n '^@' "$folder/page.scd"; then
        fail "$1: a line that is not known"
    fi
    tr -d '\\*_' <"$folder/page.scd" >"$folder/$(basename "$1" .scd)"
}

for page in "$source"/*.scd; do
    expand "$page"
done
"$program" completion data >"$folder/rows"
while IFS=$'\t' read -r type first second third _; do
    checks=$((checks + 1))
    page=$folder/vpipe-${first%% *}.1
    case $type in
    command)
        [ -e "$page" ] || fail "there is no man/vpipe-${first%% *}.1.scd"
        [[ $first == *' '* ]] || grep -qF "vpipe-$first(1)" "$folder/vpipe.1" ||
            fail "vpipe.1 does not name $first"
        ;;
    option)
        [ "$third" = - ] && line=$second || line="$second $third"
        grep -qxF -- "${line//_/}" "$page" || fail "$page does not have $line"
        ;;
    key)
        grep -qxF "${first//_/}" "$folder/vpipe.yml.5" ||
            fail "vpipe.yml.5 does not have $first"
        ;;
    *) fail "a row of type '$type'" ;;
    esac
done <"$folder/rows"
[ $checks -gt 200 ] || fail "only $checks rows"
functions=$(grep -A 1 VPIPE_API "$source/../include/vpipe/vpipe.h" |
    grep -o 'vpipe_[a-z_]*(' | sort -u)
for function in $functions; do
    checks=$((checks + 1))
    grep -qF "${function//_/}" "$folder/libvpipe.3" ||
        fail "libvpipe.3 does not have $function)"
done

linted=0
if [ -d "$pages" ] && command -v mandoc >/dev/null; then
    for page in "$pages"/*.[135]; do
        mandoc -T lint -W warning "$page" || fail "mandoc: $page"
        linted=$((linted + 1))
    done
    [ $linted = "$(ls "$source"/*.scd | wc -l)" ] ||
        fail "$linted pages in $pages"
fi
echo "manual: $checks rows, $linted pages linted, $failures failures"
[ $failures = 0 ] || exit 1
[ $linted -gt 0 ] || {
    echo 'SKIPPED: manual: no page was linted; install scdoc and mandoc, and' \
        'configure again'
    exit 77
}
