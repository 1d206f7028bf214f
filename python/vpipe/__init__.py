"""Runs and checkpoints of vpipe as numpy arrays; training; trained models.

    run = vpipe.Run("runs/a")               metrics, configuration, plan
    weights = vpipe.Checkpoint("runs/a")    arrays by name
    with vpipe.train("a.yml") as training:  starts the program, yields records
        for record in training: ...
    model = vpipe.Model("runs/a")           libvpipe: generate, evaluate

Needs numpy and nothing else. Errors in a file or an argument raise vpipe.Error
with one line of text.
"""

from .checkpoint import Checkpoint
from .error import Error
from .library import Model, library_version
from .program import Training, train
from .run import Run

__version__ = "0.1.0"
__all__ = [
    "Checkpoint",
    "Error",
    "Model",
    "Run",
    "Training",
    "library_version",
    "train",
]
