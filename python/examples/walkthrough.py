#!/usr/bin/env python3
"""Trains a small GPT-2, looks at the run and at its weights, and lets it go on
with a sequence. Runs without arguments in about a minute.

The lines between "# %%" are cells, for editors that show them as a notebook.
"""

# %% Imports. From the sources: VPIPE_PROGRAM=build/vpipe
#    VPIPE_LIBRARY=build/libvpipe.so.0.1 PYTHONPATH=python
import os
import sys
import tempfile

import numpy
import vpipe

folder = tempfile.TemporaryDirectory()
config = os.path.join(folder.name, "gpt2.yml")
with open(config, "w", encoding="utf-8") as file:
    file.write(
        "model_type: gpt2\n"
        "vocab: 64\nhidden: 32\nlayers: 2\nheads: 2\npositions: 32\n"
        "seq_length: 16\nbatch_size: 8\ndropout: 0\n"
        "accumulation_steps: 2\nlearning_rate: 0.01\neval_every: 50\n"
    )

# %% Train in two stages, and watch.
keys = {"stages": 2, "total_steps": 150, "threads_per_stage": 1}
with vpipe.train(config, set=keys, output=folder.name + "/run") as training:
    for record in training:
        if "loss" in record and record["step"] % 50 == 0:
            print(f"step {record['step']:3d}  loss {record['loss']:.3f}")

# %% The run as arrays.
run = training.run()
print(run)
print("partition", run.plan["partition"], "of", run.config["model_type"])
print("mean step", f"{1000 * numpy.median(run.seconds):.1f} ms,", end=" ")
print("evaluated at", run.evals["step"].astype(int).tolist())
if run.loss[-10:].mean() >= run.loss[:10].mean():
    sys.exit("the loss has not fallen")

# %% The weights as arrays.
checkpoint = vpipe.Checkpoint(run.path)
table = checkpoint["transformer.wte.weight"]
print(f"{len(checkpoint.weights())} weights, table {table.shape} {table.dtype}")
norms = numpy.linalg.norm(table, axis=1)
print(f"norms of its rows: {norms.min():.2f} to {norms.max():.2f}")

# %% The trained model.
with vpipe.Model(run.path) as model:
    print("continues 5 6 7 by", *model.generate([5, 6, 7], n_new=5))
    print(f"held-out loss {model.evaluate()['loss']:.3f}")

# %% Done.
folder.cleanup()
