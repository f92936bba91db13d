#!/usr/bin/env bash
# The registers, spills and static shared memory of every CUDA kernel, as ptxas sees them:
#   tools/kernel_registers.sh [ARCHITECTURE...]     default: sm_80 sm_90a
# FLYWHEEL_NVCC names the compiler. Ends with 1 if a kernel spills or needs local memory. Takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=${FLYWHEEL_NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
[ "$#" -gt 0 ] || set -- sm_80 sm_90a
flags=(-std=c++20 -O3 --expt-relaxed-constexpr -I. -Isrc -Xptxas=-v)
report=$(mktemp)
trap 'rm -f "$report"' EXIT

for architecture in "$@"; do
  for file in cuda/kernels/*.cu; do
    "$nvcc" "${flags[@]}" -arch="$architecture" -c "$file" -o /dev/null 2>&1 | c++filt >>"$report"
  done
done

awk '
  /Compiling entry function/ {
    name = $0; sub(/.*Compiling entry function \047(void )?/, "", name); sub(/\047 for .*/, "", name)
    gsub(/flywheel::cuda::(\(anonymous namespace\)::)?/, "", name); if (!sub(/>\(.*/, ">", name)) sub(/\(.*/, "", name)
    gsub(/__nv_bfloat16/, "bf16", name)
    architecture = $0; sub(/.* for \047/, "", architecture); sub(/\047.*/, "", architecture)
  }
  /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
  /Used [0-9]+ registers/ {
    registers = $0; sub(/.*Used /, "", registers); sub(/ registers.*/, "", registers)
    shared = 0
    if (match($0, /[0-9]+ bytes smem/)) shared = substr($0, RSTART, RLENGTH) + 0
    spills = stack + spilled > 0
    printf "%-7s %-56s %4d registers %6d bytes of shared memory%s\n",
           architecture, name, registers, shared, (spills ? "  SPILLS" : "")
    if (spills) bad = 1
  }
  END { exit bad }' "$report"
