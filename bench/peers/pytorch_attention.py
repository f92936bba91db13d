"""PyTorch's time of causal full and stochastic attention on the CPU, forward and backward, beside bench_attention.

One line of JSON a mode: {"peer": "pytorch", "pattern": ..., "n": ..., "mode": ..., "forward_ms": ..., "backward_ms": ...}.

    python pytorch_attention.py --n 2048 --heads 4 --head-dim 64 --window 256 --threads 2
"""

import argparse
import json
import math
import time

import torch

from pytorch_step import Blocked, DenseMask, Flex, causal


def measure(attention, options, backward):
    torch.manual_seed(0)
    shape = (1, options.heads, options.n, options.head_dim)
    q, k, v = (torch.randn(shape, requires_grad=backward) for _ in range(3))
    gradient = torch.randn(shape)
    best_forward = best_backward = math.inf
    for _ in range(options.repeats + 1):
        start = time.perf_counter()
        out = attention(q, k, v)
        middle = time.perf_counter()
        best_forward = min(best_forward, middle - start)
        if backward:
            out.backward(gradient)
            best_backward = min(best_backward, time.perf_counter() - middle)
    return 1e3 * best_forward, 1e3 * best_backward


def main():
    parser = argparse.ArgumentParser()
    for name, default in [("n", 2048), ("heads", 4), ("head-dim", 64), ("window", 256), ("threads", 2), ("repeats", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dense, blocked = DenseMask(options.n, options.window), Blocked(options.n, options.window)
    modes = [("full", "sdpa", causal, True), ("sa", "dense", dense, True), ("sa", "blocked", blocked, True),
             ("sa", "blocked_compiled", torch.compile(blocked), True),
             ("sa", "flex_compiled", torch.compile(Flex(options.n, options.window)), False)]
    for pattern, mode, attention, backward in modes:
        result = {"peer": "pytorch", "pattern": pattern, "n": options.n, "mode": mode}
        try:
            forward, back = measure(attention, options, backward)
            result["forward_ms"] = round(forward, 3)
            if backward:
                result["backward_ms"] = round(back, 3)
        except Exception as error:  # a mode that this version cannot run is a finding, not a failure
            result["error"] = str(error).splitlines()[0][:200]
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
