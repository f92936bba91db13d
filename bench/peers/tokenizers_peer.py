"""Speed of Hugging Face tokenizers against ours on one thread, interleaved in one run.

    RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false python bench/peers/tokenizers_peer.py BENCH_TOKENIZER TOKENIZER FILE...

Theirs is measured in CPU time, so that a busy machine does not count against it. Each round runs ours and then every form of theirs that takes whole texts; the best round of each counts.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402

ROUNDS = 3


def load(path):
    path = pathlib.Path(path)
    if (path / "tokenizer.json").exists():
        return Tokenizer.from_file(str(path / "tokenizer.json"))
    vocab = json.loads((path / "encoder.json").read_text())
    lines = (path / "vocab.bpe").read_text().split("\n")[1:]
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(line.split()) for line in lines if line]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def ours(program, tokenizer, files):
    with tempfile.NamedTemporaryFile() as result:
        subprocess.run([program, "--rounds", "3", "--json", result.name, tokenizer, *files], check=True, stdout=subprocess.DEVNULL)
        return json.loads(pathlib.Path(result.name).read_text())


def main():
    program, path, *files = sys.argv[1:]
    texts = [pathlib.Path(f).read_bytes().decode(errors="replace") for f in files]
    size = sum(pathlib.Path(f).stat().st_size for f in files)
    tokenizer = load(path)
    forms = {
        "encode": lambda t: [tokenizer.encode(x, add_special_tokens=False) for x in t],
        "encode_batch": lambda t: tokenizer.encode_batch(t, add_special_tokens=False),
        "encode_batch_fast": lambda t: tokenizer.encode_batch_fast(t, add_special_tokens=False),
        "encode_batch_fast of lines": lambda t: tokenizer.encode_batch_fast([y for x in t for y in x.splitlines(True)], add_special_tokens=False),
    }
    best_ours, seconds = None, {}
    for _ in range(ROUNDS):
        result = ours(program, path, files)
        if best_ours is None or result["seconds"] < best_ours["seconds"]:
            best_ours = result
        for name, form in forms.items():
            start = time.process_time()
            encodings = form(texts)
            seconds[name] = min(seconds.get(name, 1e30), time.process_time() - start)
            if "lines" not in name:
                assert sum(len(e.ids) for e in encodings) == best_ours["tokens"], "token counts differ"
            del encodings
    print(f"{path}: {len(files)} files, {size} bytes, {best_ours['tokens']} tokens")
    print(f"  ours {size / best_ours['seconds'] / 1e6:.1f} MB/s, {best_ours['tokens_per_s'] / 1e6:.2f} M tokens/s")
    for name, s in seconds.items():
        print(f"  tokenizers {name}: {size / s / 1e6:.2f} MB/s; ours is {s / best_ours['seconds']:.1f} times as fast")


main()
