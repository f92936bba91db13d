#!/usr/bin/env bash
# Set-up, build, all tests.
#   tools/test.sh                     everything
#   tools/test.sh --fast              without the tests labelled slow
#   tools/test.sh [--fast] -L unit    further arguments go to ctest
set -euo pipefail
cd "$(dirname "$0")/.."

selection=()
if [ "${1:-}" = --fast ]; then
  shift
  selection=(-LE slow)
fi
cores=$(nproc)
results=$PWD/build/release/test_results.xml

tools/setup.sh
cmake --preset release
cmake --build --preset release --parallel "$cores"

rm -f "$results"
code=0
ctest --preset release --parallel "$cores" --no-tests=error --output-junit "$results" \
  "${selection[@]}" "$@" || code=$?

count() { sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" "$results" | head -n 1; }
if [ -f "$results" ]; then
  total=$(count tests) failed=$(count failures) skipped=$(count skipped)
  echo "$((total - failed - skipped)) passed, $failed failed, $skipped skipped"
fi
exit "$code"
