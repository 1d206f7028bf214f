"""check_tensorboard.py RUN: the event files of a run, read by TensorBoard itself,
hold the values of metrics.jsonl: each number once for each step, as float32."""
import json
import math
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {
    "epoch": ("progress/epoch", 1.0),
    "minibatch": ("progress/minibatches", 1.0),
    "loss": ("loss/train", 1.0),
    "eval_loss": ("loss/held_out", 1.0),
    "lr": ("optimizer/learning_rate", 1.0),
    "grad_norm": ("optimizer/gradient_norm", 1.0),
    "loss_scale": ("optimizer/loss_scale", 1.0),
    "skipped": ("optimizer/skipped_updates", 1.0),
    "samples_per_second": ("throughput/samples_per_second", 1.0),
    "tokens_per_second": ("throughput/tokens_per_second", 1.0),
    "tflops": ("throughput/flops_per_second", 1e12),
    "seconds": ("time/step_seconds", 1.0),
    "bubble": ("time/bubble_ratio", 1.0),
    "memory": ("memory", 1.0),
}
# Written to metrics.jsonl with 17 digits or as integers; the others have 6 digits.
EXACT = {"loss", "eval_loss", "grad_norm", "memory", "epoch", "minibatch"}
SIX_DIGITS = 5e-6 + 2 * 2 ** -24  # half a digit, and both rounded to floats


def expected(path):
    """Returns {tag: {step: (value, exact)}} of metrics.jsonl."""
    out = {}
    for line in open(path):
        row = json.loads(line)
        for key, (tag, factor) in TAGS.items():
            values = row.get(key)
            if values is None:
                continue
            named = [(tag, values)]
            if isinstance(values, list):
                named = [(f"{tag}/stage_{s}", v) for s, v in enumerate(values)]
            for name, value in named:
                if value is not None:
                    out.setdefault(name, {})[row["step"]] = (
                        value * factor, key in EXACT)
    return out


def main():
    run = sys.argv[1]
    reader = EventAccumulator(run, size_guidance={"scalars": 0})
    reader.Reload()
    want = expected(run + "/metrics.jsonl")
    got = {tag: [(e.step, e.value) for e in reader.Scalars(tag)]
           for tag in reader.Tags()["scalars"]}
    assert set(got) == set(want), set(got) ^ set(want)
    # A run resumed from before an evaluation repeats it, with equal bits.
    got["loss/held_out"] = sorted(set(got["loss/held_out"]))
    for tag, steps in want.items():
        assert [s for s, _ in got[tag]] == sorted(steps), f"steps of {tag}"
        for step, value in got[tag]:
            target, exact = steps[step]
            target = struct.unpack("f", struct.pack("f", target))[0]
            near = value == target if exact else math.isclose(
                value, target, rel_tol=SIX_DIGITS)
            assert near, f"{tag} at step {step}: {value}, not {target}"
    print(f"check_tensorboard: {len(want)} tags, "
          f"{sum(map(len, want.values()))} values")


main()
