"""Makes tests/golden/model_{llama,gpt2}.safetensors: tiny models of transformers and what PyTorch computes
with them. Run by hand from the repository root: python tests/oracle/model_golden.py

Tensors of a file: inputs and targets [steps, batch, length] i32; for every parameter NAME
  weight/NAME   the initial value
  grad/NAME     gradient of the mean loss of step 0's batch
  final/NAME    the value after all steps of AdamW
and logits [batch, length, V], losses [batch, length] of step 0. All in float64, rounded to float32. error/X is
the root mean square error of PyTorch in float32 against that, for X = grad/NAME, final/NAME, logits, losses.
"""

import math
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

STEPS, BATCH, LENGTH, VOCAB = 10, 2, 12, 61
# The key bias of GPT-2 has a gradient of 0 but for rounding: EPS is so large that AdamW does not make steps of it.
LEARNING_RATE, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.95), 1e-6, 0.1, 1.0


def rms_norm_in_own_dtype(self, x):
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


# The original computes in float32 whatever the dtype; the oracle needs float64.
modeling_llama.LlamaRMSNorm.forward = rms_norm_in_own_dtype


def llama():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32, rms_norm_eps=1e-5, rope_theta=10000.0,
        tie_word_embeddings=True, attn_implementation="sdpa"))


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=16, n_inner=48, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None, attn_implementation="sdpa"))


def make_weights(model):
    generator = torch.Generator().manual_seed(1)
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator) * 0.2
        p.data = noise + (1.0 if p.dim() == 1 and name.endswith("weight") else 0.0)


def losses_of(model, inputs, targets):
    logits = model(input_ids=inputs, use_cache=False).logits
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return logits, losses.view(targets.shape)


def run(model, inputs, targets):
    results = {}
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=BETAS, eps=EPS, foreach=False)
    for step in range(STEPS):
        optimizer.zero_grad()
        logits, losses = losses_of(model, inputs[step], targets[step])
        losses.mean().backward()
        if step == 0:
            results["logits"], results["losses"] = logits.detach(), losses.detach()
            for name, p in model.named_parameters():
                results["grad/" + name] = p.grad.clone()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    for name, p in model.named_parameters():
        results["final/" + name] = p.detach().clone()
    return results


def rms(x):
    return x.pow(2).mean().sqrt()


def main():
    for kind, make in (("llama", llama), ("gpt2", gpt2)):
        generator = torch.Generator().manual_seed(2)
        tokens = torch.randint(0, VOCAB, (STEPS, BATCH, LENGTH + 1), generator=generator)
        inputs, targets = tokens[..., :-1], tokens[..., 1:]
        model = make().train()
        make_weights(model)
        weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        single = run(model, inputs, targets)
        model.load_state_dict(weights, strict=False)
        double = run(model.double(), inputs, targets)
        file = {"inputs": inputs.int().contiguous(), "targets": targets.int().contiguous()}
        for name, value in weights.items():
            file["weight/" + name] = value
        for name, value in double.items():
            file[name] = value.float().contiguous()
            file["error/" + name] = rms(single[name].double() - value).float().reshape(1)
        worst = max((file["error/" + n] / rms(v.float())).item() for n, v in double.items())
        assert worst < 1e-3, worst
        norms = [rms(v).item() * math.sqrt(v.numel()) for n, v in double.items() if n.startswith("grad/")]
        print(kind, "gradient norm", math.sqrt(sum(n * n for n in norms)), "worst float32 error", worst)
        save_file(file, f"tests/golden/model_{kind}.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
