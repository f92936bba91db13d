#!/usr/bin/env bash
# What a GPU has to show, in one go and within eight minutes: the ops and attention against double, losses in bf16 beside
# float32 on the CPU, the speed of training and of attention. Without a GPU, the same in small on the emulated one.
#   tools/device_check.sh [--emulated] [--output FOLDER] [BUILD]     default: build/release
#   tools/device_check.sh --pack FOLDER [BUILD]     all that it needs, for a machine without our libraries
# Figures go to FOLDER/device.json (default: BUILD/device_check), those of PyTorch, where it is, to pytorch.jsonl beside it.
# Ends with 1 if anything failed.
set -euo pipefail

emulated=no output='' pack='' build=''
while [ "$#" -gt 0 ]; do
  case $1 in
    --emulated) emulated=yes ;;
    --output) output=$2; shift ;;
    --pack) pack=$2; shift ;;
    -*) echo "device_check.sh: unknown option $1" >&2; exit 2 ;;
    *) build=$1 ;;
  esac
  shift
done
here=$(cd "$(dirname "$0")" && pwd)
# A packed folder is a build of its own.
[ -n "$build" ] || { [ -d "$here/bin" ] && build=$here || build=$here/../build/release; }
output=${output:-$build/device_check}

if [ -n "$pack" ]; then
  mkdir -p "$pack/bin" "$pack/tests" "$pack/lib"
  cp "$build/bin/bench_device" "$pack/bin"
  cp "$build/tests/cuda_device_test" "$pack/tests"
  cp "$0" "$here/../bench/peers/pytorch_device.py" "$pack"
  git -C "$here" rev-parse --short HEAD >"$pack/commit"
  strip "$pack/bin/bench_device" "$pack/tests/cuda_device_test"
  ldd "$pack/bin/bench_device" "$pack/tests/cuda_device_test" |
    awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libpthread|libdl|librt|libcublas.*)\.so/ { print $3 }' | sort -u |
    xargs -r cp -t "$pack/lib"
  du -sh "$pack"
  exit
fi

commit=$(git -C "$here" rev-parse --short HEAD 2>/dev/null || cat "$here/commit" 2>/dev/null || echo unknown)
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/cuda/lib64
mkdir -p "$output"
failed=()
step() {  # step NAME SECONDS COMMAND...
  local name=$1 limit=$2 code=0
  shift 2
  echo "== $name"
  timeout "$limit" "$@" || code=$?
  if [ "$code" -ne 0 ]; then
    echo "== $name: FAILED with code $code"
    failed+=("$name")
  fi
}

if [ "$emulated" = no ] && ! "$build/bin/bench_device" --probe; then
  echo "no GPU: a reduced run on the emulated one"
  emulated=yes
fi
if [ "$emulated" = yes ] && [ ! -x "$build/bin/bench_device_emulated" ]; then
  echo "device_check.sh: no $build/bin/bench_device_emulated: build it, or come back with a GPU" >&2
  exit 1
fi
if [ "$emulated" = yes ]; then
  step training 200 "$build/bin/bench_device_emulated" --model tiny --compared-model tiny --sequence 130 --batch 2 \
    --steps 3 --window 64 --lengths 260 --heads 2 --budget 0 \
    --commit "$commit" --json "$output/device.json"
else
  step ops 90 "$build/tests/cuda_device_test"
  if command -v compute-sanitizer >/dev/null; then
    step memory 60 compute-sanitizer --error-exitcode 1 "$build/tests/cuda_device_test" "[attention]"
  fi
  step training 220 "$build/bin/bench_device" --commit "$commit" --json "$output/device.json"
  peer=$here/../bench/peers/pytorch_device.py
  [ -f "$peer" ] || peer=$here/pytorch_device.py
  if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    step pytorch 110 python3 "$peer" --output "$output/pytorch.jsonl"
  else
    echo "no PyTorch that sees the GPU: its times are left out"
  fi
fi

if [ "${#failed[@]}" -gt 0 ]; then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "passed; figures in $output/device.json"
