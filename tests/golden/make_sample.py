"""Writes sample.idx and sample.bin: the ids that the logits processors of Hugging
Face transformers keep, with their probabilities.

    python tests/golden/make_sample.py

Case i has the tensors i.logits, i.history, i.options (repetition_penalty,
temperature, top_k, top_p), i.ids (in order) and i.probabilities. Logits are
multiples of 1/16 in half of the cases, so that many of them are equal. Cases in
which rounding decides which ids top-p drops are left out: a border closer than
MARGIN, or between equal scores, whose order torch.sort does not keep.

`draws` has the ids drawn from N_DRAWN ids of equal probability: a row for each seed
of SEEDS and sequence of SEQUENCES, a column for each position.
"""

import os

import numpy as np
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from sampler import random
from writer import GoldenWriter

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN = 1e-4
N_CASES = 96
PENALTIES = [1.0, 1.3, 0.8, 2.0]
TEMPERATURES = [1.0, 0.7, 2.5, 0.3]
TOP_KS = [0, 1, 5, 40, 1000]
TOP_PS = [1.0, 0.9, 0.5, 0.05]

SAMPLING = 9  # purpose in the key of Philox
N_DRAWN = 1 << 10
SEEDS = [0, 5, (1 << 63) + 12345]
SEQUENCES = [0, 1, (1 << 40) + 7]
N_POSITIONS = 32


def draws():
    return [[random(seed, SAMPLING, 0, position, 0, sequence)[0] * N_DRAWN >> 32
             for position in range(N_POSITIONS)]
            for seed in SEEDS for sequence in SEQUENCES]


def processors(penalty, temperature, top_k, top_p):
    steps = LogitsProcessorList()
    if penalty != 1.0:
        steps.append(RepetitionPenaltyLogitsProcessor(penalty))
    if temperature != 1.0:
        steps.append(TemperatureLogitsWarper(temperature))
    if top_k:
        steps.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        steps.append(TopPLogitsWarper(top_p))
    return steps


def rounding_decides(before, after, top_p):
    """Returns True if rounding could change the result of top-p.

    `before` and `after` are the scores without and with top-p."""
    probabilities = before.double().softmax(-1)[0].sort().values
    sums = probabilities.cumsum(-1)
    if (sums - (1.0 - top_p)).abs().min() < MARGIN:
        return True
    kept = after[0].isfinite()
    dropped = before[0][~kept & before[0].isfinite()]
    return len(dropped) > 0 and dropped.max() >= before[0][kept].min()


def main():
    rng = np.random.default_rng(7)
    n = 0
    with GoldenWriter(os.path.join(HERE, "sample")) as out:
        while n < N_CASES:
            penalty = PENALTIES[rng.integers(len(PENALTIES))]
            temperature = TEMPERATURES[rng.integers(len(TEMPERATURES))]
            top_k = TOP_KS[rng.integers(len(TOP_KS))]
            top_p = TOP_PS[rng.integers(len(TOP_PS))]
            n_ids = int(rng.integers(2, 120))
            logits = rng.normal(0.0, 3.0, n_ids)
            if n % 2:
                logits = np.round(16.0 * logits) / 16.0
            logits = torch.tensor(logits, dtype=torch.float32)[None]
            # Some ids occur twice, and one is outside the vocabulary.
            history = rng.integers(0, n_ids, 12)
            history = np.concatenate([history, history[:4], [n_ids + 3]])
            ids = torch.tensor(history)[None]
            scores = processors(penalty, temperature, top_k, top_p)(
                ids, logits.clone())
            before = processors(penalty, temperature, top_k, 1.0)(
                ids, logits.clone())
            if top_p < 1.0 and rounding_decides(before, scores, top_p):
                continue
            kept = scores[0].isfinite().nonzero()[:, 0]
            out.add(f"{n}.logits", logits)
            out.add(f"{n}.history", history)
            out.add(f"{n}.options",
                    np.array([penalty, temperature, top_k, top_p]))
            out.add(f"{n}.ids", kept)
            out.add(f"{n}.probabilities", scores.double().softmax(-1)[0][kept])
            n += 1
        out.add("draws", draws())


if __name__ == "__main__":
    main()
