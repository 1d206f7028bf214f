#!/usr/bin/env python3
"""Checks shards of `vpipe data bert` with h5py, without code of vpipe.

    python3 tests/golden/check_shards.py vocab.txt SHARD.hdf5...   (needs h5py)

Data sets have the names and types of NVIDIA's, rows are [CLS] A [SEP] B [SEP]
and padding, masked positions ascend and are those of text tokens, of which 80 %
are replaced by [MASK] and 10 % kept, and the second part is random in about half
of the rows or more.
"""
import sys

import h5py
import numpy as np

TYPES = {
    "input_ids": "int32",
    "input_mask": "int8",
    "segment_ids": "int8",
    "masked_lm_positions": "int32",
    "masked_lm_ids": "int32",
    "next_sentence_labels": "int8",
}


def check_row(ids, mask, types, positions, special):
    n = int(mask.sum())
    assert (mask[:n] == 1).all() and (ids[n:] == special["[PAD]"]).all()
    assert ids[0] == special["[CLS]"] and ids[n - 1] == special["[SEP]"]
    first = int(np.argmax(types))
    assert (types[:first] == 0).all() and (types[first:n] == 1).all()
    assert (types[n:] == 0).all() and ids[first - 1] == special["[SEP]"]
    k = int((positions > 0).sum())
    assert k > 0 and (positions[k:] == 0).all()
    assert (np.diff(positions[:k]) > 0).all() and positions[k - 1] < n - 1
    assert first - 1 not in positions[:k]


def check(path, special):
    with h5py.File(path) as file:
        assert {k: str(file[k].dtype) for k in file} == TYPES
        data = {k: file[k][:] for k in file}
    for row in zip(data["input_ids"], data["input_mask"], data["segment_ids"],
                   data["masked_lm_positions"]):
        check_row(*row, special)
    positions = data["masked_lm_positions"]
    shown = np.take_along_axis(data["input_ids"], positions, 1)[positions > 0]
    was = data["masked_lm_ids"][positions > 0]
    print(f"{path}: {len(positions)} rows,"
          f" {(shown == special['[MASK]']).mean():.3f} hidden,"
          f" {(shown == was).mean():.3f} kept,"
          f" {data['next_sentence_labels'].mean():.3f} random")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        words = [line.rstrip() for line in file]
    special = {w: words.index(w) for w in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")}
    for path in sys.argv[2:]:
        check(path, special)


if __name__ == "__main__":
    main()
