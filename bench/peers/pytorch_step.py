"""PyTorch's rate of a whole training step on the CPU, for the model that bench_step trains.

One line of JSON a mode: {"peer": "pytorch", "mode": ..., "tokens_per_second": ...}.

    python pytorch_step.py --layers 10 --hidden 256 --heads 4 --intermediate 704 --vocab 4096 \
        --sequence 512 --batch 8 --pattern full --threads 2 --modes eager,compiled
"""

import argparse
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import nn


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name, default in [("layers", 10), ("hidden", 256), ("heads", 4), ("intermediate", 704), ("vocab", 4096),
                          ("sequence", 512), ("batch", 8), ("window", 256), ("threads", 2), ("steps", 3)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--pattern", choices=["full", "sa"], default="full")
    parser.add_argument("--modes", default="", help="full: eager,compiled; sa: {dense,blocked,flex}[_compiled]")
    return parser.parse_args()


def rope_tables(length, head_dim):
    frequencies = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.arange(length).float()[:, None] * frequencies[None]
    return torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()


def apply_rope(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class DenseMask:
    """softmax over the band of the permuted order as one n x n mask."""

    def __init__(self, length, window):
        rank = torch.randperm(length)
        distance = (rank[:, None] - rank[None, :] + (window - 1) // 2) % length
        self.mask = (distance < window) & torch.ones(length, length, dtype=torch.bool).tril()

    def __call__(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


class Blocked:
    """rows gathered into rank order, cut into blocks; each block attends to its neighbours on the circle."""

    def __init__(self, length, window, block=None):
        self.block = block or max(16, window // 2)
        rank = torch.randperm(length)
        self.order = rank.argsort()
        self.rank = rank
        blocks = length // self.block
        reach = math.ceil(((window - 1) // 2 + 1) / self.block)
        self.neighbours = torch.stack([(torch.arange(blocks) + shift) % blocks for shift in range(-reach, reach + 1)], 1)
        query = self.order.view(blocks, self.block)
        key = query[self.neighbours].flatten(1)
        query_rank, key_rank = rank[query], rank[key]
        inside = (query_rank[:, :, None] - key_rank[:, None, :] + (window - 1) // 2) % length < window
        self.mask = (inside & (key[:, None, :] <= query[:, :, None]))[None, None]

    def __call__(self, q, k, v):
        batch, heads, length, dim = q.shape
        cut = lambda x: x[:, :, self.order].view(batch, heads, -1, self.block, dim)
        q, k, v = cut(q), cut(k), cut(v)
        k = k[:, :, self.neighbours].flatten(3, 4)
        v = v[:, :, self.neighbours].flatten(3, 4)
        fold = lambda x: x.flatten(1, 2)
        mask = self.mask.expand(1, heads, -1, -1, -1).flatten(1, 2)
        out = F.scaled_dot_product_attention(fold(q), fold(k), fold(v), attn_mask=mask)
        return out.view(batch, heads, length, dim)[:, :, self.rank]


class Flex:
    """FlexAttention with the band as its mask function."""

    def __init__(self, length, window):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        rank = torch.randperm(length)
        offset = (window - 1) // 2

        def visible(_batch, _head, i, j):
            return (j <= i) & ((rank[i] - rank[j] + offset) % length < window)

        self.mask = create_block_mask(visible, None, None, length, length, device="cpu")
        self.attention = flex_attention

    def __call__(self, q, k, v):
        return self.attention(q, k, v, block_mask=self.mask)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Layer(nn.Module):
    def __init__(self, options, attention):
        super().__init__()
        self.heads = options.heads
        self.norm1 = nn.RMSNorm(options.hidden, eps=1e-5)
        self.norm2 = nn.RMSNorm(options.hidden, eps=1e-5)
        self.qkv = nn.Linear(options.hidden, 3 * options.hidden, bias=False)
        self.out = nn.Linear(options.hidden, options.hidden, bias=False)
        self.gate_up = nn.Linear(options.hidden, 2 * options.intermediate, bias=False)
        self.down = nn.Linear(options.intermediate, options.hidden, bias=False)
        self.attention = attention

    def forward(self, x, cos, sin):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = self.attention(apply_rope(q, cos, sin), apply_rope(k, cos, sin), v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, options, make_attention):
        super().__init__()
        self.embedding = nn.Embedding(options.vocab, options.hidden)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.layers = nn.ModuleList(Layer(options, make_attention()) for _ in range(options.layers))
        self.norm = nn.RMSNorm(options.hidden, eps=1e-5)
        cos, sin = rope_tables(options.sequence, options.hidden // options.heads)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def attention_of(mode, options):
    if options.pattern == "full":
        return lambda: causal
    kind = {"dense": DenseMask, "blocked": Blocked, "flex": Flex}[mode.removesuffix("_compiled")]
    return lambda: kind(options.sequence, options.window)


def measure(mode, options):
    torch.manual_seed(0)
    model = Model(options, attention_of(mode, options))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(options.vocab, (options.batch, options.sequence + 1))
    loss_of = torch.compile(model) if mode.endswith("compiled") else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(ids[:, :-1], ids[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    step()
    best = math.inf
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return options.batch * options.sequence / best


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    default = "eager,compiled" if options.pattern == "full" else "dense,dense_compiled,blocked,blocked_compiled,flex_compiled"
    for mode in (options.modes or default).split(","):
        result = {"peer": "pytorch", "version": torch.__version__, "mode": mode}
        try:
            result["tokens_per_second"] = round(measure(mode, options), 1)
        except Exception as error:  # a mode that this version cannot run is a finding, not a failure
            result["error"] = str(error).splitlines()[0][:200]
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
