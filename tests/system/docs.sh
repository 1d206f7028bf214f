#!/bin/bash
# tests/system/docs.sh: checks the Markdown pages. Every relative link leads to a file
# and every anchor to a heading; source files and functions that docs/architecture.md
# names exist; the patches of examples/extend apply, and contain the code that the
# pages of docs/extend quote.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
n_links=0
n_names=0
n_quoted=0

fail()
{
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# prose PAGE: the page without code blocks and inline code.
# shellcheck disable=SC2016 # backquotes of Markdown
prose()
{
    awk '/^ *```/ { code = !code; next } !code' "$1" | sed 's/`[^`]*`//g'
}

# anchors PAGE: the anchors of its headings as GitHub makes them, one per line.
anchors()
{
    awk '/^ *```/ { code = !code; next } !code && /^#+ /' "$1" |
        sed -E 's/^#+ +//; s/\[([^]]*)\]\([^)]*\)/\1/g; s/[^A-Za-z0-9 _-]//g; s/ /-/g' |
        tr '[:upper:]' '[:lower:]'
}

check_link()
{
    local page=$1 target=$2 file anchor

    n_links=$((n_links + 1))
    file=${target%%#*}
    anchor=${target#"$file"}
    file=${file:+$(dirname "$page")/$file}
    file=${file:-$page}
    if [ ! -e "$file" ]; then
        fail "$page: there is no $target"
    elif [ -n "$anchor" ]; then
        anchors "$file" | grep -qxF -- "${anchor#\#}" ||
            fail "$page: $target: no such heading"
    fi
}

check_links()
{
    local target

    while read -r target; do
        case $target in
        http:* | https:* | mailto:*) ;;
        *) check_link "$1" "$target" ;;
        esac
    done < <(prose "$1" | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
}

# Files are paths below src or from the root; functions end with ().
# shellcheck disable=SC2016 # backquotes of Markdown
check_names()
{
    local name

    while read -r name; do
        n_names=$((n_names + 1))
        case $name in
        *'()') git_grep "\\b${name%()}(" || fail "$1: there is no $name" ;;
        *) [ -e "$name" ] || [ -e "src/$name" ] || fail "$1: there is no $name" ;;
        esac
    done < <(grep -oE '`[a-z][A-Za-z0-9_/.-]*(\(\)|/[a-z0-9_]+\.(c|h|inc|cu|sh|py))`' "$1" |
        tr -d '`' | sort -u)
}

git_grep()
{
    grep -rqE --include='*.[ch]' "${1/(/\\(}" src tools include
}

# Each line of the page's C code must be an added or a context line of the
# patch.
check_quotes()
{
    local page=$1 patch=$2 line

    sed -n 's/^[+ ]//p' "$patch" >"$folder/lines"
    while IFS= read -r line; do
        n_quoted=$((n_quoted + 1))
        grep -qxF -- "$line" "$folder/lines" ||
            fail "$page quotes a line that $patch does not have: $line"
    done < <(awk '/^```c$/ { code = 1; next } /^```$/ { code = 0 } code && NF' "$page")
}

while read -r page; do
    check_links "$page"
done < <(find README.md CONTRIBUTING.md CHANGELOG.md docs bench/results \
    -name '*.md' | sort)
check_names docs/architecture.md
for patch in examples/extend/*.patch; do
    name=$(basename "$patch" .patch)
    patch -p1 --dry-run -s <"$patch" || fail "$patch does not apply"
    check_quotes "docs/extend/$name.md" "$patch"
done
[ $n_links -gt 200 ] || fail "only $n_links links were found"
[ $n_quoted -gt 80 ] || fail "only $n_quoted lines of code were found"
echo "docs: $n_links links, $n_names names, $n_quoted quoted lines," \
    "$failures failures"
[ $failures = 0 ]
