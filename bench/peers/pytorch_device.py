"""PyTorch's time of full, sliding-window and stochastic attention on a GPU in bf16, beside bench_device.

Full: scaled_dot_product_attention. The others: FlexAttention, compiled; sa in the order of the ranks, so that its mask is a band
of blocks, permuting and permuting back included. A line of JSON a pattern and length; without a GPU the same on the CPU (to try it).

    python pytorch_device.py --lengths 2048,8192,32768 --tokens 65536 --heads 16 --window 256
"""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def full(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Window:
    def __init__(self, length, window, device):
        def visible(_batch, _head, i, j):
            return (j <= i) & (i - j < window)

        self.mask = create_block_mask(visible, None, None, length, length, device=device)
        self.attention = torch.compile(flex_attention)

    def __call__(self, q, k, v):
        return self.attention(q, k, v, block_mask=self.mask)


class Stochastic:
    """A centred band on the circle of ranks; rows and columns of the mask are ranks."""

    def __init__(self, length, window, device):
        self.order = torch.randperm(length, device=device)
        self.rank = torch.argsort(self.order)
        position, offset = self.order, (window - 1) // 2

        def visible(_batch, _head, i, j):
            return (position[j] <= position[i]) & ((i - j + offset) % length < window)

        self.mask = create_block_mask(visible, None, None, length, length, device=device)
        self.attention = torch.compile(flex_attention)

    def __call__(self, q, k, v):
        q, k, v = (x[:, :, self.order] for x in (q, k, v))
        return self.attention(q, k, v, block_mask=self.mask)[:, :, self.rank]


def milliseconds(call, device, repeats):
    """The least of several after two that warm up."""
    times = []
    for _ in range(repeats + 2):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times[2:])


def measure(attention, length, options, device):
    torch.manual_seed(0)
    shape = (max(1, options.tokens // length), options.heads, length, options.head_dim)
    q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=device == "cuda") for _ in range(3))
    result = {"forward_ms": milliseconds(lambda: attention(q, k, v), device, options.repeats)}
    if device == "cuda":  # FlexAttention has no backward pass on the CPU
        out = attention(q, k, v)
        gradient = torch.randn_like(out)
        result["backward_ms"] = milliseconds(lambda: out.backward(gradient, retain_graph=True), device, options.repeats)
    return {name: round(value, 3) for name, value in result.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lengths", default="2048,8192,32768")
    for name, default in [("tokens", 65536), ("heads", 16), ("head-dim", 64), ("window", 256), ("repeats", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--output", default="/dev/null", help="the lines go there, too")
    options = parser.parse_args()
    output = open(options.output, "w")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for length in map(int, options.lengths.split(",")):
        for pattern, make in [("full", lambda *_: full), ("swa", Window), ("sa", Stochastic)]:
            result = {"peer": f"pytorch {torch.__version__}", "device": device, "pattern": pattern, "length": length}
            try:
                result |= measure(make(length, options.window, device), length, options, device)
            except Exception as error:  # a mode that this version cannot run is a finding, not a failure
                result["error"] = str(error).splitlines()[0][:200]
            for file in (sys.stdout, output):
                print(json.dumps(result), file=file, flush=True)


if __name__ == "__main__":
    main()
