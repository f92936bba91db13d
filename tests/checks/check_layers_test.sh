#!/usr/bin/env bash
# tools/check_layers.sh must find each violation that is planted here, and nothing in a clean tree.
set -euo pipefail
check=$PWD/tools/check_layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/src/{core,backend,attention,cpu,model,data,train,eval,gadgets} "$tree"/cuda/{device,kernels} "$tree/tools"
failures=0

# plant FILE WORD CONTENT: the tree with only this file must be refused with a line that names it and has WORD.
plant() {
  printf '%s\n' "$3" >"$tree/$1"
  local output code=0
  output=$("$check" "$tree") || code=$?
  rm "$tree/$1"
  if [ "$code" -ne 1 ] || ! grep -q "^$1:[0-9]*: .*$2" <<<"$output"; then
    echo "not found: $1 with '$3' (exit code $code): $output"
    failures=$((failures + 1))
  fi
}

# allow FILE CONTENT: nothing to complain about.
allow() {
  printf '%s\n' "$2" >"$tree/$1"
  local output
  if ! output=$("$check" "$tree"); then
    echo "wrongly refused: $1: $output"
    failures=$((failures + 1))
  fi
  rm "$tree/$1"
}

plant src/core/a.h "must not include" '#include "backend/tensor.h"'
plant src/attention/a.cpp "must not include" '#include "backend/tensor.h"'
plant src/backend/a.cpp "must not include" '#include "attention/plan.h"'
plant src/model/a.cpp "must not include" '#include "cpu/cpu_backend.h"'
plant src/model/a.cpp "must not include" '#include "data/loader.h"'
plant src/train/trainer.cpp "must not include" '#include "cpu/cpu_backend.h"'
plant src/eval/a.cpp "must not include" '  #  include "train/trainer.h"'
plant src/data/a.cpp "relative to src" '#include "shard.h"'
plant src/data/a.cpp "not below src" '#include "fmt/format.h"'
plant src/gadgets/a.h "not in the table" '#include "core/error.h"'
plant cuda/kernels/a.cu "must not include" '#include "model/layer.h"'
plant cuda/kernels/a.cu "not below src" '#include "simt/emulator/cuda.h"'
plant src/train/a.cpp "cxxopts" '#include <cxxopts.hpp>'
plant src/train/a.h "heavy" '#include <nlohmann/json.hpp>'
plant src/train/a.h "heavy" '#include "core/json_fields.h"'
plant src/data/a.h "heavy" '#include <pcre2.h>'
plant src/train/a.h "heavy" '#include "tensorboard.pb.h"'
plant src/cpu/a.cpp "more than 600 lines" "$(yes '//' | head -n 601)"
plant tools/a.cpp "more than 150 lines" "$(yes '//' | head -n 151)"

allow src/train/factory.cpp '#include "cpu/cpu_backend.h"'
allow cuda/device/a.h '#include "simt/emulator/cuda.h"'
allow cuda/kernels/a.cu '#include "backend/tensor.h"'
allow src/core/json_fields.h '#include <nlohmann/json.hpp>'
allow src/model/a.cpp '#include "attention/plan.h"'
allow src/train/a.cpp '#include "tensorboard.pb.h"'
allow tools/a.cpp '#include <cxxopts.hpp>'
allow src/cpu/a.cpp "$(yes '//' | head -n 600)"

if [ "$failures" -ne 0 ]; then exit 1; fi
echo "check_layers.sh finds every planted violation"
