#!/usr/bin/env bash
# Trains the demo's model with each attention pattern on the same stories with the same budget, asks all of them about stories
# that they never saw, and prints one table (Markdown): mean and, after +-, the standard deviation over the seeds.
#   tools/compare_patterns.sh [--seeds N] [--patterns "swa sa"] [--folder DIR] [--jobs N] [-- TRAIN OPTION...]
# A run that is finished is not repeated: after an interruption the same command goes on where it was.
#   tools/compare_patterns.sh                                      12 runs of some minutes
#   tools/compare_patterns.sh --seeds 1 -- --set train.max_steps=400
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
folder=runs/compare_patterns
patterns="full swa sa sa_swa"
seeds=3
jobs=$(nproc)
options=()
fail() {
  echo "compare_patterns.sh: $1" >&2
  exit 1
}
while [ $# -gt 0 ]; do
  case $1 in
    --seeds | --patterns | --folder | --jobs)
      [ $# -ge 2 ] || fail "$1 needs a value"
      declare "${1#--}=$2"
      shift 2
      ;;
    --)
      shift
      options=("$@")
      break
      ;;
    --help) exec sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" ;;
    *) fail "$1: not an option; --help names them" ;;
  esac
done
for number in "$seeds" "$jobs"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail "--seeds and --jobs take numbers from 1 on, not $number"
done
for program in make_corpus tokenize train recall; do
  [ -x "$bin/$program" ] || fail "$bin/$program is missing: build with tools/quickstart.sh first"
done

# run PATTERN SEED: one thread, so that runs share the machine evenly.
run() {
  local run=$folder/$1-seed$2
  mkdir -p "$run"
  [ -s "$run/recall.txt" ] && return
  "$bin/train" --config configs/demo.json --resume --set "model.attention.pattern=[\"$1\"]" --set "train.seed=$2" --set "data.seed=$2" \
    --set train.threads=1 --set "checkpoint.folder=$run/train" --set "data.tokenizer=$folder/corpus/tokenizer.json" \
    --set "data.train.0.files=[\"$folder/tokens/train_*.bin\"]" \
    --set "data.validation=[\"$folder/tokens/validation_*.bin\"]" "${options[@]}" >"$run/train.log" 2>&1 ||
    fail "$1, seed $2: training failed; see $run/train.log"
  "$bin/recall" --model "$run/train" --texts "$folder/corpus/recall.jsonl" --threads 1 >"$run/recall.tmp"
  mv "$run/recall.tmp" "$run/recall.txt"
  echo "$1, seed $2: $(sed -n 's/.*\(perplexity.*\)/\1/p' "$run/recall.txt"), done after $SECONDS s" >&2
}

# One line "pattern<TAB>column<TAB>value" for each figure of each run.
figures() {
  local pattern seed run
  for pattern in $patterns; do
    for seed in $(seq "$seeds"); do
      run=$folder/$pattern-seed$seed
      awk -v p="$pattern" -v OFS='\t' '
        /perplexity/ { print p, "perplexity", $NF }
        /^mean visible keys/ { print p, "keys", $NF }
        /%$/ { sub("%", "", $NF); print p, $1, $NF }' "$run/recall.txt"
      # The median step: runs share the machine with others.
      sed -n 's/^{"kind":"train".*"tokens_per_second":\([0-9.]*\).*/\1/p' "$run/train/metrics.jsonl" | sort -n |
        awk -v p="$pattern" -v OFS='\t' '{ v[NR] = $1 } END { print p, "tokens/s", v[int((NR + 1) / 2)] }'
    done
  done
}

table() {
  awk -F '\t' '
    function cell(key,    m, s) {
      if (!n[key]) return "-"
      m = sum[key] / n[key]
      s = n[key] > 1 ? sqrt((square[key] - n[key] * m * m > 0 ? square[key] - n[key] * m * m : 0) / (n[key] - 1)) : 0
      if (key ~ /tokens/) return sprintf("%.0f", m)
      if (key ~ /keys/) return sprintf("%.1f", m)
      if (key ~ /perplexity/) return sprintf("%.3f", m) (n[key] > 1 ? sprintf(" +- %.3f", s) : "")
      return sprintf("%.1f%%", m) (n[key] > 1 ? sprintf(" +- %.1f", s) : "")
    }
    {
      key = $1 SUBSEP $2
      n[key]++; sum[key] += $3; square[key] += $3 * $3
      if (!($1 in row)) { row[$1] = ++rows; pattern[rows] = $1 }
      if (!($2 in column) && $2 ~ /^([0-9]|all)/) { column[$2] = ++columns; gap[columns] = $2 }
    }
    END {
      head = "| pattern | keys a query | perplexity |"; rule = "|---|---|---|"
      for (c = 1; c <= columns; ++c) { head = head " " (gap[c] == "all" ? "all" : "from " gap[c]) " |"; rule = rule "---|" }
      print head " tokens/s |"; print rule "---|"
      for (r = 1; r <= rows; ++r) {
        p = pattern[r]
        line = "| `" p "` | " cell(p SUBSEP "keys") " | " cell(p SUBSEP "perplexity") " |"
        for (c = 1; c <= columns; ++c) line = line " " cell(p SUBSEP gap[c]) " |"
        print line " " cell(p SUBSEP "tokens/s") " |"
      }
    }'
}

if [ ! -e "$folder/tokens/done" ]; then
  "$bin/make_corpus" --output "$folder/corpus" >&2
  "$bin/tokenize" --tokenizer "$folder/corpus/tokenizer.json" --output "$folder/tokens" "$folder/corpus/stories.jsonl" >&2
  touch "$folder/tokens/done"
fi
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
for seed in $(seq "$seeds"); do
  for pattern in $patterns; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || fail "stopped"; done
    run "$pattern" "$seed" &
  done
done
while [ "$(jobs -rp | wc -l)" -gt 0 ]; do wait -n || fail "stopped"; done

echo
echo "Recall by distance in words since the word's last mention (window $(sed -n 's/.*"window": \([0-9]*\).*/\1/p' configs/demo.json)); $seeds seed(s):"
echo
figures | table
