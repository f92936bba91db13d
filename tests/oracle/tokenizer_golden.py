"""Makes tests/golden/tokenizers with the reference libraries `tokenizers` and `tiktoken`.

    python tests/oracle/tokenizer_golden.py FOLDER_OF_REAL_DATA     (from the repository's root)

texts.hex: difficult texts, a line each, bytes in hexadecimal (some of them ill-formed UTF-8).
NAME/tokenizer.json: small tokenizers of every style, trained here; NAME.ids: a line of ids for each text.
gpt2.ids, qwen3.ids: the same for the real vocabularies. splits.json: pieces of pre-tokenizers.
"""

import json
import pathlib
import random
import sys
import unicodedata

import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path("tests/golden/tokenizers")
QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

FIXED_TEXTS = [
    "Hello world", " Hello world", "I'm I'M can'T DON'T we'LL they'Ve 'tis 'S's's ''s 'll'l 're'r", "it\u2019s", "'\u017f a'\u017fb \u017f",
    "in 2024, 3.14 1,000,000 12345678 0x1F", "a  b   c    d", "x\n\n  y\n   \n\nz", "trailing  ", "trailing\t", "trailing\n ", "  leading",
    "\tint x = 10;\r\n\r\nreturn;\r\r\n\n", "cafe\u0301 caf\u00e9 e\u0301\u0323 e\u0323\u0301 \u0301alone", "\u212b \u2126 \u1e9b\u0323 \u0958 \u0344",
    "\uac00 \u1100\u1161 \u1100\u1161\u11a8 \uac00\u11a8 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\u1100\u116e\u11a8", "<|endoftext|>hi<|im_end|>",
    "\u65e5\u672c\u8a9e\u30c6\u30b9\u30c8 1\uff12\u00b3", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u8fd9\u662f\u4e00\u4e2a\u6d4b\u8bd5\u3002\u300c\u5f15\u53f7\u300d",
    "\U0001f600\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1e9\U0001f1ea #\ufe0f\u20e3",
    "foo(bar)!!!\nbaz", "a\u00a0b\u3000c\u2003d\u2028e\u2029f\u0085g\u180eh\u200bi\ufeffj\u1680k\u202fl\u205fm", "\u00a0\u00a0x \u3000 y\u00a0 z \u00a0",
    "don\u2019t", "caf\u00e9<|im_start|>e\u0301", "a\r\n b", "a \n", "\n \n", " \r \r", "<think>\n\n</think>\n\nok", "\x00\x01\x02\x03\x04\x06\x13\x14\x16\x1d\x1b\x7f\x80\x9f",
    "\u0661\u0662\u0663 \u06f1\u06f2 \u0967\u0968 \u216f\u2173 \u00bd\u00bc \u2460\u2461 \U0001d7d8\U0001d7d9 \u3007 \u4e00\u4e8c", "\u0939\u093f\u0928\u094d\u0926\u0940 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "\u0410\u0411\u0412 \u0442\u0435\u0441\u0442 \u0391\u03b2\u03b3 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627", "a\u0300\u0301\u0302\u0303b", "\u00df\u1e9e\u0130\u0131\ufb01\ufb03",
    "snake_case camelCase PascalCase kebab-case __init__ a.b.c", "if (a&&b||c) { return a->b[c] << 3; } // comment\n\t\t/* x */", "https://example.com/a?b=c&d=%20#e",
    "$100 \u20ac50 \u00a330 100% #1 @user ~/.bashrc", "...!?!?... --- *** ___ ===", "    indented\n        more\n\t\tmixed \t x", "word\u00adhyphen zero\u200dwidth\u200cjoin",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "-" * 80, " " * 50 + "x", "\n" * 20, "ab" * 60, "the" * 40 + " the the", "0" * 30,
    "[SW] a[SW] [SW]b [SW]. x_[SW] \u00b2[SW] \u0301[SW] \u200d[SW] -[SW]-", "a  <L>  b\u3000<L>\n<L>", "a  <R>  b<R>\u3000 c<R>\n", "x <LR> y \t<LR>\u00a0\n<LR> <LR>", "<R>  <L>  <R>",
    "caf\u00e9TOK cafe\u0301TOK", "NORM \u212bNORM A\u030aNORM", "<spec><specx><spe <specxy>", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|a|><|b|>", " tok start", "x tok starty",
    "\u0627\u0644\u0633\u0644\u0627\u0645\u064f \u0639\u064e\u0644\u064e\u064a\u0652\u0643\u064f\u0645", "Zalgo: h\u0335\u0321e\u0338\u0327l\u0337\u0328l\u0336o\u0334", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001d49c\U0001d4b7\U0001d4b8 \U00020000\U0002a6d6 \U000e0041\U0010fffd\ue000\ufffe", "\U00013460\U00031350\U0002ebf0\U0001e4d0\U00011f04 \U00010d40\U0001ccf0\U0001e4f0", "Hello\tWorld\vA\fB\x1cC\x1dD",
    "Hello WORLD  HELLO", "  Strip me  ", "unk\x04\x04\x06 \x13", "", " ", "\n", "\t", "'", "\u00a0", "a", "'s", " '", "' ", "\r\n",
]  # fmt: skip

ALPHABETS = [
    "abc XYZ'\n", " \t\n\r\u00a0\u3000\u2003\u0085x", "'sStTmMdDrReEvVlL\u017f ", "0123456789 .,a\u0664\u00b2", "e\u0301\u0323\u0308\u00e9\u1e69s a\u1100\u1161\u11a8\uac00\u0344", "\U0001f468\u200d\U0001f3fd\ufe0f\U0001f44d a",
    "\u4f60\u597d\u3002\u3042\uff21\uff11 a1", "<|endoftext|>im_start ", "[SW]<LR>TOKNORM ab\u00e9", "!?.,;:-_()\n\r a", "\x00\x04\x06\x13\x1d\x7f\x80 a\n",
]  # fmt: skip

INVALID = [
    b"\xff", b"a\xffb", b"\xc3", b"a\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82 x", b"\xf0\x9f\x98", b"\xf0\x9f\x98a", b"\xf0\x9fa\x98", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80\xed\xb0\x80",
    b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\x80\x81\x82", b"caf\xe9 cr\xe8me", b"ok \xf0\x9f\x98\x80 bad \xf0\x9f\x98 ok", b"\xe4\xbd\xa0\xe5\xa5", b"\xf8\x88\x80\x80\x80 \xfe\xff", b"<|endoftext|>\xff<|endoftext|>",
]  # fmt: skip


def difficult_texts():
    rng = random.Random(20260404)
    assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    bmp = [c for c in assigned if c < 0x3000]
    texts = [t.encode() for t in FIXED_TEXTS] + INVALID
    for alphabet in ALPHABETS:
        for _ in range(12):
            texts.append("".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 40))).encode())
    for pool, count in ((assigned, 30), (bmp, 50)):
        for _ in range(count):
            chars = [chr(rng.choice(pool)) if rng.random() < 0.6 else rng.choice(" a1'\n.\u0301") for _ in range(rng.randrange(1, 30))]
            texts.append("".join(chars).encode())
    for _ in range(30):
        texts.append(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 24))))
    return list(dict.fromkeys(texts))


def corpus(data):
    stories = (data / "text/tinystories_sample.txt").read_text(errors="replace")[:60000]
    return [stories, "\n".join(t for t in FIXED_TEXTS if "\x00" not in t), "def f(x):\n    return x + 10\n" * 20]


def byte_level(use_regex=True, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)


def train(pre_tokenizer, size, data, special=(), normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, special_tokens=list(special), show_progress=False)
    tokenizer.train_from_iterator(corpus(data), trainer)
    return tokenizer


def edited(tokenizer, edit):
    document = json.loads(tokenizer.to_str())
    edit(document)
    return document


def merges_as_strings(document):
    document["model"]["merges"] = [" ".join(m) for m in document["model"]["merges"]]


def without_bytes(document, characters):
    vocab = document["model"]["vocab"]
    gone = set(characters)
    document["model"]["vocab"] = {t: i for t, i in vocab.items() if not gone & set(t)}
    document["model"]["merges"] = [m for m in document["model"]["merges"] if not gone & set("".join(m))]


def gpt2_style(data):
    tokenizer = train(byte_level(), 700, data, ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)

    def edit(document):
        merges_as_strings(document)
        document["added_tokens"][0]["normalized"] = True

    return edited(tokenizer, edit)


def qwen_style(data):
    steps = pre_tokenizers.Sequence([split(QWEN), byte_level(False)])
    tokenizer = train(steps, 800, data, normalizer=normalizers.NFC())
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True), AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True)])
    tokenizer.add_tokens(
        [
            AddedToken("[SW]", single_word=True, normalized=False),
            AddedToken("<L>", lstrip=True, normalized=False),
            AddedToken("<R>", rstrip=True, normalized=False),
            AddedToken("<LR>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("cafe\u0301TOK", normalized=True),
            AddedToken("\u212bNORM", normalized=True, single_word=True),
            AddedToken("<spec>", normalized=False),
            AddedToken("<specx>", normalized=False),
            AddedToken("<think>", normalized=False),
            AddedToken("</think>", normalized=False),
            AddedToken(" tok start", normalized=True),
            AddedToken("<|", normalized=True),
        ]
    )
    return edited(tokenizer, lambda document: None)


def smollm2_style(data):
    names = "<|endoftext|> <|im_start|> <|im_end|> <repo_name> <reponame> <file_sep> <filename> <gh_stars> <issue_start> <issue_comment> <issue_closed> <jupyter_start> <jupyter_text> <jupyter_code> <jupyter_output> <jupyter_script> <empty_output>".split()
    steps = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level()])
    tokenizer = train(steps, 700, data, names)
    missing = "\u0104\u0106\u0113\u0114\u0116\u011d\u00f1\u00f2"

    def edit(document):
        without_bytes(document, missing)
        merges_as_strings(document)

    return edited(tokenizer, edit)


def llama3_style(data):
    steps = pre_tokenizers.Sequence([split(LLAMA3), byte_level(False)])
    tokenizer = train(steps, 700, data)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 700)])

    def edit(document):
        document["model"]["ignore_merges"] = True
        merges = document["model"]["merges"]
        del merges[300:340]  # some tokens can only be met whole now

    return edited(tokenizer, edit)


def features(data):
    """Rarer settings: unknown tokens, a space in front, several normalizers, digits in groups."""
    steps = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=False), byte_level(prefix=True)])
    steps_of_text = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(), normalizers.Replace("h", "hh"), normalizers.Replace(Regex(r"[xyz]+"), "?"), normalizers.Prepend("_")])  # fmt: skip
    tokenizer = train(steps, 500, data, ["<unk>", "</s>"], steps_of_text)

    def edit(document):
        without_bytes(document, "\u0104\u0106z\u00c3")
        document["model"]["unk_token"] = "<unk>"
        document["model"]["fuse_unk"] = True

    return edited(tokenizer, edit)


def sentencepiece_style(data):
    """Llama 2's form: characters, spaces as \u2581, bytes for characters that are no token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=special, limit_alphabet=100, show_progress=False)
    tokenizer.train_from_iterator(corpus(data), trainer)
    space = "\u2581"
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(space), normalizers.Replace(" ", space)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(space, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])

    def edit(document):
        document["pre_tokenizer"] = None
        document["added_tokens"] = document["added_tokens"][:3]
        document["model"].update(byte_fallback=True, fuse_unk=True, unk_token="<unk>")

    return edited(tokenizer, edit)


def unfused(document):
    document = json.loads(json.dumps(document))
    document["model"]["fuse_unk"] = False
    document["normalizer"] = {"type": "NFKD"}
    return document


def real_gpt2(data):
    folder = data / "tokenizers/gpt2"
    vocab = json.loads((folder / "encoder.json").read_text())
    lines = (folder / "vocab.bpe").read_text().split("\n")[1:]
    merges = [tuple(line.split()) for line in lines if line]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = byte_level()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer, vocab


def tiktoken_gpt2(vocab):
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(b): b for b in printable}
    letters.update({chr(0x100 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    ranks = {bytes(letters[c] for c in token): i for token, i in vocab.items() if token != "<|endoftext|>"}
    return tiktoken.Encoding("gpt2_local", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})


def encode_all(tokenizer, texts):
    return [tokenizer.encode(t.decode(errors="replace"), add_special_tokens=False).ids for t in texts]


def write_ids(name, ids):
    (OUT / f"{name}.ids").write_text("".join(" ".join(map(str, line)) + "\n" for line in ids))


def write_tokenizer(name, document, texts):
    (OUT / name).mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    (OUT / name / "tokenizer.json").write_text(text)
    write_ids(name, encode_all(Tokenizer.from_str(text), texts))


def write_real(data, texts):
    gpt2, vocab = real_gpt2(data)
    ids = encode_all(gpt2, texts)
    other = tiktoken_gpt2(vocab)
    for text, expected in zip(texts, ids):
        found = other.encode(text.decode(errors="replace"), allowed_special="all")
        if found != expected:
            print("tokenizers and tiktoken differ:", text, expected, found)
    write_ids("gpt2", ids)
    write_ids("qwen3", encode_all(Tokenizer.from_file(str(data / "tokenizers/qwen3/tokenizer.json")), texts))


def write_splits():
    texts = ["a-b--c", "--a", "a--", "-", "ab", "x1y22z", "caf\u00e9 \u00b2x\u180ey\u0085z", "a\nb\n", "Hello, world!  \u3000x", "\u212a k \u017f s", "b\u0301c", "00ff zz", "a.b|c.b"]
    patterns = ["-", "-+", r"\d+", r"\w+", r"\s+", r"\W", r"\S+", r"\h+", r"[\w-]+", r"(?i:k|s)", r"\bb", r"b\B", "^b", "b$", r"\p{L}{2,}|\p{N}{,2}", r"[^\p{L}]?\p{L}++", r"(?m:a.b)", r"a.b", r"x*", r"\u0301|[\x{e9}]", r"(?<=a)-|b(?!\|)", r"\P{L}+", r"[\s\d]", r"a|\."]  # fmt: skip
    cases = []
    for is_regex, pattern in [(True, p) for p in patterns] + [(False, "-"), (False, ".b|"), (False, "\u00e9 ")]:
        for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
            for invert in (False, True):
                splitter = pre_tokenizers.Split(Regex(pattern) if is_regex else pattern, behavior, invert)
                pieces = [[p for p, _ in splitter.pre_tokenize_str(t)] for t in texts]
                cases.append({"pattern": pattern, "regex": is_regex, "behavior": behavior, "invert": invert, "pieces": pieces})
    document = {"texts": texts, "cases": cases}
    (OUT / "splits.json").write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def main():
    data = pathlib.Path(sys.argv[1])
    OUT.mkdir(parents=True, exist_ok=True)
    texts = difficult_texts()
    (OUT / "texts.hex").write_text("".join(t.hex() + "\n" for t in texts))
    for style in (gpt2_style, qwen_style, smollm2_style, llama3_style, features, sentencepiece_style):
        write_tokenizer(style.__name__, style(data), texts)
    document = json.loads((OUT / "features/tokenizer.json").read_text())
    write_ids("features_unfused", encode_all(Tokenizer.from_str(json.dumps(unfused(document))), texts))
    write_real(data, texts)
    write_splits()


if __name__ == "__main__":
    main()
