# A small disk for tests of the program.
# shellcheck shell=sh

# use_small_disk SIZE: wraps $program so that it has a disk of SIZE at ./small,
# empty at every start. Prints a message and returns false without root.
use_small_disk()
{
    if ! unshare -m true 2>/dev/null; then
        echo 'not tried, needs root: a small disk'
        return 1
    fi
    mkdir small
    cat >on_small_disk <<END
#!/bin/sh
exec unshare -m sh -c 'mount -t tmpfs -o size=$1 none small && exec "\$@"' \
    sh "$program" "\$@"
END
    chmod +x on_small_disk
    program=./on_small_disk
}
