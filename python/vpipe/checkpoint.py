"""Checkpoints, Hugging Face folders and safetensors files as arrays. Reading them
executes no code: they consist of a JSON header and numbers of known types."""

import json
import os
import re
from collections.abc import Mapping

import numpy

from .error import Error

_MAX_HEADER = 100 * 1000 * 1000  # bytes, as the safetensors package
_MAX_DIMS = 8
_TYPES = {
    "BOOL": numpy.dtype("bool"),
    "U8": numpy.dtype("u1"),
    "I8": numpy.dtype("i1"),
    "I16": numpy.dtype("<i2"),
    "U16": numpy.dtype("<u2"),
    "F16": numpy.dtype("<f2"),
    "BF16": numpy.dtype("<u2"),  # becomes float32, see _expand()
    "I32": numpy.dtype("<i4"),
    "U32": numpy.dtype("<u4"),
    "F32": numpy.dtype("<f4"),
    "F64": numpy.dtype("<f8"),
    "I64": numpy.dtype("<i8"),
    "U64": numpy.dtype("<u8"),
}


def _expand(bits):
    """Converts BF16, the upper halves of float32, exactly to float32."""
    return (bits.astype("<u4") << 16).view("<f4")


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _unique(pairs):
    """Refuses duplicate keys, of which json would keep only the last."""
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key comes twice")
    return keys


class _File:
    """The header of one safetensors file, checked against its size."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as f:
                size = os.fstat(f.fileno()).st_size
                self.first, header = self._read_header(f, size)
        except OSError as reason:
            raise Error(f"{path}: {reason.strerror}") from None
        self.metadata = header.pop("__metadata__", {})
        if not isinstance(self.metadata, dict):
            raise Error(f"{path}: __metadata__ is no object")
        self.tensors = {
            name: self._check(name, entry, size - self.first)
            for name, entry in header.items()
        }
        self._check_cover(size - self.first)

    def _read_header(self, f, size):
        head = f.read(8)
        n = int.from_bytes(head, "little")
        if len(head) < 8 or n > min(_MAX_HEADER, size - 8):
            raise Error(
                f"{self.path}: is no safetensors file, or is cut off: a header "
                f"of {n} bytes in a file of {size}"
            )
        try:
            header = json.loads(f.read(n), object_pairs_hook=_unique)
        except (ValueError, RecursionError) as reason:
            raise Error(f"{self.path}: damaged header: {reason}") from None
        if not isinstance(header, dict):
            raise Error(f"{self.path}: damaged header: it is no object")
        return 8 + n, header

    def _check(self, name, entry, room):
        """Returns type, shape and offsets of a tensor."""
        where = f"{self.path}: tensor '{name[:100]}'"
        if not isinstance(entry, dict):
            raise Error(f"{where}: is no object")
        kind, shape = entry.get("dtype"), entry.get("shape")
        offsets = entry.get("data_offsets")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise Error(f"{where}: unknown type {str(kind)[:20]!r}")
        if (
            not isinstance(shape, list)
            or len(shape) > _MAX_DIMS
            or not all(map(_is_count, shape))
        ):
            raise Error(f"{where}: damaged shape")
        if (
            not isinstance(offsets, list)
            or len(offsets) != 2
            or not all(map(_is_count, offsets))
            or not offsets[0] <= offsets[1] <= room
        ):
            raise Error(f"{where}: data outside of the file, which is cut off")
        n_bytes = _TYPES[kind].itemsize
        for n in shape:
            n_bytes *= n
        if offsets[1] - offsets[0] != n_bytes:
            raise Error(
                f"{where}: {offsets[1] - offsets[0]} bytes of data for "
                f"{kind} {shape}, which has {n_bytes}"
            )
        return kind, tuple(shape), offsets[0]

    def _check_cover(self, room):
        """Checks that the tensors fill the file without gaps."""
        end = 0
        for name, (kind, shape, offset) in sorted(
            self.tensors.items(), key=lambda item: item[1][2]
        ):
            n = _TYPES[kind].itemsize * int(numpy.prod(shape, dtype=object))
            if offset != end and n > 0:
                raise Error(
                    f"{self.path}: tensor '{name[:100]}': data overlaps, or "
                    "has a gap before it"
                )
            end = max(end, offset + n)
        if end != room:
            raise Error(f"{self.path}: {room - end} bytes behind the tensors")

    def read(self, name):
        kind, shape, offset = self.tensors[name]
        count = int(numpy.prod(shape, dtype=object))
        try:
            with open(self.path, "rb") as f:
                f.seek(self.first + offset)
                array = numpy.fromfile(f, _TYPES[kind], count)
        except OSError as reason:
            raise Error(f"{self.path}: {reason.strerror}") from None
        if len(array) != count:
            raise Error(f"{self.path}: was cut off while it was read")
        if kind == "BF16":
            array = _expand(array)
        return array.reshape(shape)


def _read_json(path):
    try:
        with open(path, encoding="utf-8") as f:
            value = json.load(f)
    except OSError as reason:
        raise Error(f"{path}: {reason.strerror}") from None
    except (ValueError, RecursionError) as reason:
        raise Error(f"{path}: {reason}") from None
    if not isinstance(value, dict):
        raise Error(f"{path}: is no object")
    return value


def _newest(folder):
    """Returns the path of the checkpoint with the highest step."""
    steps = [
        int(name[5:])
        for name in os.listdir(folder)
        if re.fullmatch(r"step-[0-9]{1,18}", name)
    ]
    if not steps:
        raise Error(f"{folder}: holds no checkpoint")
    return os.path.join(folder, f"step-{max(steps)}")


class Checkpoint(Mapping):
    """A mapping from names to arrays, which are read on access:
    checkpoint["lm_head.weight"].

    path    a run (its newest checkpoint), a checkpoint, a Hugging Face folder or
            a safetensors file
    step    step of a checkpoint; None for other folders
    facts   entries of the manifest besides files; {} for other folders

    Weights have their Hugging Face names. A checkpoint also has entries such as
    "optimizer.moment1.<name>", which weights() leaves out. BF16 becomes float32.
    File sizes are checked against the manifest, headers against file sizes.
    """

    def __init__(self, path):
        path = os.fspath(path)
        self.step, self.facts = None, {}
        if os.path.isdir(os.path.join(path, "checkpoints")):
            path = _newest(os.path.join(path, "checkpoints"))
        if os.path.isfile(os.path.join(path, "manifest.json")):
            names = self._read_manifest(path)
        elif os.path.isdir(path):
            names = sorted(
                name for name in os.listdir(path) if name.endswith(".safetensors")
            )
            if not names and any(n.startswith("step-") for n in os.listdir(path)):
                self.__init__(_newest(path))
                return
        elif os.path.isfile(path):
            path, name = os.path.split(path)
            names = [name]
        else:
            raise Error(f"{path}: there is no such file or folder")
        if not names:
            raise Error(f"{path}: holds no safetensors files")
        self.path = path
        self._files = {}
        for name in names:
            file = _File(os.path.join(path, name))
            for tensor in file.tensors:
                if tensor in self._files:
                    raise Error(
                        f"{file.path}: tensor '{tensor[:100]}' is also in "
                        f"{self._files[tensor].path}"
                    )
                self._files[tensor] = file

    def _read_manifest(self, path):
        place = os.path.join(path, "manifest.json")
        manifest = _read_json(place)
        files = manifest.get("files")
        if manifest.get("format") != "vpipe checkpoint":
            raise Error(f"{place}: is no manifest of vpipe")
        if manifest.get("version") != 2:
            raise Error(f"{place}: unknown version {manifest.get('version')!r}")
        if not isinstance(files, list):
            raise Error(f"{place}: names no files")
        for entry in files:
            self._check_file(path, place, entry)
        self.step = manifest.get("step")
        self.facts = manifest.get("facts", {})
        return [entry["name"] for entry in files]

    @staticmethod
    def _check_file(path, place, entry):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
            raise Error(f"{place}: a damaged name of a file")
        try:
            size = os.path.getsize(os.path.join(path, name))
        except OSError as reason:
            raise Error(f"{path}/{name}: {reason.strerror}") from None
        if size != entry.get("bytes"):
            raise Error(
                f"{path}/{name}: has {size} bytes, but manifest.json says "
                f"{entry.get('bytes')}; the checkpoint is damaged"
            )

    def __getitem__(self, name):
        return self._files[name].read(name)

    def __iter__(self):
        return iter(self._files)

    def __len__(self):
        return len(self._files)

    def shape(self, name):
        """Returns the shape of an array without reading its data."""
        return self._files[name].tensors[name][1]

    def weights(self):
        """Returns the names of the weights, without those of the optimizer and of
        older weight versions."""
        return [
            name for name in self if not name.startswith(("optimizer.", "version."))
        ]

    def __repr__(self):
        return f"<vpipe.Checkpoint {self.path!r}: {len(self)} arrays>"
