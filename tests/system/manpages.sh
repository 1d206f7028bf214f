#!/bin/bash
# tests/system/manpages.sh fetch TEXT.txt: downloads Debian's translated manual pages
# and writes 20 MB of their text.
# tests/system/manpages.sh PROGRAM [TEXT.txt]: encodes that text (downloaded if it is
# not given) and compares the ids with hashes from Hugging Face's tokenizers.
# Exits with 77 if the packages cannot be downloaded or have another version.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
packages="manpages-de manpages-fr manpages-ja manpages-ru manpages-zh"
share=4200000 # bytes per package
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip()
{
    echo "manpages: skipped: $*"
    exit 77
}

# text PACKAGE: the beginning of its pages, ordered by name.
text()
{
    dpkg-deb -x "$work/$1"_*.deb "$work/$1"
    find "$work/$1" -name '*.gz' -type f | LC_ALL=C sort | xargs zcat |
        iconv -f UTF-8 -t UTF-8 -c >"$work/$1.all"
    head -c $share "$work/$1.all" | sed '$d'
}

fetch()
{
    # shellcheck disable=SC2086 # a list of packages
    (cd "$work" && apt-get download $packages >/dev/null 2>&1) ||
        skip "the packages cannot be downloaded"
    for package in $packages; do
        text "$package"
    done >"$1"
}

if [ "$1" = fetch ]; then
    fetch "$2"
    exit
fi
program=$(realpath "$1")
input=${2:-$work/text}
[ $# -gt 1 ] || fetch "$input"
status=0
while read -r want name; do
    if [ "$name" = text ]; then
        [ "$(sha256sum <"$input")" = "$want  -" ] ||
            skip "the text is of another version"
        continue
    fi
    got=$("$program" data encode --tokenizer "$here/../golden/tokenizers/$name" \
        "$input" | sha256sum)
    if [ "$got" = "$want  -" ]; then
        echo "manpages: $name: same ids"
    else
        echo "manpages: $name: other ids"
        status=1
    fi
done <"$here/../golden/tokenizers/text.hash"
exit $status
