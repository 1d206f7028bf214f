#!/usr/bin/env python3
"""Writes sentences/: an indexed file of Megatron-LM with one sequence for each
sentence, and what samples of 32 tokens must hold, worked out here on its own.

    python3 tests/golden/make_sentences.py

train.idx, train.bin   37 documents of 1 to 12 sentences of 0 to 60 tokens; ids
                       are 10, 11, ..., each once
expected.bin           int32: for each sample its number of tokens, then the
                       tokens, without special ones
"""
import os
import struct

import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sentences")
ROOM = 32 - 3


def make_documents():
    rng = np.random.default_rng(5)
    next_id = 10
    documents = []
    for d in range(37):
        sentences = []
        for _ in range(1 + d % 12):
            n = int(rng.integers(0, 61)) if rng.random() < 0.2 else int(
                rng.integers(1, 14))
            sentences.append(list(range(next_id, next_id + n)))
            next_id += n
        documents.append(sentences)
    documents[5] = [[next_id]]  # one token makes no sample
    return documents


def write_megatron(documents):
    sizes = [len(s) for d in documents for s in d]
    starts = np.cumsum([0] + [len(d) for d in documents])
    pointers = np.cumsum([0] + sizes[:-1]) * 2
    with open(os.path.join(HERE, "train.idx"), "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8))
        out.write(struct.pack("<QQ", len(sizes), len(starts)))
        out.write(np.array(sizes, "<i4").tobytes())
        out.write(np.array(pointers, "<i8").tobytes())
        out.write(np.array(starts, "<i8").tobytes())
    with open(os.path.join(HERE, "train.bin"), "wb") as out:
        for d in documents:
            for s in d:
                out.write(np.array(s, "<u2").tobytes())


def pack(documents):
    """Sentences fill a sample while they fit; a longer one is cut."""
    samples = []
    for d in documents:
        current = []
        todo = [list(s) for s in d]
        while todo:
            s = todo.pop(0)
            if len(current) + len(s) <= ROOM:
                current += s
                if len(current) == ROOM:
                    samples.append(current)
                    current = []
            elif current:
                samples.append(current)
                current = []
                todo.insert(0, s)
            else:
                samples.append(s[:ROOM])
                todo.insert(0, s[ROOM:])
        samples.append(current)
    return [s for s in samples if len(s) >= 2]


def main():
    os.makedirs(HERE, exist_ok=True)
    documents = make_documents()
    write_megatron(documents)
    with open(os.path.join(HERE, "expected.bin"), "wb") as out:
        for sample in pack(documents):
            out.write(np.array([len(sample)] + sample, "<i4").tobytes())


if __name__ == "__main__":
    main()
