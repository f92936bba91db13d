#!/usr/bin/env bash
# The demo: a small gated SA+SWA model learns to recall what a story told it, is interrupted and resumed on purpose, and is
# asked about stories that it never saw. Some minutes on two cores; running it again starts afresh.
#   tools/demo.sh [FOLDER]    everything goes to FOLDER (runs/demo); exit code 0 only if the model did learn
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
run=${1:-runs/demo}
config=configs/demo.json
model=$run/train
train=("$bin/train" --config "$config" --resume)
if [ "$run" != runs/demo ]; then # configs/demo.json names runs/demo
  train+=(--set "checkpoint.folder=$model" --set "data.tokenizer=$run/corpus/tokenizer.json"
    --set "data.train.0.files=[\"$run/tokens/train_*.bin\"]"
    --set "data.validation=[\"$run/tokens/validation_*.bin\"]")
fi

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
fail() {
  echo "demo.sh: $1" >&2
  exit 1
}

# The last step in the metrics; 0 before the first.
steps_taken() {
  sed -n 's/^{"kind":"train","step":\([0-9]*\),.*/\1/p' "$model/metrics.jsonl" 2>/dev/null |
    tail -n 1 | grep . || echo 0
}

# interrupt SIGNAL STEP: trains until STEP is in the metrics, then sends SIGNAL.
interrupt() {
  "${train[@]}" &
  local trainer=$!
  trap 'kill "$trainer" 2>/dev/null' EXIT
  while [ "$(steps_taken)" -lt "$2" ]; do
    kill -0 "$trainer" 2>/dev/null || fail "the training ended before it was interrupted"
    sleep 0.2
  done
  kill -s "$1" "$trainer"
  local code=0
  wait "$trainer" 2>/dev/null || code=$?
  trap - EXIT
  echo "(exit code $code)"
}

# accuracy RANGE: the percentage that recall printed for it.
accuracy() { sed -n "s/^ *$1 .* \([0-9]*\)\.[0-9]*%\$/\1/p" "$run/recall.txt"; }

step "Corpus: stories that tell a name, a place and a possession, and come back to them"
rm -rf "$run"
"$bin/make_corpus" --output "$run/corpus"
head -n 1 "$run/corpus/stories.jsonl" | cut -c 1-400

step "Tokens: one a word; documents split into training and validation"
"$bin/tokenize" --tokenizer "$run/corpus/tokenizer.json" --output "$run/tokens" "$run/corpus/stories.jsonl"

step "Training, until we interrupt it politely (SIGTERM): it saves and says how to go on"
interrupt TERM 350

step "Resumed, until we kill it without warning (SIGKILL)"
interrupt KILL 750

step "Resumed from the last checkpoint, to the end"
"${train[@]}"

step "Recall on stories that it never saw, by distance in words (window: 32; a guess is right in 6%)"
"$bin/recall" --model "$model" --texts "$run/corpus/recall.jsonl" | tee "$run/recall.txt"

step "A story of the model's own"
"$bin/generate" --model "$model" --prompt "Once there was a" --tokens 160 --temperature 0.7 --seed 1

step "Scores in lm-evaluation-harness's layout, and all of it on one page"
"$bin/evaluate" --model "$model" --tasks recall --text "$run/corpus/recall.jsonl" --output_path "$model/results"
page=$("$bin/report" "$model")

near=$(accuracy "17 to 24")
far=$(accuracy "65 to 96")
if [ "${near:-0}" -lt 40 ] || [ "${far:-0}" -lt 20 ]; then
  fail "recall is below what this demo reaches: ${near:-0}% near (40 expected), ${far:-0}% far (20 expected)"
fi
step "Done"
cat <<END
Next:
  $page     curves, scores, samples, memory: open it in a browser
  $bin/train --config $config --dry-run     the config, the parameters, memory and cost
  less $model/metrics.jsonl            what was logged (TensorBoard: tensorboard --logdir $model)
  README.md, "Train on your own text"
END
