#!/usr/bin/env python3
"""Writes sentences/: an indexed file of Megatron-LM with one sequence for each
sentence, and the expected samples of 32 tokens, computed here independently.

    python3 tests/golden/make_sentences.py

train.idx, train.bin   37 documents of 1 to 12 sentences of 0 to 60 tokens; ids
                       are 10, 11, ..., each once
expected.bin           int32: for each sample its number of tokens, then the
                       tokens, without special ones
../packed_seeds/six    six documents for tests/fuzz/fuzz_packed.c: the length of
                       the index in two bytes, the index, the ids
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


def megatron(documents):
    sizes = [len(s) for d in documents for s in d]
    starts = np.cumsum([0] + [len(d) for d in documents])
    pointers = np.cumsum([0] + sizes[:-1]) * 2
    index = b"MMIDIDX\0\0" + struct.pack("<QB", 1, 8)
    index += struct.pack("<QQ", len(sizes), len(starts))
    index += np.array(sizes, "<i4").tobytes()
    index += np.array(pointers, "<i8").tobytes()
    index += np.array(starts, "<i8").tobytes()
    ids = [i for d in documents for s in d for i in s]
    return index, np.array(ids, "<u2").tobytes()


def put(name, *parts):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        for part in parts:
            out.write(part)


def pack(documents):
    """Packs sentences into samples while they fit; a longer sentence is cut."""
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
    documents = make_documents()
    index, ids = megatron(documents)
    put("train.idx", index)
    put("train.bin", ids)
    put("expected.bin", *[
        np.array([len(sample)] + sample, "<i4").tobytes()
        for sample in pack(documents)
    ])
    index, ids = megatron(documents[:6])
    put("../packed_seeds/six", struct.pack(">H", len(index)), index, ids)


if __name__ == "__main__":
    main()
