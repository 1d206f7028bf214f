"""Writes CHID files in the format of CPM-1-Finetune, and their batches.

    python tests/golden/make_chid.py          (needs numpy)

chid/train.json, chid/dev.json   indented by 4, one number per line
chid_batches.idx .bin            two epochs of batches: tokens, labels, mask
"""

import json
import os

import numpy as np

import sampler
from writer import GoldenWriter

HERE = os.path.dirname(os.path.abspath(__file__))
SEED, BATCH, SEQ, VOCAB, PAD = 7, 4, 12, 300, 5


def make(rng, n):
    sent = lambda: rng.integers(0, VOCAB, int(rng.integers(2, SEQ + 2))).tolist()
    return [{"sent": sent(), "truth": int(rng.integers(0, 10))} for _ in range(n)]


def main():
    rng = np.random.default_rng(3)
    splits = {"train": make(rng, 45), "dev": make(rng, 7)}
    os.makedirs(os.path.join(HERE, "chid"), exist_ok=True)
    for name, data in splits.items():
        with open(os.path.join(HERE, "chid", name + ".json"), "w") as file:
            json.dump([list(range(20, 30)), data], file, indent=4)
    with GoldenWriter(os.path.join(HERE, "chid_batches")) as out:
        for split, data in ("train", splits["train"]), ("eval", splits["dev"]):
            tokens, labels, mask, rows = [], [], [], []
            for epoch in range(2):
                # Samples are shuffled, then the full batches, too.
                n = len(data)
                order = [sampler.permute(SEED ^ 1 << 40, epoch, n, i) for i in range(n)]
                full = n // BATCH
                batches = sampler.cut(order, BATCH)
                shuffled = [sampler.permute(SEED, epoch, full, j) for j in range(full)]
                for j in shuffled + list(range(full, len(batches))):
                    t = np.full((BATCH, SEQ), PAD)
                    y = np.full((BATCH, SEQ), -1)
                    m = np.zeros((BATCH, SEQ), int)
                    for k, i in enumerate(batches[j]):
                        sent = data[i]["sent"]
                        n_in = len(sent) - 1
                        t[k, :n_in] = sent[:-1]
                        y[k, n_in - 1] = sent[-1]
                        m[k, :n_in] = 1
                    tokens.append(t)
                    labels.append(y)
                    mask.append(m)
                    rows.append(len(batches[j]))
            out.add(split + ".tokens", np.concatenate(tokens))
            out.add(split + ".labels", np.concatenate(labels))
            out.add(split + ".mask", np.concatenate(mask))
            out.add(split + ".rows", np.array(rows))


if __name__ == "__main__":
    main()
