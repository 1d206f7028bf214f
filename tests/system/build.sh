#!/bin/bash
# `make train` and `make all` build and install the right parts, by scripts/build,
# scripts/setup and CMakeLists.txt. Nothing is compiled: cmake and ninja are replaced
# by scripts that record their arguments, or only configure.
#   tests/system/build.sh BUILD-FOLDER
set -u

build=$(cd "${1:?usage: tests/system/build.sh BUILD-FOLDER}" && pwd) || exit 1
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail()
{
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    tail -n 5 out calls 2>/dev/null
}

# is TEXT FILE: the file holds exactly this text.
is()
{
    printf '%s' "$1" | cmp -s - "$2" || fail "not the text '$1' in $2"
}

# ---- Packages ----------------------------------------------------------------
# A machine that has only the tools linked here.
mkdir bare
for tool in sh bash id mktemp tail rm env cat; do
    ln -s "$(command -v $tool)" bare/
done
printf '#!/bin/sh\nexit 0\n' >bare/apt-get
chmod +x bare/apt-get
# asks PARTS: the packages that scripts/setup requests, on one line.
asks()
{
    (unset CC CXX && PATH=$work/bare "$root/scripts/setup" "$1") 2>&1 |
        sed -n 's/^setup: installing //p
            s/^ *apt-get update && apt-get install .*-recommends //p'
}
program='gcc libc6-dev cmake ninja-build pkg-config libdnnl-dev libyaml-dev'
program="$program libjansson-dev libxxhash-dev zlib1g-dev libzstd-dev libhdf5-dev"
plugins="$program g++ libopenmpi-dev openmpi-bin libmicrohttpd-dev"
[ "$(asks program)" = "$program" ] || fail "setup program: $(asks program)"
[ "$(asks plugins)" = "$plugins" ] || fail "setup plugins: $(asks plugins)"
[ "$(asks all)" = "$plugins libcmocka-dev" ] || fail "setup all: $(asks all)"
[ "$(asks install)" = "$plugins scdoc" ] || fail "setup install: $(asks install)"
case $(asks deb) in
"$plugins scdoc debhelper build-essential fakeroot lintian "*) ;;
*) fail "setup deb: $(asks deb)" ;;
esac
# A user without root rights is told the command for root, also on a new system.
mkdir user
ln -s "$work"/bare/* user/
printf '#!/bin/sh\necho 1000\n' >user_id
chmod +x user_id
ln -sf "$work/user_id" user/id
(unset CC CXX && PATH=$work/user "$root/scripts/setup" program) >out 2>&1 &&
    fail 'setup without rights ends well'
is "setup: packages are missing; run once, as root:
  apt-get update && apt-get install -y --no-install-recommends $program
" out

# ---- Configuring and building --------------------------------------------------
mkdir -p tree/scripts fake
cp "$root/scripts/build" tree/scripts/
cat >tree/scripts/setup <<'END'
#!/bin/sh
echo "setup $*" >>"$CALLS"
END
cat >fake/cmake <<'END'
#!/bin/sh
echo "cmake $*" >>"$CALLS"
[ -z "${FAIL:-}" ] || exit 1
mkdir -p "$4/CMakeFiles"
: >"$4/build.ninja"
END
cat >fake/ninja <<'END'
#!/bin/sh
echo "ninja $*" >>"$CALLS"
cat "$LINES_OF_NINJA"
[ -z "${FAIL:-}" ] || exit 1
END
chmod +x tree/scripts/setup fake/*
: >silent
# builds ARGUMENT...: leaves the calls in `calls` and the output in `out`.
builds()
{
    : >calls
    CALLS=$work/calls LINES_OF_NINJA=$work/${lines:-silent} CC=cc \
        PATH=$work/fake:$PATH tree/scripts/build "$@" >out 2>&1
}
off='-DVP_TESTS=OFF -DVP_MPI=OFF -DVP_HTTP=OFF -DVP_CUDA=OFF'
off="$off -DVP_LIBRARY=OFF"
on='-DVP_TESTS=ON -DVP_MPI=ON -DVP_HTTP=ON -DVP_CUDA=ON'
on="$on -DVP_LIBRARY=ON"

builds b program -DX=1 || fail 'a first build'
is "setup program
cmake -S . -B b -G Ninja $off -DX=1
ninja -C b program
" calls
: >tree/b/CMakeFiles/object
builds b program -DX=1 || fail 'a second build'
is 'setup program
ninja -C b program
' calls
# Objects that were compiled for the program are reused for the other parts.
builds b -DX=1 || fail 'a build of all parts'
is "setup all
cmake -S . -B b -G Ninja $on -DX=1
ninja -C b all
" calls
[ -e tree/b/CMakeFiles/object ] || fail 'all parts: compiled files were removed'
builds b program -DX=1 || fail 'a build of the program after all parts'
is 'setup program
ninja -C b program
' calls
# A plugin that exists is rebuilt with the program.
: >tree/b/libvpipe_mpi.so
builds b program -DX=1 || fail 'a build with a plugin'
is 'setup plugins
ninja -C b plugins
' calls
# A target is not an option of cmake.
builds b test_pool && fail 'a target was taken as an option of cmake'
is '' calls
grep -q "'test_pool' is neither program, plugins, all nor an option of cmake" out ||
    fail 'no line about a target'
# With other options the folder starts empty. Its remains after a failure are
# not taken for a folder with the earlier options.
FAIL=1 builds b -DX=2 && fail 'cmake failed, scripts/build did not'
grep -q "^build: b cannot be configured; .*'rm -rf b' and try again\$" out ||
    fail 'no remedy where cmake failed'
[ ! -e tree/b/CMakeFiles/object ] || fail 'other options: old files are left'
builds b -DX=1 || fail 'a build after a failed one'
grep -q '^cmake' calls || fail 'a failed configuration was taken for a good one'
builds b -DX=2 || fail 'a build with other options'
# If the folder was moved with its sources, it is configured again.
mv tree renamed
CALLS=$work/calls LINES_OF_NINJA=$work/silent CC=cc PATH=$work/fake:$PATH \
    renamed/scripts/build b -DX=2 >out 2>&1
grep -q '^cmake' calls || fail 'a renamed folder builds the sources it had'
mv renamed tree
builds b -DX=2 || fail 'a build in the first place'

# A log has one line at the start and at each quarter, and all warnings.
{
    echo "ninja: Entering directory \`b'"
    for i in 1 2 3 4 5 6 7 8; do
        echo "[$i/8] Building C object x.c.o"
        [ $i != 3 ] || echo 'x.c:1: warning: [1/2] is kept'
    done
} >eight
lines=eight builds b -DX=2 || fail 'a build with output'
is 'build: step 1 of 8
build: step 2 of 8
x.c:1: warning: [1/2] is kept
build: step 4 of 8
build: step 6 of 8
build: step 8 of 8
' out
printf 'FAILED: x.c.o\nx.c:2: error: no such thing\n' >failed
lines=failed FAIL=1 builds b -DX=2 && fail 'ninja failed, scripts/build did not'
is 'FAILED: x.c.o
x.c:2: error: no such thing
' out
echo 'ninja: no work to do.' >idle
lines=idle builds b -DX=2 || fail 'a build without work'
is '' out

# ---- Targets -------------------------------------------------------------------
# Configures the program alone, then all parts, in one folder: the commands for
# the program stay the same, so nothing is compiled twice.
configure()
{
    env -u CC cmake -S "$root" -B real -G Ninja -DCMAKE_BUILD_TYPE=Release \
        "$@" >out 2>&1 || fail "cmake $*"
}
# shellcheck disable=SC2086 # options, one word each
configure $off
ninja -C real -t commands program >before
[ "$(grep -c ' -c .*/tools/vpipe/main\.c' before)" = 1 ] ||
    fail 'the program is not made from its sources'
ninja -C real -t targets all | grep -E '^(test_|libvpipe|mpi|cuda)' >out &&
    fail 'the program comes with tests or plugins'
# shellcheck disable=SC2086
configure $on
ninja -C real -t commands program >after
cmp -s before after || fail 'other commands make the program beside its tests'
ninja -C real -t targets all | grep -q '^test_run:' || fail 'no tests in all'

# ---- Installing ------------------------------------------------------------------
# Installing needs neither the tests nor the packages of the tests.
make -s -n -C "$root" install | grep -qx 'scripts/build build plugins .*' ||
    fail 'make install builds more than it installs'
# The installed small configurations find their text.
if cmake --install "$build" --prefix "$work/installed" >out 2>&1; then
    installed/bin/vpipe train installed/share/vpipe/configs/bert_tiny.yml \
        --dry-run >out 2>&1 || fail 'the installed demonstration does not run'
    grep -q 'text: 1 file, ' out || fail 'the installed text is not read'
    [ ! -e installed/share/vpipe/src ] || fail 'sources are installed as data'
    # Help and messages name installed configurations.
    configs=$(cd installed/share/vpipe/configs && pwd -P) || exit 1
    installed/bin/vpipe --help >out 2>&1
    grep -qxF "start with: installed/bin/vpipe train $configs/bert_tiny.yml" \
        out || fail 'the installed program starts with another file'
    installed/bin/vpipe train >out 2>&1
    grep -qF "'vpipe train $configs/bert_tiny.yml'" out ||
        fail 'the installed program has another example'
else
    fail 'cmake --install'
fi

[ $failures = 0 ] && echo 'build: all checks passed'
