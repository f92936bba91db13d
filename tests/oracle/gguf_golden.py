"""Makes tests/golden/models/*.gguf and, beside each, what transformers and the gguf package say of it.
Run by hand from the repository root: python tests/oracle/gguf_golden.py

NAME.safetensors: tokens [T] i32, logits [T, V] in float64 from the weights as gguf's dequantize() gives them, rounded
to float32; error [1] as in import_golden.py; and some of those weights under their Hugging Face names. k_quants.safetensors: blocks of Q4_K, Q5_K and Q6_K, and their values.
"""

import json
import math
import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file
from import_golden import LENGTH, OUT, SIZES, fill

SIZES = dict(SIZES, intermediate_size=64)
PARTS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp",
         "mlp.experts.down_proj": "ffn_down_exps"}
OUTSIDE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
SHOWN = ["model.layers.0." + part + ".weight" for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                          "self_attn.o_proj", "mlp.gate_proj")]


def llama():
    rope = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                original_max_position_embeddings=8192)
    types = dict(attn_q=Type.Q8_0, attn_k=Type.Q4_0, attn_v=Type.Q4_1, attn_output=Type.F16, ffn_gate=Type.BF16,
                 ffn_up=Type.Q8_0, ffn_down=Type.Q4_1, token_embd=Type.Q8_0)
    config = transformers.LlamaConfig(**SIZES, rope_parameters=rope, tie_word_embeddings=True)
    return config, types, byte_level("llama-bpe")


def qwen3():
    types = dict(attn_q=Type.Q4_0, attn_k=Type.Q8_0, attn_v=Type.F16, attn_output=Type.Q4_1, ffn_gate=Type.F32,
                 ffn_up=Type.Q4_0, ffn_down=Type.Q8_0, token_embd=Type.F16, output=Type.Q8_0)
    config = transformers.Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False,
                                      rope_parameters=dict(rope_type="default", rope_theta=1e6))
    return config, types, byte_level("qwen2")


def qwen3moe():
    types = dict(attn_q=Type.F16, ffn_gate_exps=Type.Q4_1, ffn_up_exps=Type.Q8_0, ffn_down_exps=Type.Q4_0,
                 token_embd=Type.Q8_0, output=Type.Q8_0)
    config = transformers.Qwen3MoeConfig(**SIZES, head_dim=16, num_experts=4, num_experts_per_tok=2,
                                         moe_intermediate_size=32, norm_topk_prob=True, tie_word_embeddings=False)
    return config, types, byte_level("qwen2")


def sentencepiece():
    document = json.loads((OUT.parent / "tokenizers/sentencepiece_style/tokenizer.json").read_text())
    tokens = sorted(document["model"]["vocab"], key=document["model"]["vocab"].get)
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    config = transformers.LlamaConfig(**dict(SIZES, vocab_size=len(tokens), num_hidden_layers=1, bos_token_id=1,
                                             eos_token_id=2), tie_word_embeddings=True)

    def write(writer):
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(tokens)
        writer.add_token_scores([float(-i) for i in range(len(tokens))])
        writer.add_token_types(kinds)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)

    types = {part: Type.Q8_0 for part in (*PARTS.values(), "token_embd") if "norm" not in part}
    return config, types, write


def byte_level(rules):
    def write(writer):
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        letters = [chr(b) for b in printable] + [chr(0x100 + i) for i in range(68)]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(rules)
        writer.add_token_list(letters + ["<|endoftext|>", "th", "\u0120th"])
        writer.add_token_types([1] * 256 + [3, 1, 1])
        writer.add_token_merges(["t h", "\u0120 th"])
        writer.add_bos_token_id(256)
        writer.add_eos_token_id(256)

    return write


def interleave(weight, heads):
    """The order of the rows in which llama.cpp rotates neighbours."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def deinterleave(weight, heads):
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def heads_of(name, config):
    if config.model_type != "llama":
        return 0
    return {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(name.split(".")[-2], 0)


def gguf_name(name):
    if name in OUTSIDE:
        return OUTSIDE[name]
    _, _, layer, *part, kind = name.removesuffix(".weight").split(".") + ["weight"]
    return f"blk.{layer}.{PARTS['.'.join(part)]}.{kind}"


def add_metadata(writer, config):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    if config.model_type == "qwen3_moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def add_experts(writer, key, weight, types):
    """The gates' rows stand before those of up; llama.cpp has a tensor for each."""
    read = []
    for part, half in zip(("ffn_gate_exps", "ffn_up_exps"), weight.chunk(2, dim=1)):
        stored = gguf.quantize(half.numpy(), types[part])
        writer.add_tensor(f"blk.{key.split('.')[2]}.{part}.weight", stored, raw_dtype=types[part])
        read.append(torch.from_numpy(np.array(gguf.dequantize(stored, types[part]), dtype=np.float32)))
    return torch.cat(read, dim=1)


def rope_divisors(config):
    rope = config.rope_parameters
    divisors = []
    for m in range(config.head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * m / config.head_dim)
        original, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = min(1, max(0, (original / wavelength - low) / (high - low)))
        divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(divisors, dtype=np.float32)


def make(name, config, types, write_tokenizer):
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager").eval()
    fill(model)
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", config.model_type.replace("_", ""))
    add_metadata(writer, config)
    write_tokenizer(writer)
    state = {}
    for key, weight in model.state_dict().items():
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if key.endswith("gate_up_proj"):
            state[key] = add_experts(writer, key, weight, types)
            continue
        stored_name = gguf_name(key)
        heads = heads_of(stored_name, config)
        values = interleave(weight.numpy(), heads) if heads else weight.numpy()
        kind = types.get(stored_name.split(".")[-2], Type.F32)
        stored = gguf.quantize(values, kind)
        writer.add_tensor(stored_name, stored, raw_dtype=kind)
        read = np.array(gguf.dequantize(stored, kind), dtype=np.float32).reshape(values.shape)
        state[key] = torch.from_numpy(np.ascontiguousarray(deinterleave(read, heads) if heads else read))
    if config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_divisors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(state, strict=False)
    tokens = torch.randint(0, config.vocab_size, (1, LENGTH), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        single = model(tokens, use_cache=False).logits[0]
        double = model.double()(tokens, use_cache=False).logits[0]
    error = (single.double() - double).pow(2).mean().sqrt()
    assert error < 1e-4 * double.pow(2).mean().sqrt(), error
    shown = {key: state[key] for key in SHOWN} if name in ("llama", "qwen3") else {}
    save_file({"tokens": tokens[0].int(), "logits": double.float().contiguous(), "error": error.float().reshape(1),
               **shown}, OUT / f"{name}.safetensors", metadata={"format": "pt"})
    print(name, "float32 error of PyTorch", error.item())


def k_quants():
    """Blocks of random bytes with finite scales, and their values. The gguf package cannot write these types."""
    rng = np.random.default_rng(5)
    scales = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}
    tensors = {}
    for kind, places in scales.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = rng.integers(0, 256, (4, size), dtype=np.uint8)
        for place in places:
            blocks[:, place:place + 2] = (0.01 * rng.standard_normal((4, 1))).astype(np.float16).view(np.uint8)
        values = np.array(gguf.dequantize(blocks, kind), dtype=np.float32).reshape(4 * elements)
        tensors |= {f"{kind.name}.blocks": torch.from_numpy(blocks), kind.name: torch.from_numpy(values)}
    save_file(tensors, OUT / "k_quants.safetensors", metadata={"format": "pt"})


def main():
    k_quants()
    for kind in (llama, qwen3, qwen3moe, sentencepiece):
        make(kind.__name__, *kind())


if __name__ == "__main__":
    main()
