"""Writes the token files that test_tokens.c reads, and their batches.

    python tests/golden/make_tokens.py        (needs numpy)

tokens/<folder>/    files as the programs of that name write them
tokens/<folder>.idx .bin
                    two epochs of batches for a causal model: tokens and labels
                    of all rows, 0 and -1 in rows that are padding; `rows` has the
                    number of samples of each batch

The layouts are those of karpathy/llm.c (dev/data/data_common.py), nanoGPT
(data/*/prepare.py), Megatron-LM (indexed_dataset.py) and fairseq
(indexed_dataset.py). The bytes are the same in every run.
"""

import os
import struct

import numpy as np

import sampler
from writer import GoldenWriter

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokens")
SEED, BATCH, SEQ = 7, 4, 8
BLOCK = (16 << 20) // (4 * SEQ) // 10 * 10
EPOCHS = 2


def put(path, *parts):
    path = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        for part in parts:
            file.write(part if isinstance(part, bytes) else part.tobytes())


def llmc(path, ids, magic=20240520, version=1, dtype="<u2"):
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(ids)
    put(path, header, ids.astype(dtype))


def megatron(path, documents, code, dtype, modes=False):
    """Writes an indexed file; `documents` are lists of sequences of ids."""
    sequences = [s for d in documents for s in d]
    sizes = np.array([len(s) for s in sequences], "<i4")
    item = np.dtype(dtype).itemsize
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)]) * item
    starts = np.cumsum([0] + [len(d) for d in documents])
    put(
        path + ".idx",
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sizes), len(starts)),
        sizes,
        pointers.astype("<i8"),
        starts.astype("<i8"),
        np.zeros(len(sizes) if modes else 0, np.int8),
    )
    put(path + ".bin", np.concatenate(sequences).astype(dtype))


def fairseq(path, sequences, code, dtype):
    sizes = np.array([len(s) for s in sequences], "<i4")
    item = np.dtype(dtype).itemsize
    pointers = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)]) * item
    put(
        path + ".idx",
        b"MMIDIDX\x00\x00" + struct.pack("<QBQ", 1, code, len(sizes)),
        sizes,
        pointers.astype("<i8"),
    )
    put(path + ".bin", np.concatenate(sequences).astype(dtype))


def legacy(path, sequences, code=4, dtype="<i4"):
    """Writes fairseq's old index: offsets in elements, ids stored plus 1."""
    sizes = np.array([len(s) for s in sequences], "<i8")
    n = len(sizes)
    put(
        path + ".idx",
        b"TNTIDX\x00\x00",
        struct.pack("<QQQQQ", 1, code, np.dtype(dtype).itemsize, n, n),
        np.arange(n + 1).astype("<i8"),
        np.concatenate([[0], np.cumsum(sizes)]).astype("<i8"),
        sizes,
    )
    put(path + ".bin", (np.concatenate(sequences) + 1).astype(dtype))


def windows(shards):
    """Returns windows of SEQ + 1 tokens that overlap by one, within each shard."""
    return [
        s[i : i + SEQ + 1]
        for s in shards
        for i in range(0, len(s) - SEQ, SEQ)
    ]


def expect(name, train, valid=None, epochs=EPOCHS):
    """Writes the batches of both splits; valid=None holds out every tenth window."""
    with GoldenWriter(os.path.join(HERE, name)) as out:
        for split in "train", "eval":
            rows = windows(train if valid is None or split == "train" else valid)
            run = BLOCK
            if valid is None:
                held = sampler.split_samples(len(rows), split)
                run = BLOCK // 10 * (9 if split == "train" else 1)
                rows = [rows[i] for i in held]
            tokens, labels, counts = [], [], []
            for epoch in range(epochs):
                order = sampler.order_in_runs(SEED, epoch, len(rows), run)
                for batch in sampler.cut(order, BATCH):
                    t = np.zeros((BATCH, SEQ), np.int64)
                    y = np.full((BATCH, SEQ), -1)
                    for k, i in enumerate(batch):
                        t[k], y[k] = rows[i][:-1], rows[i][1:]
                    tokens.append(t)
                    labels.append(y)
                    counts.append(len(batch))
            out.add(split + ".tokens", np.concatenate(tokens))
            out.add(split + ".labels", np.concatenate(labels))
            out.add(split + ".rows", np.array(counts))


def cut_documents(rng, ids, longest):
    out, i = [], 0
    while i < len(ids):
        n = int(rng.integers(1, longest + 1))
        out.append(ids[i : i + n])
        i += n
    return out


def main():
    rng = np.random.default_rng(11)
    ids = lambda n, vocab=50257: rng.integers(0, vocab, n)

    # llm.c: two shards for training, one for validation.
    a, b, v = ids(333), ids(200), ids(77)
    a[5], a[6] = 50256, 0
    llmc("llmc/tiny_val_000000.bin", v)
    llmc("llmc/tiny_train_000001.bin", a)
    llmc("llmc/tiny_train_000002.bin", b)
    expect("llmc", [a, b], [v])

    # llm.c for Llama-3, one file: every tenth window is held out.
    a = ids(401, 128256)
    llmc("llama3/all.bin", a, 20240801, 7, "<u4")
    expect("llama3", [a])

    # nanoGPT; meta.pkl must not be opened.
    a, v = ids(300, 65), ids(50, 65)
    put("nanogpt/train.bin", a.astype("<u2"))
    put("nanogpt/val.bin", v.astype("<u2"))
    put("nanogpt/meta.pkl", b"\x80\x04\x95")
    expect("nanogpt", [a], [v])

    # Megatron-LM: documents of one or more sequences.
    sequences = cut_documents(rng, ids(500), 12)
    documents = cut_documents(rng, np.arange(len(sequences)), 3)
    documents = [[sequences[i] for i in d] for d in documents]
    megatron("megatron/my_text_document", documents, 8, "<u2")
    flat = np.concatenate(sequences)
    expect("megatron", [flat])
    # The same with an end token after every document.
    ended = [np.append(np.concatenate(d), 50256) for d in documents]
    expect("megatron_ends", [np.concatenate(ended)])
    # A large vocabulary, and a column of modes.
    wide = [[np.array([70000, 5, 6])], [ids(90, 100000)], [ids(30, 100000)]]
    megatron("megatron_wide/x", wide, 4, "<i4", modes=True)
    expect("megatron_wide", [np.concatenate([s for d in wide for s in d])])

    # fairseq without a second language: old and new index.
    sequences = [np.append(s, 2) for s in cut_documents(rng, ids(400, 300) + 4, 20)]
    valid = [np.append(s, 2) for s in cut_documents(rng, ids(60, 300) + 4, 20)]
    for name, write in ("fairseq", lambda p, s: fairseq(p, s, 8, "<u2")), ("legacy", legacy):
        write(f"{name}/train", sequences)
        write(f"{name}/valid", valid)
        put(f"{name}/dict.txt", b"".join(b"w%d 1\n" % i for i in range(300)))
        expect(name, [np.concatenate(sequences)], [np.concatenate(valid)])
    write_seeds()


def write_seeds():
    """Writes seed inputs of fuzz_tokens.c: kind, length of the index, index, ids."""
    for number, (kind, name, indexed) in enumerate(
        [
            (2, "llmc/tiny_val_000000", False),
            (3, "nanogpt/val", False),
            (0, "megatron_wide/x", True),
            (1, "megatron/my_text_document", True),
            (0, "fairseq/valid", True),
            (1, "legacy/valid", True),
        ]
    ):
        read = lambda end: open(os.path.join(HERE, name + end), "rb").read()
        index = read(".idx") if indexed else b""
        put(f"seeds/{number}", bytes([kind, len(index) >> 8, len(index) & 255]), index, read(".bin"))


if __name__ == "__main__":
    main()
