"""Makes tests/golden/models/*: tiny random models as transformers saves them, each with logits.safetensors.
Run by hand from the repository root: python tests/oracle/import_golden.py [NAME...]

logits.safetensors: tokens [T] i32, logits [T, V] computed in float64 from the weights as they are stored, rounded
to float32, and error [1], the root mean square error of PyTorch in float32 against that.
"""

import json
import pathlib
import shutil
import sys
import torch
import transformers
from safetensors.torch import save_file
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen3 import modeling_qwen3
from transformers.models.qwen3_moe import modeling_qwen3_moe

OUT = pathlib.Path("tests/golden/models")
VOCAB, LENGTH = 259, 40
SIZES = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, attn_implementation="eager", bos_token_id=256,
             eos_token_id=256)


def rms_norm_in_own_dtype(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def attention_in_own_dtype(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    groups = module.num_key_value_groups
    key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = torch.softmax(scores, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


# The originals compute in float32 whatever the dtype; the oracle needs float64.
for module, norm in ((modeling_llama, "LlamaRMSNorm"), (modeling_mistral, "MistralRMSNorm"),
                     (modeling_qwen3, "Qwen3RMSNorm"), (modeling_qwen3_moe, "Qwen3MoeRMSNorm")):
    getattr(module, norm).forward = rms_norm_in_own_dtype
    module.eager_attention_forward = attention_in_own_dtype


def llama():
    rope = dict(rope_type="llama3", rope_theta=1000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=16)
    return transformers.LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True, rope_parameters=rope,
                                    tie_word_embeddings=False, rms_norm_eps=1e-5), torch.float32


def llama_linear():
    rope = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
    return transformers.LlamaConfig(**SIZES, rope_parameters=rope, tie_word_embeddings=True), torch.float16


def qwen3():
    return transformers.Qwen3Config(**SIZES, head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=1e6),
                                    tie_word_embeddings=True), torch.bfloat16


def qwen3_window():
    return transformers.Qwen3Config(**SIZES, head_dim=16, use_sliding_window=True, sliding_window=9,
                                    max_window_layers=1, tie_word_embeddings=False), torch.bfloat16


def qwen3_moe():
    return transformers.Qwen3MoeConfig(**SIZES, head_dim=16, num_experts=8, num_experts_per_tok=2,
                                       moe_intermediate_size=24, norm_topk_prob=True,
                                       tie_word_embeddings=False), torch.bfloat16


def mistral():
    return transformers.MistralConfig(**SIZES, sliding_window=7), torch.float16


def gpt2():
    return transformers.GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=256,
                                   eos_token_id=256, attn_implementation="sdpa"), torch.float32


def fill(model):
    generator = torch.Generator().manual_seed(1)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator) * 0.2
        p.data = noise + (1.0 if p.dim() == 1 and name.endswith("weight") else 0.0)


def write_form_of_version_4(folder):
    """rope_theta and rope_scaling in the place of rope_parameters, torch_dtype in that of dtype."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2) + "\n")


def make(name, config, dtype):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    fill(model)
    model.to(dtype).save_pretrained(folder, max_shard_size="100KB" if name == "llama" else "5GB")
    # Read anew: to() has rounded the rotary frequencies, too.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                              attn_implementation=config._attn_implementation,
                                                              experts_implementation="eager")
    tokens = torch.randint(0, VOCAB, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        single = model(tokens, use_cache=False).logits[0]
        double = model.double()(tokens, use_cache=False).logits[0]
    error = (single.double() - double).pow(2).mean().sqrt()
    assert error < 1e-4 * double.pow(2).mean().sqrt(), error
    if name in ("llama", "llama_linear", "qwen3"):
        write_form_of_version_4(folder)
    save_file({"tokens": tokens[0].int(), "logits": double.float().contiguous(), "error": error.float().reshape(1)},
              folder / "logits.safetensors", metadata={"format": "pt"})
    print(name, "float32 error of PyTorch", error.item(), "logits", double.pow(2).mean().sqrt().item())


def main():
    kinds = dict(llama=llama, llama_linear=llama_linear, qwen3=qwen3, qwen3_window=qwen3_window, qwen3_moe=qwen3_moe,
                 mistral=mistral, gpt2=gpt2)
    for name in sys.argv[1:] or kinds:
        make(name, *kinds[name]())


if __name__ == "__main__":
    main()
