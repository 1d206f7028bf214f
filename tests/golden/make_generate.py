"""Writes the results that tests/system/generate.sh expects, computed by transformers
with the models of logits/.

    python tests/golden/make_generate.py   (needs torch, transformers)

Each line of generate.txt is a prompt, the id that ends a text (or 'none'),
the options of `vpipe generate` and the new ids, separated by '|'. Greedy, float32;
only prompts for which the two largest scores of each step, after the repetition
penalty, differ by more than MARGIN are kept, so that rounding does not matter.

fill.txt is the output of `vpipe generate` for the masks of FILL with logits/bert, where
id 4 is [MASK] and id n > 4 is the token that is written n + 5.
"""

import os
import random

import torch
from transformers import BertForMaskedLM, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN = 1e-3
FILL = [2, 7, 4, 35, 4, 3]  # "12 [MASK] 40 [MASK]"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CASES = [  # ids of the prompt, max_new_tokens, repetition penalty, end
    (3, 20, 1.0, None), (1, 60, 1.0, None), (7, 25, 1.3, None),
    (90, 38, 1.0, None), (1, 20, 1.0, 35), (12, 20, 1.5, 20),
    (33, 20, 1.2, None), (2, 1, 1.0, None),
]


def generate(model, prompt, n_new, penalty, end):
    model.generation_config.eos_token_id = end
    out = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)),
        max_new_tokens=n_new, do_sample=False, repetition_penalty=penalty,
        pad_token_id=0, return_dict_in_generate=True, output_scores=True)
    margins = []
    for scores in out.scores:
        top = scores[0].topk(2).values
        margins.append((top[0] - top[1]).item())
    return out.sequences[0, len(prompt):].tolist(), min(margins)


def is_wanted(ids, n_new, end):
    """Returns False if a text with an end id stops at once or only by its length."""
    return end is None or 1 < len(ids) < n_new


def fill():
    model = BertForMaskedLM.from_pretrained(
        os.path.join(HERE, "logits", "bert")).eval()
    with torch.no_grad():
        shares = model(torch.tensor([FILL])).logits[0].softmax(-1)
    with open(os.path.join(HERE, "fill.txt"), "w") as out:
        gaps = [i for i, token in enumerate(FILL) if token == 4]
        for number, gap in enumerate(gaps):
            best = shares[gap].topk(5)
            words = [f"{SPECIAL[i] if i < 5 else i + 5} {p:.4f}" for i, p in
                     zip(best.indices.tolist(), best.values.tolist())]
            print(f"gap {number + 1}:", *words, file=out)


def continue_texts():
    model = GPT2LMHeadModel.from_pretrained(
        os.path.join(HERE, "logits", "gpt2")).eval()
    torch.set_num_threads(1)
    draw = random.Random(7)
    with open(os.path.join(HERE, "generate.txt"), "w") as out:
        for n, n_new, penalty, end in CASES:
            for _ in range(300):
                prompt = [draw.randrange(1, 40) for _ in range(n)]
                ids, margin = generate(model, prompt, n_new, penalty, end)
                if margin > MARGIN and is_wanted(ids, n_new, end):
                    break
            else:
                raise SystemExit(f"no prompt of {n} ids has a clear answer")
            options = f"--max-tokens {n_new} --repetition-penalty {penalty}"
            print(",".join(map(str, prompt)), "none" if end is None else end,
                  options, " ".join(map(str, ids)), sep="|", file=out)


if __name__ == "__main__":
    continue_texts()
    fill()
