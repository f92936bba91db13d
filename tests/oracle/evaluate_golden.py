"""Makes tests/golden/evaluate with lm-evaluation-harness (0.4.13) and transformers, in float32 on the CPU.

    HF_HUB_OFFLINE=1 python tests/oracle/evaluate_golden.py FOLDER_OF_REAL_DATA     (from the repository's root)

model/: a tiny random GPT-2 with the tokenizer tests/golden/tokenizers/gpt2_style; data/: a few documents of every task, laid out
as the official releases are. small.json: what the harness makes of data/ (strings, SHA-256 of token ids, scores, metrics), without
examples and with two; real.json: of the first 50 documents of every task of FOLDER_OF_REAL_DATA, strings and ids as SHA-256.
"""

import csv
import hashlib
import json
import pathlib
import random
import re
import shutil
import sys

import datasets
import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

OUT = pathlib.Path("tests/golden/evaluate")
TOKENIZER = "tests/golden/tokenizers/gpt2_style/tokenizer.json"
MMLU = "anatomy"
TASKS = ["wikitext", "lambada_openai", "lambada_standard", "piqa", "hellaswag", "winogrande", "arc_easy", "arc_challenge", "openbookqa",
         "sciq", "boolq", "copa", f"mmlu_{MMLU}"]  # fmt: skip
WITH_EXAMPLES = ["lambada_openai", "hellaswag", "winogrande", "arc_easy", "boolq", f"mmlu_{MMLU}"]
COPA = [  # invented: the data set is not among the real data
    {"premise": "The cup fell.", "choice1": "It broke.", "choice2": "It sang.", "question": "effect", "idx": 0, "label": 0},
    {"premise": "The lamp was dark. ", "choice1": "Élan ran out.", "choice2": "Its bulb was gone.", "question": "cause", "idx": 1, "label": 1},
]  # fmt: skip


def jsonl(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def first_of(*paths):
    return next((p for p in paths if p.exists()), None)


def pages(path):
    """The pages of a raw WikiText file: a title starts one (docs/evaluation.md)."""
    page, result = [], []
    for line in path.read_text().split("\n"):
        title = line.replace("= = =", "===").replace("= =", "==").strip()
        if title.startswith("= ") and title.endswith(" ="):
            result.append("\n".join(page))
            page = []
        page.append(line)
    result.append("\n".join(page))
    return [p for p in result if p.strip()]


def arc(path, question):
    for d in jsonl(path):
        choices = {"text": [c["text"] for c in d["question"]["choices"]], "label": [c["label"] for c in d["question"]["choices"]]}
        yield {"id": d["id"], question: d["question"]["stem"], "choices": choices, "answerKey": d["answerKey"]}


def piqa(path):
    labels = path.with_name(path.name.replace(".", "-labels.", 1)).with_suffix(".lst").read_text().split()
    return [{**d, "label": int(label)} for d, label in zip(jsonl(path), labels)]


def hellaswag(path):
    return [hellaswag_document(d) for d in jsonl(path)]


def hellaswag_document(d):
    """Copies without ctx_a and ctx_b have the whole context in ctx."""
    parts = {"ind": d.get("ind", d.get("idx")), "activity_label": d["activity_label"], "ctx_a": d.get("ctx_a", d["ctx"])}
    return parts | {"ctx_b": d.get("ctx_b", ""), "ctx": d["ctx"], "endings": d["endings"], "label": str(d["label"])}


def boolq(path):
    return [{"question": d["question"], "passage": d["passage"], "idx": d.get("idx", 0), "label": int(d["label"])} for d in jsonl(path)]


def mmlu(path):
    subject = path.stem.rpartition("_")[0]
    with open(path, newline="") as f:
        return [{"question": r[0], "subject": subject, "choices": r[1:5], "answer": "ABCD".index(r[5])} for r in csv.reader(f)]


def lambada(path):
    return jsonl(path) if path.suffix == ".jsonl" else [{"text": line} for line in path.read_text().split("\n")[:-1]]


def documents(root):
    """{hub name: {split: documents}} of a folder; `.even` files are halves of the official ones."""
    read = {}

    def add(name, split, reader, *names):
        candidates = [root / n for n in names] + [root / re.sub(r"\.(jsonl|txt)$", r".even.\1", n) for n in names]
        path = first_of(*candidates)
        if path is not None:
            read.setdefault(name, {})[split] = list(reader(path))

    add("EleutherAI/wikitext_document_level", "test", lambda p: [{"page": x} for x in pages(p)], "wikitext2/wiki.test.raw")
    add("EleutherAI/lambada_openai", "test", lambada, "lambada/lambada_test.jsonl")
    add("cimec/lambada", "test", lambada, "lambada/lambada_test_plain_text.txt")
    add("cimec/lambada", "validation", lambada, "lambada/lambada_development_plain_text.txt")
    for split, official in (("train", "train"), ("validation", "valid")):
        add("baber/piqa", split, piqa, f"piqa/{official}.jsonl")
    for split, official in (("train", "train"), ("validation", "val")):
        add("Rowan/hellaswag", split, hellaswag, f"hellaswag/hellaswag_{official}.jsonl")
        add("aps/super_glue/boolq", split, boolq, f"boolq/{official}.jsonl")
        add("aps/super_glue/copa", split, jsonl, f"copa/{official}.jsonl")
    for split, official in (("train", "train_xl"), ("validation", "dev")):
        add("allenai/winogrande", split, jsonl, f"winogrande/{official}.jsonl")
    for split, official in (("train", "Train"), ("test", "Test")):
        for part in ("ARC-Easy", "ARC-Challenge"):
            add("allenai/ai2_arc/" + part, split, lambda p: arc(p, "question"), f"arc/{part}-{official}.jsonl")
    for split in ("train", "test"):
        add("allenai/openbookqa", split, lambda p: arc(p, "question_stem"), f"openbookqa/{split}.jsonl")
        add("allenai/sciq", split, lambda p: json.loads(p.read_text()), f"sciq/{split}.json")
    for split in ("dev", "test"):
        for path in sorted((root / "mmlu" / split).glob("*.csv")):
            add("cais/mmlu/" + path.stem.rpartition("_")[0], split, mmlu, f"mmlu/{split}/{path.name}")
    return read


def serve(root):
    """datasets.load_dataset() that knows these documents only. A split that is not there is an empty copy of another."""
    known = documents(root)

    def load_dataset(path, name=None, **_):
        splits = known.get(f"{path}/{name}") or known[path]
        one = next(iter(splits.values()))
        return datasets.DatasetDict({
            s: datasets.Dataset.from_list(splits.get(s, one)) for s in ("train", "validation", "test", "dev")
        })  # fmt: skip

    datasets.load_dataset = load_dataset


def make_model():
    folder = OUT / "model"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=TOKENIZER, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    vocab = len(tokenizer)
    config = GPT2Config(vocab_size=vocab, n_embd=16, n_layer=2, n_head=2, n_positions=512, n_inner=32, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(config)
    for name, p in model.named_parameters():
        p.data = torch.randn(p.shape) * 0.2 + (1.0 if p.dim() == 1 and name.endswith("weight") else 0.0)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    saved = json.loads((folder / "config.json").read_text())
    saved["flywheel"] = {"vocab_size": vocab, "hidden_size": 16, "layers": 2, "heads": 2, "intermediate_size": 32, "max_positions": 512,
                         "norm": "layer_norm", "position": "learned", "mlp": "gelu", "attention_bias": True, "mlp_bias": True}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(saved, indent=1) + "\n")
    shutil.copy(TOKENIZER, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
         "clean_up_tokenization_spaces": False}) + "\n")  # fmt: skip
    assert (load_file(folder / "model.safetensors")["transformer.wte.weight"] == model.transformer.wte.weight).all()
    return str(folder)


def make_data(real):
    """Documents for data/, laid out as the official releases are."""
    data = OUT / "data"
    shutil.rmtree(data, ignore_errors=True)

    def lines(source, target, numbers):
        rows = (real / source).read_text().split("\n")
        path = data / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(rows[n] + "\n" for n in numbers))

    (data / "wikitext2").mkdir(parents=True)
    all_pages = pages(real / "wikitext2/wiki.test.raw")
    beginning = all_pages[0][:all_pages[0].index("\n", 2500)]
    (data / "wikitext2/wiki.test.raw").write_text(" \n" + beginning + "\n" + min(all_pages, key=len))
    lines("lambada/lambada_test.even.jsonl", "lambada/lambada_test.jsonl", (0, 213, 1, 2))  # 213: a newline in the target
    lines("lambada/lambada_test_plain_text.even.txt", "lambada/lambada_test_plain_text.txt", (0, 1, 2))
    lines("piqa/valid.even.jsonl", "piqa/valid.jsonl", (0, 1, 2))
    lines("piqa/valid-labels.even.lst", "piqa/valid-labels.lst", (0, 1, 2))
    lines("winogrande/dev.even.jsonl", "winogrande/dev.jsonl", (0, 1, 2, 3))
    lines("winogrande/dev.even.jsonl", "winogrande/train_xl.jsonl", (4, 0, 6, 7, 8, 9))
    lines("arc/ARC-Easy-Test.even.jsonl", "arc/ARC-Easy-Test.jsonl", (0, 1, 2))
    lines("arc/ARC-Easy-Dev.even.jsonl", "arc/ARC-Easy-Train.jsonl", range(30))  # more than the 21 of a pool
    lines("arc/ARC-Challenge-Test.even.jsonl", "arc/ARC-Challenge-Test.jsonl", (0, 1))
    lines("openbookqa/test.jsonl", "openbookqa/test.jsonl", (0, 1))
    lines("boolq/val.jsonl", "boolq/val.jsonl", (0, 1))
    lines("boolq/val.jsonl", "boolq/train.jsonl", (2, 0, 1, 3))
    invented = {"ind": 9, "activity_label": "Washing a mug", "ctx_a": "A woman stands at a sink.", "ctx_b": "the Woman", "ctx": "",
                "endings": ["rinses the mug under the tap.", "[step] Eats the mug. [title] Cook it [step] Boil  water.",
                            "paints the wall.", "sings é to a dog."], "label": "2"}  # fmt: skip
    items = hellaswag(real / "hellaswag/hellaswag_val.even.jsonl")
    (data / "hellaswag").mkdir()
    for name, chosen in (("val", [*items[:2], items[3000], invented]), ("train", items[2000:2006])):
        (data / f"hellaswag/hellaswag_{name}.jsonl").write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in chosen))
    (data / "sciq").mkdir()
    items = json.loads((real / "sciq/test.json").read_text())
    (data / "sciq/test.json").write_text(json.dumps([items[0], next(i for i in items if not i["support"])], indent=1))
    (data / "copa").mkdir()
    (data / "copa/val.jsonl").write_text("".join(json.dumps(d, ensure_ascii=False) + "\n" for d in COPA))
    lines(f"mmlu/test/{MMLU}_test.csv", f"mmlu/test/{MMLU}_test.csv", (0, 1, 2))
    lines(f"mmlu/dev/{MMLU}_dev.csv", f"mmlu/dev/{MMLU}_dev.csv", (0, 1, 2, 3, 4))


def evaluate(model, tasks, **options):
    import lm_eval

    results = lm_eval.simple_evaluate(model=model, tasks=tasks, log_samples=True, bootstrap_iters=2000, **options)
    assert set(results["samples"]) == set(tasks)
    return results


def tokens_of(model, request):
    if len(request) == 1:
        return [model.tok_encode(request[0])]
    return list(model._encode_pair(*request))


def digest(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def record(model, results, full):
    """What the tests compare with."""
    golden = {}
    for task, samples in results["samples"].items():
        entries = []
        for sample in sorted(samples, key=lambda s: s["doc_id"]):
            requests = [tuple(r) for r in sample["arguments"]]
            tokens = [tokens_of(model, r) for r in requests]
            scores = [r[0] for r in sample["resps"]]
            lls = [s if isinstance(s, float) else s[0] for s in scores]
            entry = {"lls": lls, "target": str(sample["target"])}
            if not isinstance(scores[0], float):
                entry["greedy"] = [s[1] for s in scores]
            entry["tokens"] = digest(tokens)
            if full:
                entry["requests"] = requests
                entry |= {key: sample[key] for key in ("doc", "doc_hash", "prompt_hash", "target_hash")}
            else:
                entry["target"] = hashlib.sha256(entry["target"].encode()).hexdigest()[:16]
                entry["requests"] = digest(requests)
            entries.append(entry)
        metrics = {k: v for k, v in results["results"][task].items() if k.endswith(",none")}
        golden[task] = {"version": results["versions"][task], "metrics": metrics, "documents": entries}
    return golden


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (OUT / name).write_text(re.sub(r'(\{"lls")', r"\n\1", text) + "\n")


def main():
    real = pathlib.Path(sys.argv[1])
    folder = make_model()
    make_data(real)
    serve(OUT / "data")
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=1)
    zero = record(model, evaluate(model, TASKS), full=True)
    two = record(model, evaluate(model, WITH_EXAMPLES, num_fewshot=2), full=True)
    write("small.json", {"zero_shot": zero, "two_shot": two})
    serve(real)
    write("real.json", record(model, evaluate(model, [t for t in TASKS if t != "copa"], limit=50), full=False))


if __name__ == "__main__":
    main()
