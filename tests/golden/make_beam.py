"""Writes beam.txt: results of beam searches over a toy model.

    python tests/golden/make_beam.py

The logits of the toy model are a hash of the preceding tokens in integer
arithmetic, so that tests/decode/test_beam.c computes the same ones. search() is a
plain implementation of both rules: it sorts all continuations and keeps whole
sentences. For the rule "hf", `generate` of transformers must find the same ids and
scores with the same model. Searches in which a decision is closer than MARGIN are
left out, as transformers adds in float32. make_translate.py uses search() with a
real model.

A group of searches with the same options:

    options RULE STOP BEAMS LENGTH_PENALTY MIN_TOKENS N_EOS PAD UNK UNK_PENALTY
            FORCED_BOS EOS_BIAS N_SENTENCES          (one line)
    sentence PROMPT MAX_TOKENS N_RESULTS             (N_SENTENCES times)
    SCORE N_TOKENS ID...                             (N_RESULTS times)
"""

import math
import os
import random

import torch
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

HERE = os.path.dirname(os.path.abspath(__file__))
M64 = (1 << 64) - 1
MARGIN = 1e-3
N_IDS = 24
PAD, UNK, BOS = 1, 3, 5
EOS = [2, 7]
FILL = 999  # padding after the end of a sentence; not in the vocabulary
N_SENTENCES = 3
STOPS = {"no_gain": False, "full": True, "never": "never"}


# ---- The toy model -----------------------------------------------------------


def toy_logits(tokens, eos, eos_bias):
    """Returns multiples of 1/512 from 0 to 8, plus eos_bias for the ids of `eos`."""
    state = 0xCBF29CE484222325
    for token in tokens:
        state = (state ^ token) * 0x100000001B3 & M64
    logits = []
    for i in range(N_IDS):
        x = (state + i * 0x9E3779B97F4A7C15) & M64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M64
        x = (x ^ x >> 27) * 0x94D049BB133111EB & M64
        x ^= x >> 31
        logits.append((x >> 52) / 512 + (eos_bias if i in eos else 0))
    return logits


class ToyConfig(PretrainedConfig):
    model_type = "toy"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.vocab_size = N_IDS


class ToyModel(PreTrainedModel, GenerationMixin):
    config_class = ToyConfig
    main_input_name = "input_ids"

    def __init__(self, config):
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.eos, self.eos_bias = [], 0.0

    def forward(self, input_ids, **kwargs):
        rows = [toy_logits(row, self.eos, self.eos_bias)
                for row in input_ids.tolist()]
        return CausalLMOutput(logits=torch.tensor(rows)[:, None])


# ---- A plain implementation of both rules ------------------------------------


class Margin:
    """Smallest difference that decided the search so far."""

    def __init__(self):
        self.least = math.inf

    def see(self, a, b):
        if a != b or math.isfinite(a):
            self.least = min(self.least, abs(a - b))


def log_probs(o, logits, n_generated, max_tokens):
    """Returns log-probabilities of the next token, with forced ids applied."""
    eos = o["eos"]
    norm = math.log(sum(math.exp(x) for x in logits))
    out = [x - norm for x in logits]
    if o["pad"] >= 0:
        out[o["pad"]] = -math.inf
    if o["unk"] >= 0:
        out[o["unk"]] -= o["unk_penalty"]
    only = -1
    if n_generated == 0:
        only = o["forced_bos"]
    if o["rule"] == "fairseq" and n_generated == max_tokens - 1:
        only = eos[0]
    if only >= 0:
        kept = 0.0 if o["rule"] == "hf" else out[only]
        out = [kept if i == only else -math.inf for i in range(len(out))]
    elif n_generated < o["min_tokens"]:
        for i in eos:
            out[i] = -math.inf
    return out


def is_over(o, results, running, n_tokens, max_tokens, margin):
    if n_tokens == max_tokens:
        return True
    if len(results) < o["beams"]:
        return False
    if o["rule"] == "fairseq" or o["beams"] == 1 or o["stop"] == "full":
        return True
    length = n_tokens
    if o["stop"] == "never" and o["length_penalty"] > 0:
        length = max_tokens
    best = running[0][0] / length ** o["length_penalty"]
    worst = min(score for score, _ in results)
    margin.see(best, worst)
    return not best > worst


def search(o, next_logits, max_tokens):
    """Returns [(score, ids)], the best first, and the closest decision.

    next_logits(ids) returns the logits after the generated `ids`."""
    beams, eos = o["beams"], o["eos"]
    margin = Margin()
    running = [(0.0, [])]
    results = []
    n_candidates = max(2, 1 + len(eos)) * beams
    for step in range(max_tokens):
        every = []
        for total, ids in running:
            next_ = log_probs(o, next_logits(ids), step, max_tokens)
            every += [(total + p, ids + [i]) for i, p in enumerate(next_)]
        every = [c for c in every if c[0] != -math.inf]
        every.sort(key=lambda c: -c[0])
        for a, b in zip(every[:n_candidates], every[1:]):
            margin.see(a[0], b[0])
        running = []
        for rank, (total, ids) in enumerate(every[:n_candidates]):
            at_limit = o["rule"] == "hf" and step + 1 == max_tokens
            if not (ids[-1] in eos or at_limit):
                running.append((total, ids))
                continue
            if rank >= beams:
                continue
            score = total / (step + 1) ** o["length_penalty"]
            for other, _ in results:
                margin.see(score, other)
            if o["rule"] == "hf" or len(results) < beams:
                results.append((score, ids))
            results.sort(key=lambda r: -r[0])
            results = results[:beams]
        running = running[:beams]
        if is_over(o, results, running, step + 1, max_tokens, margin):
            break
    return results, margin.least


# ---- transformers ------------------------------------------------------------


def cut(ids):
    """Returns the generated ids, without the prompt and the padding."""
    ids = ids[1:]
    return ids[:ids.index(FILL)] if FILL in ids else ids


def compare_with_transformers(model, o, prompts, max_tokens, want):
    eos = o["eos"]
    model.eos, model.eos_bias = eos, o["eos_bias"]
    many = {} if o["beams"] == 1 else {
        "length_penalty": o["length_penalty"],
        "early_stopping": STOPS[o["stop"]],
        "num_return_sequences": o["beams"],
    }
    ids = torch.tensor(prompts)[:, None]
    out = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
        num_beams=o["beams"], max_new_tokens=max_tokens,
        min_new_tokens=o["min_tokens"] or None,
        forced_bos_token_id=o["forced_bos"] if o["forced_bos"] >= 0 else None,
        eos_token_id=eos or None, pad_token_id=FILL, use_cache=False,
        return_dict_in_generate=True, output_scores=True, **many)
    got = [cut(row) for row in out.sequences.tolist()]
    assert got == [ids for results in want for _, ids in results], (o, got)
    if o["beams"] > 1:
        scores = [score for results in want for score, _ in results]
        for a, b in zip(out.sequences_scores.tolist(), scores):
            assert abs(a - b) < 1e-4, (o, a, b)


# ---- The file ----------------------------------------------------------------


def draw_options(rng, rule):
    fairseq = rule == "fairseq"
    return {
        "rule": rule,
        "stop": "no_gain" if fairseq else rng.choice(list(STOPS)),
        "beams": rng.choice([1, 4, 4, 5, 5]),
        "length_penalty": rng.choice([1.0, 0.6, 0.0, 2.0, -0.5]),
        "min_tokens": rng.choice([1, 1, 3] if fairseq else [0, 0, 4]),
        "eos": EOS[:1 if fairseq else rng.choice([1, 1, 1, 2, 0])],
        "pad": PAD if fairseq else -1,
        "unk": UNK if fairseq else -1,
        "unk_penalty": rng.choice([0.0, 1.5, -2.0]) if fairseq else 0.0,
        "forced_bos": rng.choice([-1, -1, BOS]),
        "eos_bias": rng.choice([0.0, 1.0, 2.5, 4.0]),
    }


def write_group(file, o, prompts, limits, want):
    file.write(
        f"options {o['rule']} {o['stop']} {o['beams']} {o['length_penalty']} "
        f"{o['min_tokens']} {len(o['eos'])} {o['pad']} {o['unk']} "
        f"{o['unk_penalty']} {o['forced_bos']} {o['eos_bias']} {len(want)}\n")
    for prompt, limit, results in zip(prompts, limits, want):
        file.write(f"sentence {prompt} {limit} {len(results)}\n")
        for score, ids in results:
            file.write(f"{score:.9f} {len(ids)} {' '.join(map(str, ids))}\n")


def main():
    rng = random.Random(3)
    model = ToyModel(ToyConfig())
    with open(os.path.join(HERE, "beam.txt"), "w", newline="\n") as file:
        for number in range(90):
            o = draw_options(rng, "fairseq" if number % 3 == 2 else "hf")
            # transformers has one limit for all sentences of a batch.
            limits = [rng.randrange(max(2, o["min_tokens"] + 1), 16)
                      for _ in range(N_SENTENCES)]
            if o["rule"] == "hf":
                limits = limits[:1] * N_SENTENCES
            prompts, want = [], []
            while len(want) < N_SENTENCES:
                prompt = rng.randrange(1000, 10 ** 6)
                results, margin = search(
                    o, lambda ids: toy_logits([prompt] + ids, o["eos"],
                                              o["eos_bias"]),
                    limits[len(want)])
                if margin > MARGIN:
                    prompts.append(prompt)
                    want.append(results)
            if o["rule"] == "hf":
                compare_with_transformers(model, o, prompts, limits[0], want)
            write_group(file, o, prompts, limits, want)


if __name__ == "__main__":
    main()
