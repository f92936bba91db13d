"""Compares `tokenize train` with the trainer of the reference library `tokenizers`.

    python tests/oracle/bpe_trainer_golden.py              makes tests/golden/tokenizers/trained.merges (from the repository's root)
    python tests/oracle/bpe_trainer_golden.py FILE.json TEXT_FILE...
        trains on the text files, each a document, and compares merges and vocabulary with FILE.json, which `tokenize train`
        made from the same files; then encodes them with both.

Text between special tokens is trained on, as `tokenize train` does; the reference library would count the special tokens' text.
"""

import json
import pathlib
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

GOLDEN = pathlib.Path("tests/golden/tokenizers")
END = "<|endoftext|>"


def train(texts, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=[END], show_progress=False)
    tokenizer.train_from_iterator([part for text in texts for part in text.split(END)], trainer)
    return tokenizer


def model_of(tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return merges, model["vocab"]


def make_golden():
    lines = (GOLDEN / "texts.hex").read_text().splitlines()
    text = b"\n".join(bytes.fromhex(line) for line in lines).decode(errors="replace")
    merges, _ = model_of(train([text], 1000))
    (GOLDEN / "trained.merges").write_text("".join(m + "\n" for m in merges))


def compare(path, files):
    texts = [pathlib.Path(f).read_bytes().decode(errors="replace") for f in files]
    ours = Tokenizer.from_file(path)
    our_merges, our_vocab = model_of(ours)
    theirs = train(texts, len(our_vocab))
    merges, vocab = model_of(theirs)
    print(f"merges: {len(our_merges)} ours, {len(merges)} theirs, equal: {our_merges == merges}; vocabularies equal: {our_vocab == vocab}")
    for i, (a, b) in enumerate(zip(our_merges, merges)):
        if a != b:
            print(f"first difference: merge {i}: ours {a!r}, theirs {b!r}")
            break
    print("ids equal:", all(ours.encode(t).ids == theirs.encode(t).ids for t in texts))


if len(sys.argv) == 1:
    make_golden()
else:
    compare(sys.argv[1], sys.argv[2:])
