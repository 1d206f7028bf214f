"""Writes the HDF5 shards that test_hdf5.c reads, and their samples.

    python tests/golden/make_hdf5.py        (needs h5py and numpy)

hdf5/<folder>/*.hdf5   shards in the layout of NVIDIA's BERT data preparation
hdf5/<folder>.idx .bin the same samples as plain arrays, shards in order of
                       names; labels as in the data set class of the original
                       vPipe: a vector of -1, set at the masked positions
hdf5/bad/*.h5          shards with one mistake each

Made with h5py 3.16, which writes the same bytes in every run.
"""

import os

import h5py
import numpy as np

from writer import GoldenWriter

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hdf5")
SEQ, PRED, VOCAB = 16, 4, 200
CLS, SEP, MASK = 101, 102, 103


def make_samples(rng, n, seq=SEQ, pred=PRED):
    """Makes distinct rows: two segments, some padding, up to `pred` masked tokens."""
    ids = np.zeros((n, seq), np.int64)
    mask = np.zeros((n, seq), np.int64)
    types = np.zeros((n, seq), np.int64)
    positions = np.zeros((n, pred), np.int64)
    labels = np.zeros((n, pred), np.int64)
    for i in range(n):
        length = int(rng.integers(seq * 3 // 4, seq + 1))
        half = int(rng.integers(2, length - 2))
        ids[i, :length] = rng.integers(0, VOCAB, length)
        ids[i, 0] = CLS
        ids[i, half] = ids[i, length - 1] = SEP
        mask[i, :length] = 1
        types[i, half + 1 : length] = 1
        # Mostly `pred` labels, sometimes fewer, none, or not in ascending order.
        k = int(rng.choice([0, 1, 2, pred - 1, pred, pred, pred, pred]))
        where = 1 + rng.permutation(length - 1)[:k]
        if rng.random() < 0.8:
            where.sort()
        positions[i, :k] = where
        labels[i, :k] = ids[i, where]
        # Positions and labels after the first 0 are ignored.
        if k + 1 < pred and rng.random() < 0.5:
            positions[i, k + 1 :] = rng.integers(0, seq, pred - k - 1)
            labels[i, k:] = rng.integers(0, VOCAB, pred - k)
        ids[i, where] = np.where(rng.random(k) < 0.8, MASK, ids[i, where])
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": types,
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "next_sentence_labels": rng.integers(0, 2, n),
    }


def original_labels(samples):
    """Returns the labels by the rule of pretraining_dataset in the original vPipe."""
    n, seq = samples["input_ids"].shape
    out = np.full((n, seq), -1, np.int64)
    for i in range(n):
        positions = samples["masked_lm_positions"][i]
        index = len(positions)
        zeros = np.nonzero(positions == 0)[0]
        if len(zeros) != 0:
            index = zeros[0]
        out[i, positions[:index]] = samples["masked_lm_ids"][i][:index]
    return out


# NVIDIA's types: i4 for ids and positions, i1 for the rest.
NVIDIA = {
    "input_ids": "i4",
    "input_mask": "i1",
    "segment_ids": "i1",
    "masked_lm_positions": "i4",
    "masked_lm_ids": "i4",
    "next_sentence_labels": "i1",
}


def open_file(path, mode, libver):
    """Opens a file; libver "v110" etc. is the lowest and the highest format version."""
    highest = "latest" if libver == "earliest" else libver
    return h5py.File(path, mode, libver=(libver, highest))


def write_shard(path, samples, dtypes=None, libver="earliest", options=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open_file(path, "w", libver) as file:
        for name, array in samples.items():
            dtype = (dtypes or NVIDIA).get(name, "i4")
            more = options(name, array) if options else {}
            file.create_dataset(name, data=array, dtype=dtype, **more)


def write_golden(folder, shards):
    whole = {
        name: np.concatenate([shard[name] for shard in shards])
        for name in shards[0]
    }
    with GoldenWriter(os.path.join(HERE, folder)) as out:
        for name, array in whole.items():
            if name in ("input_ids", "input_mask", "segment_ids"):
                out.add(name, array)
        out.add("labels", original_labels(whole))
        out.add("rows", np.array([len(s["input_ids"]) for s in shards]))


def gzip(name, array):
    return {"compression": "gzip"}


def write_good(rng):
    # Shards as NVIDIA writes them, with shards for evaluation.
    samples = make_samples(rng, 70)
    test = make_samples(rng, 13)
    write_shard(f"{HERE}/nvidia/books_training_0.hdf5", samples, options=gzip)
    write_shard(f"{HERE}/nvidia/books_test_0.hdf5", test, options=gzip)
    write_golden("nvidia", [samples])
    write_golden("nvidia_test", [test])

    # Plain arrays in three shards of different sizes, one with a single row.
    shards = [make_samples(rng, n) for n in (37, 1, 65)]
    for i, shard in enumerate(shards):
        write_shard(f"{HERE}/plain/x_training_{i}.h5", shard)
    write_golden("plain", shards)

    # Shards with everything else that is legal: small chunks over rows
    # and columns, every filter, every width, sign and byte order, the newer
    # file formats, data sets that can grow, attributes.
    def chunked(name, array):
        chunks = (8, 2) if array.ndim == 2 else (8,)
        many = {
            "input_ids": {"compression": "gzip", "shuffle": True},
            "input_mask": {"shuffle": True},
            "segment_ids": {"fletcher32": True},
            "masked_lm_positions": {
                "compression": "gzip",
                "shuffle": True,
                "fletcher32": True,
            },
            "masked_lm_ids": {"maxshape": (None, None)},
        }
        return {"chunks": chunks, **many.get(name, {})}

    wide = {
        "input_ids": ">i4",
        "input_mask": "u1",
        "segment_ids": "<u8",
        "masked_lm_positions": "<u2",
        "masked_lm_ids": ">i8",
    }
    shards = [make_samples(rng, n) for n in (43, 22, 17, 31)]
    files = [
        ("a", "earliest", wide, chunked),
        ("b", "v110", wide, chunked),
        ("c", "v108", NVIDIA, chunked),
        ("d", "v110", NVIDIA, gzip),
    ]
    for shard, (name, libver, dtypes, options) in zip(shards, files):
        path = f"{HERE}/mixed/{name}_training.hdf5"
        write_shard(path, shard, dtypes, libver, options)
        with open_file(path, "r+", libver) as file:
            file.attrs["made_by"] = "make_hdf5.py"
            file["input_ids"].attrs["what"] = np.arange(5)
            file["input_ids"].attrs["unit"] = "token"
    write_golden("mixed", shards)

    # Small chunks of a long data set, which need a tree of two levels.
    samples = make_samples(rng, 270, 8, 2)
    write_shard(f"{HERE}/deep/training.h5", samples,
                options=lambda name, array: {"chunks": (4,) + array.shape[1:]})
    write_golden("deep", [samples])


def put(row, column, value):
    def change(array):
        array[row, column] = value
        return array

    return change


def put_row(row, values):
    def change(array):
        array[row] = values
        return array

    return change


def write_wrong_shapes(bad):
    for name in NVIDIA:
        bad(f"no_{name}", **{name: None})
    bad("no_input_mask_v110", "v110", input_mask=None)
    bad("future", "latest", options=gzip)
    for libver in ("earliest", "v110"):
        floats = {**NVIDIA, "segment_ids": "f4"}
        bad(f"float_{libver}", libver, floats)
        bad(f"flat_{libver}", libver, input_mask=lambda a: a[:, 0])
        bad(f"deep_{libver}", libver, input_ids=lambda a: a[:, :, None])
        bad(f"rows_{libver}", libver, masked_lm_ids=lambda a: a[:-1])
        lzf = lambda name, array: {"compression": "lzf"}
        bad(f"lzf_{libver}", libver, options=lzf)
    bad("columns", segment_ids=lambda a: a[:, :-1])
    bad("labels", masked_lm_ids=lambda a: a[:, :-1])
    bad("empty", **{name: lambda a: a[:0] for name in NVIDIA})
    bad("empty_chunks", options=gzip_growing,
        **{name: lambda a: a[:0] for name in NVIDIA})
    bad("no_labels", masked_lm_ids=lambda a: a[:, :0],
        masked_lm_positions=lambda a: a[:, :0])
    bad("long", **{
        name: lambda a: np.repeat(a, 2, axis=1)
        for name in ("input_ids", "input_mask", "segment_ids")
    })


def write_wrong_values(bad):
    wide = {**NVIDIA, "input_ids": "i8"}
    full = lambda a: np.tile(np.arange(1, PRED + 1), (len(a), 1))
    bad("id_high", input_ids=put(7, 3, VOCAB))
    bad("id_low", input_ids=put(0, 15, -1))
    bad("id_huge", dtypes=wide, input_ids=put(11, 0, 2**40))
    bad("mask_2", input_mask=put(4, 5, 2))
    bad("type_2", segment_ids=put(5, 6, 2))
    bad("position_high", masked_lm_positions=put(2, 0, SEQ))
    bad("position_low", masked_lm_positions=put(2, 0, -3))
    bad("position_twice", masked_lm_positions=put_row(9, (5, 7, 5, 0)))
    bad("label_high", masked_lm_positions=full, masked_lm_ids=put(3, 2, 255))
    bad("label_low", masked_lm_positions=full, masked_lm_ids=put(3, 2, -7))


def gzip_growing(name, array):
    shape = array.shape[1:]
    return {
        "chunks": (64,) + shape,
        "maxshape": (None,) + shape,
        "compression": "gzip",
    }


def write_odd_storage(bad, rng):
    """Writes legal HDF5 that vpipe refuses: links, other files, unfinished data."""
    bad("growing", options=gzip_growing)
    for kind in ("virtual", "external", "soft", "compound", "unfinished"):
        libver = "v110" if kind == "virtual" else "earliest"
        bad(kind, libver, input_ids=None)
        ids = make_samples(rng, 12)["input_ids"]
        with open_file(f"{HERE}/bad/{kind}.h5", "r+", libver) as file:
            if kind == "virtual":
                layout = h5py.VirtualLayout(ids.shape, "i4")
                layout[:] = h5py.VirtualSource("id_high.h5", "input_ids",
                                               ids.shape)
                file.create_virtual_dataset("input_ids", layout)
            elif kind == "external":
                file.create_dataset("input_ids", ids.shape, "i4",
                                    external=[("other", 0, 4 * ids.size)])
            elif kind == "soft":
                file.create_dataset("real", data=ids)
                file["input_ids"] = h5py.SoftLink("/real")
            elif kind == "compound":
                pair = np.dtype([("a", "i4"), ("b", "i4")])
                file.create_dataset("input_ids", ids.shape, pair)
            else:
                data = file.create_dataset("input_ids", ids.shape, "i4",
                                           chunks=(3, SEQ))
                data[:9] = ids[:9]


def write_bad(rng):
    def bad(name, libver="earliest", dtypes=None, options=None, **changes):
        samples = make_samples(rng, 12)
        for key, change in changes.items():
            if change is None:
                del samples[key]
            else:
                samples[key] = change(samples[key])
        write_shard(f"{HERE}/bad/{name}.h5", samples, dtypes, libver, options)

    write_wrong_shapes(bad)
    write_wrong_values(bad)
    write_odd_storage(bad, rng)


if __name__ == "__main__":
    write_good(np.random.default_rng(5))
    write_bad(np.random.default_rng(6))
