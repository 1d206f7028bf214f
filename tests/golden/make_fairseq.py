"""Writes sentence pairs in the format of fairseq-preprocess, and their batches.

    python tests/golden/make_fairseq.py       (needs numpy)

fairseq/mmap/, fairseq/legacy/     the same pairs with both kinds of index
fairseq/m<multiple>.idx .bin       two epochs of batches for both splits: the
                                   arrays of all batches in order, each with the
                                   shape of its bucket

Batches follow fairseq's batch_by_size_slow and collate (LanguagePairDataset), but
their shapes are those of buckets instead of the longest pair; see by_length.h.
"""

import os

import numpy as np

import make_tokens
import sampler
from writer import GoldenWriter

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fairseq")
SEED, VOCAB, PAD, END = 7, 60, 1, 2
TOKENS, LENGTHS = 160, (4, 8, 12, 16)
BUCKETS = [(TOKENS // n, n) for n in LENGTHS]
EPOCHS = 2


def make_pairs(rng, n):
    """Makes pairs of ids from 4 on with </s> at the end; some fit no bucket."""
    out = []
    for _ in range(n):
        n_src = int(rng.integers(0, 18))
        n_tgt = int(np.clip(n_src + rng.integers(-3, 4), 0, 18))
        ids = lambda k: np.append(rng.integers(4, VOCAB, k), END)
        out.append((ids(n_src), ids(n_tgt)))
    return out


def bucket_of(src, tgt):
    for b, (_, length) in enumerate(BUCKETS):
        if max(src, tgt) <= length:
            return b
    return None


def make_batches(pairs, numbers, multiple):
    fit = [i for i in numbers if bucket_of(*map(len, pairs[i])) is not None]
    order = [fit[sampler.permute(SEED, 0, len(fit), i)] for i in range(len(fit))]
    order.sort(key=lambda i: len(pairs[i][1]))
    order.sort(key=lambda i: len(pairs[i][0]))

    def need(batch):
        return bucket_of(
            max(len(pairs[i][0]) for i in batch), max(len(pairs[i][1]) for i in batch)
        )

    batches, batch = [], []
    for i in order:
        while batch and len(batch) + 1 > BUCKETS[need(batch + [i])][0]:
            n = len(batch)
            kept = max(multiple * (n // multiple), n % multiple)
            batches.append(batch[:kept])
            batch = batch[kept:]
        batch.append(i)
    if batch:
        batches.append(batch)
    return [(need(b), sorted(b, key=lambda i: -len(pairs[i][0]))) for b in batches]


def collate(pairs, bucket, batch):
    rows, length = BUCKETS[bucket]
    tokens = np.full((rows, length), PAD)
    mask = np.zeros((rows, length), int)
    target = np.full((rows, length), PAD)
    labels = np.full((rows, length), -1)
    for k, i in enumerate(batch):
        src, tgt = pairs[i]
        tokens[k, length - len(src) :] = src
        mask[k, length - len(src) :] = 1
        target[k, : len(tgt)] = np.append([END], tgt[:-1])
        labels[k, : len(tgt)] = tgt
    return tokens, mask, target, labels


def expect(name, splits, multiple):
    with GoldenWriter(os.path.join(HERE, name)) as out:
        for split, pairs in splits.items():
            batches = make_batches(pairs, range(len(pairs)), multiple)
            arrays, buckets, rows = ([], [], [], []), [], []
            for epoch in range(EPOCHS):
                for j in range(len(batches)):
                    bucket, batch = batches[sampler.permute(SEED, epoch, len(batches), j)]
                    for array, part in zip(arrays, collate(pairs, bucket, batch)):
                        array.append(part.ravel())
                    buckets.append(bucket)
                    rows.append(len(batch))
            for role, array in zip(("tokens", "mask", "target", "labels"), arrays):
                out.add(f"{split}.{role}", np.concatenate(array))
            out.add(f"{split}.bucket", np.array(buckets))
            out.add(f"{split}.rows", np.array(rows))


def main():
    rng = np.random.default_rng(5)
    make_tokens.HERE = HERE
    parts = {"train": make_pairs(rng, 211), "train1": make_pairs(rng, 90)}
    valid = make_pairs(rng, 40)
    for folder, write in (
        ("mmap", lambda p, s: make_tokens.fairseq(p, s, 8, "<u2")),
        ("legacy", make_tokens.legacy),
    ):
        for split, pairs in {**parts, "valid": valid}.items():
            for side, lang in enumerate(("de", "en")):
                write(f"{folder}/{split}.de-en.{lang}", [p[side] for p in pairs])
        for lang in "de", "en":
            lines = [f"{lang}{i} {1000 - i}\n" for i in range(VOCAB - 8)]
            lines += [f"madeupword{i:04d} 0\n" for i in range(4)]
            make_tokens.put(f"{folder}/dict.{lang}.txt", "".join(lines).encode())
    splits = {"train": parts["train"] + parts["train1"], "eval": valid}
    for multiple in 16, 3:
        expect(f"m{multiple}", splits, multiple)


if __name__ == "__main__":
    main()
