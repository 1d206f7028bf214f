"""Starts the program vpipe and reads its records while it runs."""

import os
import shutil
import signal
import subprocess
import tempfile
import time

from .error import Error
from .run import Run, read_record

_POLL_SECONDS = 0.05
_STOP_SECONDS = 60


def _text(value):
    """Returns a value as text for --set."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    return str(value)


def _find_program(program):
    program = program or os.environ.get("VPIPE_PROGRAM") or "vpipe"
    found = shutil.which(program)
    if not found:
        raise Error(
            f"{program}: there is no such program; add its folder to PATH, or "
            "set VPIPE_PROGRAM"
        )
    return found


class Training:
    """A training in a process of its own; see train(). Iterates over the records
    of its metrics.jsonl as they are written. Leaving the `with` block ends the
    process."""

    def __init__(self, command, output, log):
        self.output = output
        self.status = None
        self._log = log
        self._offset = 0
        self._rest = b""
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.running():
            self.stop()

    def __iter__(self):
        while True:
            running = self.running()
            yield from self._new_records()
            if not running:
                break
            time.sleep(_POLL_SECONDS)
        self._finish()

    def running(self):
        return self._process.poll() is None

    def _new_records(self):
        """Yields the records of complete lines added since the last call."""
        try:
            with open(os.path.join(self.output, "metrics.jsonl"), "rb") as f:
                f.seek(self._offset)
                data = f.read()
        except FileNotFoundError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            record = read_record(line.decode("utf-8", "replace"))
            if record is not None:
                yield record

    def stop(self, timeout=_STOP_SECONDS):
        """Sends SIGTERM: the program saves a checkpoint and exits. Returns its
        exit status, 0 or 3. After `timeout` seconds kills it and raises Error."""
        if self.running():
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise Error(f"vpipe did not end within {timeout} s") from None
        return self._finish()

    def _finish(self):
        """Waits for the end. Raises Error with the last printed line after a
        failure."""
        if self.status is None:
            self.status = self._process.wait()
            self._log.seek(0)
            lines = self._log.read().decode("utf-8", "replace").split("\n")
            self._log.close()
            if self.status not in (0, 3):
                text = [line for line in lines if line.strip()]
                raise Error(text[-1] if text else f"vpipe: status {self.status}")
        return self.status

    def run(self):
        """Returns the run that the training writes."""
        return Run(self.output)


def train(config, set=None, output=None, resume=None, program=None):
    """Starts `vpipe train` and returns a Training, an iterator over its records.

    config   a YAML file
    set      keys that override those of the file: {"stages": 4}
    output   folder of the run; None: a new temporary folder
    resume   a run or a checkpoint to resume
    program  path of vpipe; None: VPIPE_PROGRAM, or vpipe in PATH

    Raises vpipe.Error with the program's message if it fails.
    """
    command = [_find_program(program), "train", os.fspath(config), "--quiet"]
    for key, value in (set or {}).items():
        command += ["--set", f"{key}={_text(value)}"]
    if output is None:
        output = os.path.join(tempfile.mkdtemp(prefix="vpipe-"), "run")
    command += ["--output", os.fspath(output)]
    if resume is not None:
        command += ["--resume", os.fspath(resume)]
    return Training(command, os.fspath(output), tempfile.TemporaryFile())
