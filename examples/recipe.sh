# Functions and variables of all recipes; read by examples/*/run.
#
# A recipe writes to runs/<its name> of the working directory. Its arguments are
# passed to `vpipe train`, for example --set total_steps=100.
#   VPIPE=...   the program [build/vpipe of this clone, which is built first;
#               an installed recipe: bin/vpipe of the same prefix]
#
# Sets recipe (its name), here (its folder) and out (where it writes).
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
recipe=$(basename "$here")
out=runs/$recipe

if [ -e "$out" ]; then
    echo "examples/$recipe/run: $out exists; rename or remove it" >&2
    exit 2
fi
if [ -z "${VPIPE:-}" ] && [ ! -e "$here/../../scripts/build" ]; then
    VPIPE=$(cd "$here/../../../.." && pwd -P)/bin/vpipe
elif [ -z "${VPIPE:-}" ]; then
    VPIPE=$here/../../build/vpipe
    "$here/../../scripts/build" build program -DCMAKE_BUILD_TYPE=Release
fi
mkdir -p "$out/data"

title() {
    printf '\n== %s\n' "$*"
}

# vpipe ARGUMENT...: prints the command and runs it.
vpipe() {
    printf '$ vpipe' >&2
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_=./,-]*) printf " '%s'" "$word" >&2 ;;
        *) printf ' %s' "$word" >&2 ;;
        esac
    done
    printf '\n' >&2
    "$VPIPE" "$@"
}

# documents <TEXT: each line becomes a document, {"text": "..."}.
documents() {
    sed 's/"/\\"/g; s/.*/{"text": "&"}/'
}

# train OPTION...: trains with recipe.yml and draws the loss.
train() {
    vpipe train "$here/recipe.yml" --output "$out/run" "$@"
    awk -f "$here/../curve.awk" "$out/run/metrics.jsonl" >"$out/loss.svg"
    echo "loss curve: $out/loss.svg"
}
