#!/usr/bin/env bash
# Set-up, build, demo: a small gated SA+SWA model learns to recall what a story told it. Minutes on two cores; everything
# goes to runs/demo, and running it again starts afresh.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
run=runs/demo
model=$run/train
config=configs/demo.json

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }
fail() {
  echo "quickstart.sh: $1" >&2
  exit 1
}

step "Set-up: packages of the distribution"
tools/setup.sh

step "Build: $bin"
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target make_corpus tokenize train recall generate
SECONDS=0

step "Corpus: stories in which a name, a place and a possession must be recalled"
rm -rf "$run"
$bin/make_corpus --output $run/corpus

step "Tokens: one a word, documents split into training and validation"
$bin/tokenize --tokenizer $run/corpus/tokenizer.json --output $run/tokens $run/corpus/stories.jsonl

# trained_steps: the last step of metrics.jsonl.
trained_steps() { sed -n 's/.*"step": *\([0-9]*\).*/\1/p' $model/metrics.jsonl 2>/dev/null | tail -n 1; }

# interrupt SIGNAL STEP: trains, in the background, until STEP is in the metrics, then sends SIGNAL.
interrupt() {
  $bin/train --config $config --resume &
  local trainer=$!
  while [ "$(trained_steps)" -lt "$2" ] 2>/dev/null || [ -z "$(trained_steps)" ]; do
    kill -0 "$trainer" 2>/dev/null || fail "the training ended before it was interrupted"
    sleep 0.2
  done
  kill -s "$1" "$trainer"
  local code=0
  wait "$trainer" || code=$?
  echo "(exit code $code)"
}

step "Training, and a polite interruption (SIGTERM) at about step 350"
interrupt TERM 350

step "Resumed, and killed without warning (SIGKILL) at about step 700"
interrupt KILL 700 2>/dev/null

step "Resumed to the end"
$bin/train --config $config --resume
[ "$(trained_steps)" -ge 1200 ] || fail "the training did not reach its last step"

step "Recall on held-out stories, by distance in words; a guess is right in 6% of the cases"
$bin/recall --model $model --texts $run/corpus/recall.jsonl | tee $run/recall.txt

step "A story of the model's own"
$bin/generate --model $model --prompt "Once there was a" --tokens 150 --temperature 0.7 --seed 1

step "Done"
cat <<'END'
What next:
  less runs/demo/train/metrics.jsonl                        what was logged (TensorBoard: --logdir runs/demo/train)
  build/release/bin/train --config configs/demo.json --dry-run
  README.md, "Train on your own text"
END
