"""libvpipe through ctypes: generation and evaluation with trained models."""

import ctypes
import ctypes.util
import os

import numpy

from .error import Error

_ABI = "0.1"


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 2044)]


class _Sampling(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("temperature", ctypes.c_double),
        ("top_p", ctypes.c_double),
        ("repetition_penalty", ctypes.c_double),
        ("top_k", ctypes.c_int32),
        ("end_id", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
    ]


class _Score(ctypes.Structure):
    _fields_ = [
        ("loss", ctypes.c_double),
        ("accuracy", ctypes.c_double),
        ("n_labels", ctypes.c_double),
    ]


_loaded = None


def _library():
    """Loads libvpipe.so once: the file named by VPIPE_LIBRARY, or the one in the
    library path of the system."""
    global _loaded
    if _loaded is not None:
        return _loaded
    name = os.environ.get("VPIPE_LIBRARY") or f"libvpipe.so.{_ABI}"
    try:
        library = ctypes.CDLL(name)
    except OSError as reason:
        raise Error(
            f"{reason}; install libvpipe, or name its file in VPIPE_LIBRARY"
        ) from None
    library.vpipe_version.restype = ctypes.c_char_p
    version = library.vpipe_version().decode()
    if not version.startswith(_ABI + "."):
        raise Error(f"{name}: is version {version}, but this package needs {_ABI}")
    library.vpipe_model_config.restype = ctypes.c_char_p
    _loaded = library
    return library


def library_version():
    """Returns the version of libvpipe, such as "0.1.0"."""
    return _library().vpipe_version().decode()


def _check(status, error):
    if status != 0:
        raise Error(error.message.decode("utf-8", "replace"))


def _fit(ids):
    return ids.size > 0 and ids.min() >= 0 and ids.max() < 2**31


def _ids(prompt):
    """Converts a prompt to an array of int32, or raises Error."""
    try:
        ids = numpy.array(prompt)
    except ValueError:  # lists of different lengths
        ids = numpy.array(None)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not _fit(ids):
        raise Error("generate: the prompt must be a list of ids, such as [5, 6]")
    return ids.astype(numpy.int32)


class Model:
    """A trained model: a run, a checkpoint or a Hugging Face folder. Other
    arguments are keys that control how it is run: Model("runs/a", stages=2)."""

    def __init__(self, path, **keys):
        self._handle = ctypes.c_void_p()
        self._library = _library()
        error = _Error()
        _check(
            self._library.vpipe_model_open(
                os.fsencode(path), ctypes.byref(self._handle), ctypes.byref(error)
            ),
            error,
        )
        for key, value in keys.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            _check(
                self._library.vpipe_model_set(
                    self._handle, key.encode(), text.encode(), ctypes.byref(error)
                ),
                error,
            )

    def generate(
        self,
        prompt,
        n_new=20,
        temperature=0.0,
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        end_id=None,
        seed=0,
    ):
        """Returns up to `n_new` ids that continue the ids of `prompt`."""
        ids = _ids(prompt)
        if n_new < 1:
            raise Error(f"generate: {n_new} new ids; ask for 1 or more")
        out = numpy.empty(n_new, dtype=numpy.int32)
        n_out = ctypes.c_size_t()
        error = _Error()
        sampling = _Sampling(
            ctypes.sizeof(_Sampling),
            temperature,
            top_p,
            repetition_penalty,
            top_k,
            -1 if end_id is None else end_id,
            seed,
        )
        _check(
            self._library.vpipe_model_generate(
                self._handle,
                ids.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(len(ids)),
                ctypes.byref(sampling),
                ctypes.c_size_t(n_new),
                out.ctypes.data_as(ctypes.c_void_p),
                ctypes.byref(n_out),
                ctypes.byref(error),
            ),
            error,
        )
        return out[: n_out.value]

    def evaluate(self):
        """Returns loss, accuracy and n_labels for the held-out data."""
        score, error = _Score(), _Error()
        _check(
            self._library.vpipe_model_evaluate(
                self._handle, ctypes.byref(score), ctypes.byref(error)
            ),
            error,
        )
        return {name: getattr(score, name) for name, _ in _Score._fields_}

    def config(self):
        """Returns the configuration as YAML."""
        error = _Error()
        text = self._library.vpipe_model_config(self._handle, ctypes.byref(error))
        if text is None:
            raise Error(error.message.decode("utf-8", "replace"))
        return text.decode("utf-8", "replace")

    def close(self):
        if self._handle:
            self._library.vpipe_model_free(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()
