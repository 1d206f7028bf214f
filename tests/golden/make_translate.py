"""Writes the model and results of tests/run/test_translate.c and
tests/system/translate.sh.

    python tests/golden/make_translate.py   (needs torch, transformers)

translate/m2m is a tiny M2M100 that was trained for a few steps to write a sentence
backwards: its translations have several lengths, and most end with EOS.

Each line of translate.txt is a search with that model in float32: rule,
early_stopping, beams, length penalty, most tokens, forced first token (-1: none),
ids of the source and the best result's ids, separated by '|'. search() of
make_beam.py, a plain implementation of both rules, finds all of them; for the rule
"hf", generate() of transformers finds the same. Searches in which a decision is closer
than MARGIN are left out, so that rounding does not matter.
"""

import os
import random
import shutil

import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration

from make_beam import MARGIN, STOPS, search

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "translate", "m2m")
VOCAB, POSITIONS = 20, 64
PAD, EOS, FIRST = 1, 2, 4  # the decoder starts with EOS
STEPS, BATCH = 200, 32
PER_GROUP = 3


def draw_words(draw, n):
    return [draw.randrange(FIRST, VOCAB) for _ in range(n)]


# ---- The model ---------------------------------------------------------------


def make_model():
    torch.manual_seed(1)
    return M2M100ForConditionalGeneration(M2M100Config(
        vocab_size=VOCAB, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32,
        max_position_embeddings=POSITIONS, dropout=0.0, attention_dropout=0.0,
        activation_dropout=0.0, encoder_layerdrop=0.0, decoder_layerdrop=0.0,
        init_std=0.1, pad_token_id=PAD, bos_token_id=0, eos_token_id=EOS,
        decoder_start_token_id=EOS,
    ))


def train(model):
    """Trains on batches of sentences of equal length, so that nothing is padded."""
    draw = random.Random(5)
    optim = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(STEPS):
        n = draw.randint(1, 7)
        source = torch.tensor([
            draw_words(draw, n) + [EOS] for _ in range(BATCH)])
        target = torch.cat([source[:, :-1].flip(1), source[:, -1:]], 1)
        decoder = torch.cat([source[:, -1:], target[:, :-1]], 1)
        logits = model(input_ids=source, decoder_input_ids=decoder).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, VOCAB), target.reshape(-1))
        optim.zero_grad()
        loss.backward()
        optim.step()
    return model.eval()


# ---- Searches ----------------------------------------------------------------


def literal(model, o, source, max_tokens):
    ids = torch.tensor([source])
    with torch.no_grad():
        memory = model.model.encoder(input_ids=ids)

        def next_logits(tokens):
            out = model(encoder_outputs=memory,
                        attention_mask=torch.ones_like(ids),
                        decoder_input_ids=torch.tensor([[EOS] + tokens]))
            return out.logits[0, -1].tolist()

        return search(o, next_logits, max_tokens)


def by_transformers(model, o, source, max_tokens):
    ids = torch.tensor([source])
    many = {} if o["beams"] == 1 else {
        "length_penalty": o["length_penalty"],
        "early_stopping": STOPS[o["stop"]],
    }
    out = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False,
        num_beams=o["beams"], max_new_tokens=max_tokens,
        forced_bos_token_id=o["forced_bos"] if o["forced_bos"] >= 0 else None,
        **many)
    return out[0, 1:].tolist()


def draw_options(draw, rule, beams):
    fairseq = rule == "fairseq"
    return {
        "rule": rule,
        "stop": "no_gain" if fairseq else draw.choice(list(STOPS)),
        "beams": beams,
        "length_penalty": draw.choice([1.0, 0.6, 0.0, 2.0]),
        "min_tokens": 1 if fairseq else 0,
        "eos": [EOS],
        "pad": PAD if fairseq else -1,
        "unk": -1,
        "unk_penalty": 0.0,
        "forced_bos": draw.choice([-1, -1, 7]),
    }


def write_group(out, model, draw, o, shortest, longest, max_tokens):
    n = 0
    while n < PER_GROUP:
        source = draw_words(draw, draw.randint(shortest, longest)) + [EOS]
        results, margin = literal(model, o, source, max_tokens)
        if margin <= MARGIN:
            continue
        ids = results[0][1]
        if o["rule"] == "hf":
            assert by_transformers(model, o, source, max_tokens) == ids, (o, ids)
        print(o["rule"], o["stop"], o["beams"], o["length_penalty"], max_tokens,
              o["forced_bos"], ",".join(map(str, source)),
              " ".join(map(str, ids)), sep="|", file=out)
        n += 1


def main():
    torch.set_num_threads(1)
    model = train(make_model())
    shutil.rmtree(FOLDER, ignore_errors=True)
    model.save_pretrained(FOLDER)
    model = M2M100ForConditionalGeneration.from_pretrained(FOLDER).eval()
    draw = random.Random(11)
    with open(os.path.join(HERE, "translate.txt"), "w", newline="\n") as out:
        for beams in (1, 4, 5) * 4:
            for rule in ("hf", "fairseq"):
                o = draw_options(draw, rule, beams)
                write_group(out, model, draw, o, 1, 9, draw.choice([4, 8, 14]))
        # Longer than 32, the length of the shortest program.
        o = draw_options(draw, "hf", 1)
        write_group(out, model, draw, o, 20, 40, 50)


if __name__ == "__main__":
    main()
