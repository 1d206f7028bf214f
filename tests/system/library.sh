#!/bin/bash
# The installed libvpipe: its exported symbols, and programs that are built against it
# with pkg-config and with CMake, from a folder without access to the sources.
#   tests/system/library.sh BUILD-FOLDER
set -u

build=$(cd "${1:?usage: tests/system/library.sh BUILD-FOLDER}" && pwd) || exit 1
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C
cc=${CC:-cc}
failures=0

fail()
{
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    tail -n 20 out 2>/dev/null
}

# ---- Installing ----------------------------------------------------------------
# Components are those of the packages; the prefix is not the configured one.
for component in libvpipe libvpipe-dev; do
    cmake --install "$build" --component $component --prefix "$work/first" \
        >>installed 2>&1 || fail "cmake --install of $component"
    (cd first && find . ! -type d | sort) >files.$component
done
lib=$(dirname "$(find first -name 'libvpipe.so.*.*.*' | head -n 1)")
[ "$(basename "$(find first -name '*.so.*' -type l)")" = libvpipe.so.0.1 ] ||
    fail 'no link libvpipe.so.0.1'
grep -qE '\.(h|a|pc|cmake)$|/libvpipe\.so$' files.libvpipe &&
    fail 'component libvpipe has files for developers'
for file in include/vpipe/vpipe.h "${lib#first/}"/libvpipe.{a,so} \
    "${lib#first/}"/pkgconfig/vpipe.pc \
    "${lib#first/}"/cmake/vpipe/vpipe{Config,ConfigVersion,Targets}.cmake; do
    grep -qxF "./$file" files.libvpipe-dev || fail "component libvpipe-dev: no $file"
done
# The whole tree is moved: no file may hold its old path.
mv first stage
lib=stage/${lib#first/}
grep -rlF "$work/first" stage && fail 'installed files hold the prefix'
grep -rlF "$root" stage --include='*.pc' --include='*.cmake' &&
    fail 'installed files name the sources'

# ---- Exported symbols ----------------------------------------------------------
header=stage/include/vpipe/vpipe.h
so=$lib/libvpipe.so.0.1
declared=$(grep -oE '\bvpipe_[a-z_]+\(' $header | tr -d '(' | sort -u)
shown=$(nm -D --defined-only "$so" | sed -nE 's/.* T (.*)/\1/p' | sort)
[ "$shown" = "$(sed 's/$/@@VPIPE_0.1/' <<<"$declared")" ] || {
    diff <(echo "$shown") <(echo "$declared") >out
    fail 'the library shows other functions than the header declares'
}
nm -g --defined-only $lib/libvpipe.a | sed -nE 's/.* [A-Z] (.*)/\1/p' |
    grep -vE '^vpipe_|^__odr_asan' && fail 'libvpipe.a shows internal names'
readelf -d "$so" >dynamic
grep -q 'SONAME.*\[libvpipe.so.0.1\]' dynamic || fail 'another SONAME'
grep -qE 'RPATH|RUNPATH' dynamic && fail 'the library has a RUNPATH'
[ "$(wc -w <<<"$declared")" -ge 40 ] || fail 'the header declares too little'
# Each function has a comment directly above it, and a test calls it.
awk '/^VPIPE_API/ && !after { print $0; bad = 1 }
    { after = /\*\/$/ }
    END { exit bad }' $header >out || fail 'functions without documentation'
for name in $declared; do
    grep -qE "\b$name\(" "$root"/tests/api/test_*.c "$root"/tests/lib/apilib.c ||
        fail "no test calls $name()"
done
# The library imports no function that prints to stdout, exits or starts another
# process; _exit() is
# allowed.
nm -D --undefined-only "$so" | grep -wE '(printf|puts|putchar|exit|_exit|system|popen|fork|vfork|execv|execvp|execve|posix_spawn|posix_spawnp)@.*' |
    grep -v '_exit@' >out && fail 'the library can print, exit or start processes'

# ---- With pkg-config -------------------------------------------------------------
export PKG_CONFIG_PATH=$work/$lib/pkgconfig
export LD_LIBRARY_PATH=$work/$lib
cp "$root"/tests/api/test_*.c "$root"/examples/embed.c .
flags=$(pkg-config --cflags --libs vpipe) || fail 'pkg-config'
[ "$(pkg-config --modversion vpipe)" = 0.1.0 ] || fail 'version of vpipe.pc'
# shellcheck disable=SC2086 # flags are words
$cc -std=c11 -Wall -Wextra -Wpedantic -Werror embed.c $flags -o embed \
    >out 2>&1 || fail 'embed.c by pkg-config'
for test in test_api test_api_errors; do
    # shellcheck disable=SC2086
    $cc -std=c11 -D_GNU_SOURCE -I"$root/tests" $test.c \
        "$root/tests/lib/apilib.c" $flags -lcmocka -lgomp -lpthread -lm -o $test \
        >out 2>&1 || fail "$test.c by pkg-config"
    ./$test >out 2>&1 || fail "$test with the installed library"
done
start=$SECONDS
./embed >out 2>&1 || fail 'embed'
[ $((SECONDS - start)) -lt 60 ] || fail 'embed takes a minute'
awk '/^step/ { if (n++ && $4 >= last) exit 1; last = $4 }
    /^evaluation/ { held = $3 } END { exit !(n == 5 && held < 0.5) }' out ||
    fail 'the loss of embed does not fall'
# The static library, with its private libraries.
# shellcheck disable=SC2046
(unset LD_LIBRARY_PATH && mkdir static && cp $lib/libvpipe.a static/ &&
    $cc embed.c $(pkg-config --cflags vpipe) -Lstatic \
        $(pkg-config --libs --static vpipe | sed "s|-L[^ ]*/stage[^ ]*||") \
        -o embed_static && ./embed_static) >out 2>&1 || fail 'embed by libvpipe.a'
readelf -d embed_static | grep -q libvpipe && fail 'embed_static needs the .so'

# ---- With CMake ------------------------------------------------------------------
mkdir project
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(outside LANGUAGES C)
find_package(vpipe 0.1 REQUIRED)
add_executable(embed ../embed.c)
target_link_libraries(embed PRIVATE vpipe::vpipe)
add_executable(embed_static ../embed.c)
target_link_libraries(embed_static PRIVATE vpipe::static)
END
(unset LD_LIBRARY_PATH && cmake -S project -B made -G Ninja \
    -DCMAKE_PREFIX_PATH="$work/stage" && ninja -C made && made/embed &&
    made/embed_static) >out 2>&1 || fail 'embed.c by CMake'
sed -i 's/vpipe 0.1/vpipe 0.2/' project/CMakeLists.txt
cmake -S project -B other -DCMAKE_PREFIX_PATH="$work/stage" >out 2>&1 &&
    fail 'version 0.1 is taken for 0.2'

# ---- Plugins ---------------------------------------------------------------------
# Plugins are searched for beside the library, not beside the program.
mkdir "$lib/vpipe" driver
echo 'no library' >"$lib/vpipe/libvpipe_cuda.so"
# Empty libraries that are opened before the plugin.
for name in $(grep -oE '"lib[a-zA-Z]+\.so[^"]*"' "$root/src/backend/plugin.c"); do
    echo | $cc -shared -xc - -o "driver/${name//\"/}" || fail "making $name"
done
export VPIPE_LIBRARIES=$work/driver
sed 's/"stages", "2"/"device", "cuda"/' embed.c >cuda.c
# shellcheck disable=SC2086
$cc cuda.c $flags -o cuda >out 2>&1
./cuda >out 2>&1 && fail 'a damaged plugin is used'
grep -q "libvpipe_cuda.so" out && grep -q 'too short\|invalid ELF' out ||
    fail 'the plugin beside the library is not looked at'

[ $failures = 0 ] || exit 1
echo 'library: ok'
