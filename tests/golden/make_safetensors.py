"""Writes types.safetensors with the Python package (made with 0.8.0): every
type that vpipe knows, odd names, empty tensors, a scalar, metadata.

Byte j of the tensor at place i of the list is (37 i + 11 j + 5) mod 256."""

import pathlib

import torch
from safetensors.torch import save_file

TENSORS = [
    ("weight", torch.float32, [3, 5]),
    ("bias", torch.float32, [7]),
    ("moment", torch.float64, [2, 2, 2]),
    ("half", torch.float16, [9]),
    ("brain", torch.bfloat16, [1, 5]),
    ("ids", torch.int32, [4]),
    ("steps", torch.int64, [3]),
    ("bits", torch.uint64, [2]),
    ("bytes", torch.uint8, [13]),
    ("scalar", torch.float32, []),
    ("empty", torch.float32, [0, 4]),
    ("alpha", torch.uint64, [1]),
    ('a "name" with \\ and \n and \x01', torch.float32, [2]),
    ("gr\u00f6\u00dfe/\u6a21\u578b", torch.float32, [1]),
    ("flags", torch.bool, [3]),
    ("small", torch.int8, [5]),
    ("short", torch.int16, [3]),
    ("unsigned short", torch.uint16, [2]),
    ("unsigned", torch.uint32, [2]),
]


def make(place, dtype, shape):
    count = 1
    for size in shape:
        count *= size
    n_bytes = count * dtype.itemsize
    data = bytearray((37 * place + 11 * j + 5) % 256 for j in range(n_bytes))
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)


here = pathlib.Path(__file__).parent
save_file(
    {name: make(i, dtype, shape) for i, (name, dtype, shape) in enumerate(TENSORS)},
    here / "types.safetensors",
    metadata={"format": "pt"},
)
