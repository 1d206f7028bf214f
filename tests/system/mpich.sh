#!/bin/bash
# The transport plugin works when built with MPICH and started by MPICH's mpirun. Runs
# only with VP_FULL=1, because it needs another build.
#   tests/system/mpich.sh BUILD
set -eu

build=$(cd "${1:?usage: tests/system/mpich.sh BUILD}" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
. "$source/tests/system/cluster_lib.sh"
[ -n "${VP_FULL:-}" ] ||
    skip "takes a build of its own; make test-full does it"
need mpicc.mpich mpirun.mpich
cmake -S "$source" -B "$build/mpich" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DVP_MPICC="$(command -v mpicc.mpich)" -DVP_CUDA=OFF -DVP_TESTS=OFF \
    >/dev/null
ninja -C "$build/mpich" --quiet vpipe_mpi
export VPIPE_PLUGINS=$build/mpich
for n in 2 3 4; do
    timeout 120 mpirun.mpich -n $n "$build/test_comm_processes" mpi
done
VP_FULL='' "$source/tests/system/mpi.sh" "$build/vpipe" mpirun.mpich
