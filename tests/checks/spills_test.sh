#!/usr/bin/env bash
# The flags that kernels are compiled with must refuse one that spills registers or uses local memory, and take a good one.
#   tests/checks/spills_test.sh NVCC FLAG...
set -euo pipefail
nvcc=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
compile() { "$nvcc" "$@" -c "$folder/kernel.cu" -o "$folder/kernel.o" >"$folder/output" 2>&1; }

cat >"$folder/kernel.cu" <<'KERNEL'
__global__ void good(float* x) { x[threadIdx.x] *= 2; }
KERNEL
compile "$@" || { echo "a good kernel was refused:"; cat "$folder/output"; exit 1; }

cat >"$folder/kernel.cu" <<'KERNEL'
__global__ void __launch_bounds__(1024) spills(float* x) {
  float values[120];
#pragma unroll
  for (int i = 0; i < 120; ++i) values[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 120; ++i) x[i * 1024 + threadIdx.x] = values[119 - i];
}
KERNEL
if compile "$@"; then echo "a kernel that spills was taken"; exit 1; fi
grep -q "spilled" "$folder/output" || { echo "refused for another reason:"; cat "$folder/output"; exit 1; }

cat >"$folder/kernel.cu" <<'KERNEL'
__global__ void indexes(float* x, const int* at) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = x[i];
  for (int i = 0; i < 16; ++i) x[i] = values[at[i] & 15];
}
KERNEL
if compile "$@"; then echo "a kernel with an array in local memory was taken"; exit 1; fi
echo "spills and local memory are refused"
