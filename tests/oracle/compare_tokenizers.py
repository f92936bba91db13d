"""Compares token ids of `tokenize` with those of the `tokenizers` library on texts of 1 MB.

    python tests/oracle/compare_tokenizers.py DATA FOLDER [--tokenize PROGRAM] [NAME=TOKENIZER.JSON ...]     (from the repository's root)

DATA: tokenizers/gpt2, tokenizers/qwen3/tokenizer.json and text/novels. Beside these two, `llama3` has Llama 3's rules (digits in
threes, no normalizer, ignore_merges) over Qwen3's vocabulary. SmolLM2: smollm2=FOLDER/model/tokenizer.json of compare_smollm2.py.
Texts, made in FOLDER: English (novels), code (Python's standard library), Chinese and all languages (Qwen3's tokens, the lower ids
more often), emoji with words, random Unicode, runs of whitespace and digits. Prints tokens and the first difference; exit status 1
if there is one.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import sysconfig
import unicodedata

from tokenizer_golden import LLAMA3, real_gpt2
from tokenizers import Tokenizer

BYTES = 1_000_000


def cut(text):
    return text.encode("utf-8", errors="ignore")[:BYTES].decode(errors="ignore")


def files(paths):
    return cut("".join(p.read_text(errors="ignore") for p in sorted(paths)))


def is_chinese(text):
    return all("\u4e00" <= c <= "\u9fff" or c in "\uff0c\u3002\uff1f\uff01\u3001\uff1a" for c in text)


def from_vocabulary(tokenizer, rng, wanted):
    words = [w for w in (tokenizer.decode([i]) for i in range(tokenizer.get_vocab_size(with_added_tokens=False))) if w and wanted(w)]
    return cut("".join(words[int(len(words) * rng.random() ** 3)] for _ in range(BYTES // 2)))


def emoji(rng):
    signs = [chr(c) for c in (*range(0x1F300, 0x1F6FF), *range(0x1F900, 0x1FAFF), *range(0x2600, 0x27BF))]
    joins = ["", "", "", " ", "\ufe0f", "\u200d", "\U0001f3fd", "\u20e3", "\n", "!", " ok", " Great job ", "\U0001f1e9\U0001f1ea"]
    return cut("".join(rng.choice(signs) + rng.choice(joins) for _ in range(BYTES // 4)))


def unicode(rng):
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    return cut("".join(rng.choice(assigned) for _ in range(BYTES // 2)))


def spaces(rng):
    pieces = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "x", "Don't", "'S", "12345678", "3.14", "\u0665", "\u00bd", "_", "--"]
    return cut("".join(rng.choice(pieces) for _ in range(BYTES)))


def texts(data, qwen3):
    rng = random.Random(2026)
    return {"english": files((data / "text/novels").glob("*.txt")),
            "code": files(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("*.py")),
            "chinese": from_vocabulary(qwen3, rng, is_chinese),
            "languages": from_vocabulary(qwen3, rng, lambda w: "\ufffd" not in w),
            "emoji": emoji(rng), "unicode": unicode(rng), "spaces": spaces(rng)}  # fmt: skip


def with_rules_of_llama3(qwen3):
    document = json.loads(qwen3.to_str())
    document["normalizer"] = None
    document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = LLAMA3
    document["model"]["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(document))


def ids_of_shard(path):
    """Without the token that begins the document (docs/formats.md)."""
    content = path.read_bytes()
    tokens, documents, width, end = struct.unpack_from("<16xQQ16xIi", content)
    ids = struct.unpack_from(f"<{tokens}{'H' if width == 2 else 'I'}", content, 128)
    assert documents == 1
    return list(ids[1:] if end >= 0 else ids)


def compare(name, tokenizer, path, text_name, text, options):
    folder = options.folder / "tokens"
    subprocess.run([options.tokenize, "--tokenizer", path, "--validation-fraction", "0", "--overwrite", "--output", folder,
                    options.folder / f"{text_name}.txt"], check=True, capture_output=True)  # fmt: skip
    ours = ids_of_shard(next(folder.glob("train_*.bin")))
    theirs = tokenizer.encode(text, add_special_tokens=False).ids
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    equal = ours == theirs
    where = "equal" if equal else f"differ at {at}: {ours[at:at + 4]} for {theirs[at:at + 4]}, {tokenizer.decode(theirs[at - 4:at + 4])!r}"
    print(f"| {name} | {text_name} | {len(text.encode())} | {len(theirs)} | {where} |", flush=True)
    return equal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("more", nargs="*")
    parser.add_argument("--tokenize", default="build/release/bin/tokenize")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    qwen3_path = options.data / "tokenizers/qwen3/tokenizer.json"
    qwen3 = Tokenizer.from_file(str(qwen3_path))
    llama3 = with_rules_of_llama3(qwen3)
    llama3.save(str(options.folder / "llama3.json"))
    tokenizers = {"gpt2": (real_gpt2(options.data)[0], options.data / "tokenizers/gpt2"), "qwen3": (qwen3, qwen3_path),
                  "llama3": (llama3, options.folder / "llama3.json")}  # fmt: skip
    for name, path in (m.split("=", 1) for m in options.more):
        tokenizers[name] = (Tokenizer.from_file(path), path)
    all_texts = texts(options.data, qwen3)
    for name, text in all_texts.items():
        (options.folder / f"{name}.txt").write_bytes(text.encode())
    print("| tokenizer | text | bytes | tokens | ids |")
    equal = [compare(name, tokenizer, path, text_name, text, options)
             for name, (tokenizer, path) in tokenizers.items() for text_name, text in all_texts.items()]  # fmt: skip
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
