"""Writes sentence pairs as text, and their batches, with bytes as tokens.

    python tests/golden/make_parallel.py      (needs numpy)

parallel/two/ names/ tsv/ json/ flat/    the same pairs in five formats
parallel_batches.idx .bin                two epochs of batches
"""

import gzip
import json
import os

import numpy as np

import make_fairseq
import sampler
from writer import GoldenWriter

HERE = os.path.dirname(os.path.abspath(__file__))
PAD, BEGIN, END, FIRST = 0, 1, 2, 4
LENGTHS = (10, 20, 30, 40)
BUCKETS = [(320 // n, n) for n in LENGTHS]
WORDS = "Haus Baum ä 日本 und \"x\" \\ the of house tree 😀 a".split()


def put(name, text, compress=False):
    path = os.path.join(HERE, "parallel", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        data = text.encode()
        file.write(gzip.compress(data, mtime=0) if compress else data)


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(int(rng.integers(1, 8))))


def write(split, pairs):
    lines = lambda side, end: "".join(p[side] + end for p in pairs)
    put(f"two/{split}.de", lines(0, "\n"))
    put(f"two/{split}.en.gz", lines(1, "\r\n"), True)
    put(f"names/{split}.de-en.de", lines(0, "\n"))
    put(f"names/{split}.de-en.en", lines(1, "\n"))
    put(f"tsv/{split}.tsv", "".join(f"{a}\t{b}\n" for a, b in pairs))
    dump = lambda o, i: json.dumps(o, ensure_ascii=i % 2 == 0) + "\n"
    put(
        f"json/{split}.jsonl",
        "".join(dump({"id": i, "translation": {"en": b, "de": a}}, i) for i, (a, b) in enumerate(pairs)),
    )
    put(f"flat/{split}.jsonl", "".join(dump({"de": a, "x": 1, "en": b}, i) for i, (a, b) in enumerate(pairs)))


def ids(text):
    return np.append(np.frombuffer(text.encode(), np.uint8).astype(int) + FIRST, END)


def collate(pairs, bucket, batch):
    rows, length = BUCKETS[bucket]
    tokens = np.full((rows, length), PAD)
    mask = np.zeros((rows, length), int)
    target = np.full((rows, length), PAD)
    labels = np.full((rows, length), -1)
    for k, i in enumerate(batch):
        src, tgt = pairs[i]
        tokens[k, : len(src)] = src
        mask[k, : len(src)] = 1
        target[k, : len(tgt)] = np.append([BEGIN], tgt[:-1])
        labels[k, : len(tgt)] = tgt
    return tokens, mask, target, labels


def main():
    rng = np.random.default_rng(8)
    splits = {s: [(sentence(rng), sentence(rng)) for _ in range(n)] for s, n in (("train", 90), ("valid", 21))}
    splits["train"][7] = ("", "nothing")
    splits["train"][8] = ("nichts", "")
    make_fairseq.BUCKETS = BUCKETS
    make_fairseq.HERE = HERE
    make_fairseq.collate = collate
    for split, pairs in splits.items():
        write(split, pairs)
    as_ids = {
        name: [(ids(a), ids(b)) for a, b in splits[split] if a and b]
        for name, split in (("train", "train"), ("eval", "valid"))
    }
    make_fairseq.expect("parallel_batches", as_ids, 16)


if __name__ == "__main__":
    main()
