"""The folder of a run: metrics as arrays, configuration and plan."""

import json
import os

import numpy

from .error import Error

_LINE_BYTES = 64 * 1024  # longer lines are skipped, as in the program


def read_record(line):
    """Returns the record in one line of metrics.jsonl, or None if the line is no
    record: the last line may be incomplete while a run writes it."""
    if len(line) > _LINE_BYTES:
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not _is_number(record.get("step")):
        return None
    return record


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value):
    """Returns a value of a record as float; NaN if it is missing. For a list, such
    as grad_norm per stage in asynchronous training, returns the square root of
    the sum of squares."""
    if _is_number(value):
        return float(value)
    if isinstance(value, list) and value and all(map(_is_number, value)):
        return float(numpy.sqrt(numpy.sum(numpy.square(value, dtype=float))))
    return float("nan")


def _scalar(text):
    """Parses a value of config.yml, which vpipe writes on one line."""
    text = text.strip()
    if text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError:
            return text
    if text.startswith("[") and text.endswith("]"):
        inside = text[1:-1].strip()
        return [_scalar(item) for item in inside.split(",")] if inside else []
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def parse_config(text):
    """Returns the keys and values of a configuration that vpipe has written."""
    config = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key and not key.startswith(("#", " ")):
            config[key] = _scalar(value)
    return config


class Run:
    """The folder of a run, which may still be running: reload() reads it again.

    loss, step, lr, ...  arrays, one number per step (see metrics())
    evals                arrays "step" and "eval_loss", one per evaluation
    events               all other records
    config               resolved keys and values
    plan                 content of plan.json; None if there is none
    skipped              number of lines of metrics.jsonl that are no records
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        if not os.path.isdir(self.path):
            raise Error(f"{self.path}: there is no such folder; name a run")
        self.reload()

    def reload(self):
        config = self._read("config.yml")
        plan = self._read("plan.json")
        if config is None and not os.path.isfile(self._file("metrics.jsonl")):
            raise Error(
                f"{self.path}: is no run: it holds neither config.yml nor "
                "metrics.jsonl"
            )
        self.config = parse_config(config or "")
        try:
            self.plan = None if plan is None else json.loads(plan)
        except ValueError as reason:
            raise Error(f"{self._file('plan.json')}: {reason}") from None
        self._read_metrics()

    def _file(self, name):
        return os.path.join(self.path, name)

    def _read(self, name):
        try:
            with open(self._file(name), encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return None
        except OSError as reason:
            raise Error(f"{self._file(name)}: {reason.strerror}") from None

    def _read_metrics(self):
        steps, evals, self.events, self.skipped = [], [], [], 0
        for line in (self._read("metrics.jsonl") or "").splitlines():
            record = read_record(line)
            if record is None:
                self.skipped += 1
            elif "event" not in record:
                steps.append(record)
            elif record["event"] == "eval":
                evals.append(record)
            else:
                self.events.append(record)
        names = sorted({key for record in steps for key in record})
        self._metrics = {
            name: numpy.array([_number(record.get(name)) for record in steps])
            for name in names
            if name != "memory"
        }
        self._metrics["memory"] = [record.get("memory") for record in steps]
        self.evals = {
            name: numpy.array([_number(record.get(name)) for record in evals])
            for name in ("step", "eval_loss")
        }

    def metrics(self):
        """Returns a dict of all arrays. "memory" is a list of lists, the bytes of
        each stage, because the number of stages may change."""
        return dict(self._metrics)

    def __getattr__(self, name):
        metrics = self.__dict__.get("_metrics", {})
        if name in metrics:
            return metrics[name]
        raise AttributeError(
            f"{type(self).__name__} has no '{name}'; its metrics are: "
            + ", ".join(sorted(metrics))
        )

    def __len__(self):
        return len(self._metrics.get("step", ()))

    def __repr__(self):
        return f"<vpipe.Run {self.path!r}: {len(self)} steps>"
