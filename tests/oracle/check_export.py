"""Opens what export wrote in transformers and compares it with the golden logits.
Run by hand from the repository root: python tests/oracle/check_export.py PATH_OF_EXPORT_PROGRAM
"""

import pathlib
import subprocess
import sys
import tempfile
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file

MODELS = pathlib.Path("tests/golden/models")
NAMES = ["llama", "llama_linear", "qwen3", "qwen3_window", "mistral", "gpt2", "qwen3_moe"]


def check(program, path, golden, dtype, limit):
    with tempfile.TemporaryDirectory() as folder:
        # The golden folders have no tokenizer: their exports get the bytes'.
        out = pathlib.Path(folder) / "out"
        subprocess.run([program, "--model", path, "--output", out, "--dtype", dtype, "--shard-mib", "1"], check=True,
                       stdout=subprocess.DEVNULL)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            out, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        expected = load_file(golden)
        with torch.no_grad():
            logits = model(expected["tokens"][None].long(), use_cache=False).logits[0]
        error = ((logits - expected["logits"]).pow(2).mean().sqrt() / expected["logits"].pow(2).mean().sqrt()).item()
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
        ids = tokenizer("Hello w\u00f6rld\n").input_ids
        text = tokenizer.decode(ids, skip_special_tokens=True)
        with safe_open(next(out.glob("model*.safetensors")), "pt") as file:
            kinds = {str(file.get_tensor(name).dtype) for name in file.keys()}
        print(f"{path} as {dtype}: {type(model).__name__}, {kinds}, relative error {error:.2e}, ids {ids[:6]}, {text!r}")
        assert error < limit and text.strip() == "Hello w\u00f6rld", (error, text)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    for name in NAMES:
        for dtype, limit in (("f32", 1e-5), ("bf16", 3e-2), ("f16", 3e-3)):
            check(program, MODELS / name, MODELS / name / "logits.safetensors", dtype, limit)
    for name in ("llama", "qwen3", "qwen3moe", "sentencepiece"):
        check(program, MODELS / f"{name}.gguf", MODELS / f"{name}.safetensors", "f32", 1e-5)


if __name__ == "__main__":
    main()
