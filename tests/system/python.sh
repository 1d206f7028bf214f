#!/bin/bash
# Tests the Python package with the library of this build.
#   tests/system/python.sh BUILD-FOLDER
# Exits with 77 if python3 has no numpy. PYTHON names another interpreter.
set -u

build=$(cd "${1:?usage: tests/system/python.sh BUILD-FOLDER}" && pwd) || exit 1
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1

for python in ${PYTHON:-python3 /usr/bin/python3}; do
    "$python" -c 'import numpy' 2>/dev/null && break
    python=
done
if [ -z "$python" ]; then
    echo 'SKIPPED: python: no python3 has numpy; install python3-numpy'
    exit 77
fi

export PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1
export VPIPE_PROGRAM=$build/vpipe VPIPE_LIBRARY=$build/libvpipe.so.0.1
"$python" -W error -m unittest discover -s "$root/python/tests" || exit 1
cd / || exit 1
"$python" -W error "$root/python/examples/walkthrough.py" || {
    echo 'FAILED: the example'
    exit 1
}
