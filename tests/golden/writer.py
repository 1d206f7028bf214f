"""Writer of golden files: stored results of a reference that C tests read.

A golden file `name` is two files:
  name.idx  one text line per tensor: `tensor_name dtype rows cols offset`;
            dtype is f32 or i32, offset is in bytes into name.bin;
            tensor names have no blanks and at most 95 characters
  name.bin  the elements, little endian, row-major, no padding

A vector is stored as one row; more than two axes are folded into the rows.
tests/lib/golden.h reads the pair.
"""

import os

import numpy as np

_DTYPES = {"f32": np.dtype("<f4"), "i32": np.dtype("<i4")}


class GoldenWriter:
    """Collects tensors; `close` writes both files.

    with GoldenWriter(os.path.join(folder, "name")) as out:
        out.add("w", array)
    """

    def __init__(self, path):
        self.path = path
        self.lines = []
        self.chunks = []
        self.names = set()
        self.offset = 0

    def add(self, name, array):
        """Adds a tensor: integers become i32, everything else f32.

        Accepts what numpy.asarray accepts, and torch tensors.
        """
        if hasattr(array, "detach"):
            array = array.detach().cpu().numpy()
        array = np.asarray(array)
        if any(c.isspace() for c in name) or not 0 < len(name) < 96:
            raise ValueError(f"bad tensor name: {name!r}")
        if name in self.names:
            raise ValueError(f"tensor stored twice: {name}")
        dtype = "i32" if array.dtype.kind in "iub" else "f32"
        if dtype == "i32" and array.size and (
            array.min() < -(2**31) or array.max() >= 2**31
        ):
            raise ValueError(f"{name}: does not fit int32")
        cols = array.shape[-1] if array.ndim else 1
        rows = array.size // cols if cols else 0
        data = np.ascontiguousarray(array, dtype=_DTYPES[dtype]).tobytes()
        self.names.add(name)
        self.lines.append(f"{name} {dtype} {rows} {cols} {self.offset}\n")
        self.chunks.append(data)
        self.offset += len(data)

    def close(self):
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(self.path + ".bin", "wb") as file:
            file.write(b"".join(self.chunks))
        with open(self.path + ".idx", "w", newline="\n") as file:
            file.writelines(self.lines)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.close()
