# Shared by tests that start the program: a scratch folder, counters, and calls
# whose exit status and messages are checked. A script sets `program` before it
# sources this file, and `subcommand` if all its calls begin with one.
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder" || exit 1
checks=0
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    printf '  stdout: %s\n' "$(head -c 400 out)"
    printf '  stderr: %s\n' "$(head -c 400 err)"
}

# run STATUS ARGUMENT...: leaves stdout in `out` and stderr in `err`.
run() {
    want=$1
    shift
    checks=$((checks + 1))
    "$program" ${subcommand:+"$subcommand"} "$@" >out 2>err </dev/null
    got=$?
    [ "$got" -eq "$want" ] ||
        fail "exit $got, not $want: vpipe ${subcommand:+$subcommand }$*"
}

# refuse MESSAGE ARGUMENT...: exit 2, empty stdout, exactly this line on stderr.
refuse() {
    message=$1
    shift
    run 2 "$@"
    [ ! -s out ] || fail "stdout is not empty: vpipe ${subcommand:+$subcommand }$*"
    printf '%s\n' "$message" >expected
    cmp -s expected err ||
        fail "not the line '$message': vpipe ${subcommand:+$subcommand }$*"
}
