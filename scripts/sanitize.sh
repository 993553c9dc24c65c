#!/usr/bin/env bash
# Native code under sanitizers: tests of kernels and of damage under ASan and UBSan, a harness of eight threads under TSan,
# and Python's threads switched all the time.
#   scripts/sanitize.sh              all of it
#   scripts/sanitize.sh PYTEST_ARGS  only these tests, under ASan and UBSan
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python

tests=("$@")
if [ $# = 0 ]; then
    tests=(tests/native tests/loader/dataset/test_corruption.py)
    "$python" tests/sanitize/threads.py 10
    "$python" tests/sanitize/build.py "$python" tests/sanitize/switching.py 20
fi
"$python" tests/sanitize/build.py "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"
