# Makes a minimal Debian 12 in a folder, for test-deb and test-container. To be
# sourced by bash scripts that run as root; exit status 77 if that is not possible.
# Sets `work`, a temporary folder that is removed at the end.
mirror=${MIRROR:-http://deb.debian.org/debian}
work=

skip()
{
    echo "$(basename "$0"): skipped: $*"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "only root can make a Debian root"
command -v mmdebstrap >/dev/null || skip "there is no mmdebstrap"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/vpipe-root.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' HUP INT TERM

# make_root DIR: installs the packages of the image `debian:12`. Kept as an archive in
# $ROOT_CACHE, if that is set.
make_root()
{
    local archive=${ROOT_CACHE:+$ROOT_CACHE/debian-12.tar}

    mkdir -p "$1"
    if [ -n "$archive" ] && [ -e "$archive" ]; then
        tar -C "$1" --numeric-owner -xf "$archive"
    else
        mmdebstrap --quiet --variant=minbase --mode=root --format=directory \
            bookworm "$1" "$mirror" ||
            skip "mmdebstrap cannot make a root from $mirror"
        [ -z "$archive" ] ||
            tar -C "$1" --numeric-owner --exclude=./dev/* -cf "$archive" .
    fi
    cp /etc/resolv.conf "$1/etc/resolv.conf"
    # Keep packages from starting daemons.
    printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
    chmod +x "$1/usr/sbin/policy-rc.d"
}

# in_root DIR COMMAND...: runs the command in that root, with its own /proc, /dev and
# shared memory; all its processes end with it.
in_root()
{
    unshare --mount --pid --ipc --fork --kill-child sh -euc '
        root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs -o size=2g tmpfs "$root/dev/shm"
        exec chroot "$root" "$@"' sh "$@" </dev/null
}
