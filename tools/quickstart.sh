#!/usr/bin/env bash
# Set-up, build, demo (tools/demo.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== Set-up: packages of the distribution"
tools/setup.sh

echo "== Build: build/release/bin"
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" \
  --target make_corpus tokenize train recall generate evaluate report

exec tools/demo.sh
