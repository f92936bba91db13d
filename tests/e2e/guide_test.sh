#!/usr/bin/env bash
# Runs every command of docs/guide.md, in a folder of its own, on stories of the demo.
#   guide_test.sh BIN    the folder with the programs
set -euo pipefail
guide=$PWD/docs/guide.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/build/release" "$folder/mine/texts"
ln -s "$(realpath "$1")" "$folder/build/release/bin"
cd "$folder"

build/release/bin/make_corpus --output corpus
head -n 2000 corpus/stories.jsonl >mine/texts/stories.jsonl
tail -n 20 corpus/stories.jsonl | sed 's/^{"text": *"//; s/"}$//' >mine/held_out.txt

sed -n '/^```sh$/,/^```$/{/^```/!p}' "$guide" >commands.sh
[ "$(grep -c '^[a-z]' commands.sh)" -ge 10 ] || {
  echo "the guide has lost its commands" >&2
  exit 1
}
bash -euxo pipefail commands.sh

# What the guide promises.
grep -q '"step":200,' mine/run/metrics.jsonl
ls mine/run/results/*/results_*.json
grep -q "token_perplexity" mine/run/report.html
