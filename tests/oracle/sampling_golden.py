"""Writes tests/golden/sampling.json: what transformers' logits processors leave of random logits.

Run by hand: python tests/oracle/sampling_golden.py
"""

import json
import pathlib
import random

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)


def processors(options):
    """In the order of GenerationMixin._get_logits_processor."""
    chain = LogitsProcessorList()
    if options["repetition_penalty"] != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]))
    if options["temperature"] != 1:
        chain.append(TemperatureLogitsWarper(options["temperature"]))
    if options["top_k"]:
        chain.append(TopKLogitsWarper(options["top_k"]))
    if options["top_p"] < 1:
        chain.append(TopPLogitsWarper(options["top_p"]))
    if options["min_p"] > 0:
        chain.append(MinPLogitsWarper(options["min_p"]))
    return chain


def main():
    torch.manual_seed(1)
    draw = random.Random(1)
    cases = []
    for number in range(48):
        size = draw.choice([1, 2, 7, 30, 90])
        options = {
            "repetition_penalty": draw.choice([1.0, 1.0, 1.2, 2.0, 0.7]),
            "temperature": draw.choice([1.0, 0.7, 0.3, 2.5]),
            "top_k": draw.choice([0, 0, 1, 5, 20, 200]),
            "top_p": draw.choice([1.0, 1.0, 0.95, 0.6, 0.05]),
            "min_p": draw.choice([0.0, 0.0, 0.05, 0.3]),
        }
        logits = torch.randn(1, size, dtype=torch.float32) * draw.choice([1, 3])
        if number % 6 == 0:  # equals, which top-k keeps together
            logits = logits.round()
            options["top_p"] = 1.0  # among equals torch's choice is arbitrary
        history = [draw.randrange(size) for _ in range(draw.choice([0, 1, 8]))]
        scores = processors(options)(torch.tensor([history], dtype=torch.long), logits.double())[0]
        kept = torch.nonzero(torch.isfinite(scores)).flatten().tolist()
        cases.append(
            {
                "options": options,
                "history": history,
                "logits": logits[0].tolist(),
                "kept": kept,
                "probabilities": scores.softmax(-1)[kept].tolist(),
            }
        )
    path = pathlib.Path(__file__).parents[1] / "golden" / "sampling.json"
    path.write_text("\n".join(["["] + [json.dumps(c) + "," for c in cases[:-1]] + [json.dumps(cases[-1]), "]"]) + "\n")


if __name__ == "__main__":
    main()
