#!/usr/bin/env python3
"""Compares asynchronous and synchronous training: held-out loss over tokens and time.

  bench/convergence.py run [MODE]...   trains, into --runs DIR
  bench/convergence.py draw            the picture and the table

Every mode trains the same small BERT (its file in configs/) on the same batches
of this repository's text; `single` is one stage with an update after every
minibatch, as a reference without a pipeline. Each mode is run with every learning
rate of --rates, and shown with the rate that has the lowest final loss: the best rate
depends on the staleness of gradients and on the batch size. Needs only base Python.
"""
import argparse
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# name: (title, configuration, minibatches per step, colour, dashes)
MODES = {
    "single": ("one stage, an update per minibatch", "bert_one.yml", 1,
               "#8a8f98", ""),
    "gpipe": ("GPipe: bsp, an update per 4 minibatches",
              "bert_4gpipe_tiny.yml", 4, "#3a7d44", ""),
    "pipedream": ("PipeDream: asp", "bert_4pipedream_tiny.yml", 1, "#d98324",
                  ""),
    "vpipe": ("vPipe: asp, stage 0 recomputes", "bert_tiny.yml", 1, "#2f5fa7",
              "6 5"),
}


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("action", choices=("run", "draw"))
    p.add_argument("modes", nargs="*", metavar="MODE",
                   help=", ".join(MODES) + "; none: all")
    p.add_argument("--program", default=str(ROOT / "build/vpipe"))
    p.add_argument("--runs", type=pathlib.Path,
                   default=ROOT / "build/bench/convergence")
    p.add_argument("--svg", type=pathlib.Path,
                   default=ROOT / "docs/img/convergence.svg")
    p.add_argument("--minibatches", type=int, default=2400)
    p.add_argument("--eval-every", type=int, default=120, help="minibatches")
    p.add_argument("--rates", default="0.0005,0.001")
    args = p.parse_args()
    unknown = set(args.modes) - set(MODES)
    if unknown:
        p.error(f"unknown mode: {', '.join(sorted(unknown))}")
    args.modes = args.modes or list(MODES)
    return args


# ---- Running ----------------------------------------------------------------

def snapshot(args):
    """Writes the text of the sources to one file, at the first run."""
    path = args.runs.resolve() / "text.txt"
    if not path.exists():
        files = sorted(f for folder in ("src", "tools", "tests", "docs")
                       for f in (ROOT / folder).rglob("*.[chm]*")
                       if f.suffix in (".c", ".h", ".md"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f.read_text() for f in files))
    return path


def train(args, mode, rate):
    _, config, per_step, _, _ = MODES[mode]
    keys = {"learning_rate": rate, "data_dir": snapshot(args),
            "total_steps": args.minibatches // per_step,
            "eval_every": args.eval_every // per_step}
    folder = args.runs / f"{mode}-{rate}"
    shutil.rmtree(folder, ignore_errors=True)
    command = [args.program, "train", str(ROOT / "configs" / config),
               "--output", str(folder)]
    for key, value in keys.items():
        command += ["--set", f"{key}={value}"]
    print(f"{mode}, learning rate {rate}", flush=True)
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"convergence: {' '.join(command)}\n{done.stderr}")
    (folder / "screen.txt").write_text(done.stdout)
    print("\n".join(line for line in done.stdout.splitlines()
                    if line.startswith(("done", "loss", "eval  "))), flush=True)


# ---- Reading ----------------------------------------------------------------

class Run:
    """Held-out losses of a run, with the tokens and seconds of training."""

    def __init__(self, folder):
        self.rate = folder.name.rsplit("-", 1)[1]
        self.tokens, self.seconds, self.losses, self.trained = [], [], [], []
        tokens = seconds = 0.0
        for line in (folder / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            if "eval_loss" in row:
                self.tokens.append(tokens)
                self.seconds.append(seconds)
                self.losses.append(row["eval_loss"])
                continue
            if "event" in row:
                continue
            seconds += row["seconds"]
            tokens += row["seconds"] * row["tokens_per_second"]
            self.trained.append(row["loss"])
        screen = (folder / "screen.txt").read_text()
        self.unigram = float(re.search(r"loss ([\d.]+), the best", screen)[1])

    def final(self):
        return self.losses[-1]

    def seconds_to(self, loss):
        """Returns the time at which the held-out loss first fell to `loss`, or None."""
        for t, x in zip(self.seconds, self.losses):
            if x <= loss:
                return t
        return None


def read_runs(args, mode):
    folders = sorted(args.runs.glob(f"{mode}-*"))
    return [Run(f) for f in folders if (f / "screen.txt").exists()]


# ---- Drawing ----------------------------------------------------------------

W, H = 460, 300          # size of a panel's plot
LEFT, TOP, GAP = 64, 96, 84


def ticks(most, n=5):
    """Returns about n round values from 0 to `most`."""
    scale = 10.0 ** math.floor(math.log10(most / n))
    step = next(m * scale for m in (1, 2, 2.5, 5, 10) if m * scale * n >= most)
    return [i * step for i in range(int(most / step) + 1)]


def text(x, y, words, anchor="start", size=13, fill="#333", extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" '
            f'text-anchor="{anchor}"{extra}>{words}</text>')


def panel(left, title, unit, scale, runs, of, low, high):
    """Draws one plot; of(run) returns its x values."""
    most = max(of(r)[-1] for r in runs.values()) * scale

    def px(x):
        return left + W * x * scale / most

    def py(y):
        return TOP + H * (high - min(y, high)) / (high - low)

    out = [text(left, TOP - 14, title, size=15)]
    for x in ticks(most):
        at = left + W * x / most
        out.append(f'<path d="M{at:.1f} {TOP}v{H}" stroke="#eee"/>')
        out.append(text(at, TOP + H + 18, f"{x:g}", "middle", 12, "#666"))
    y = low
    while y < high + 0.01:
        out.append(f'<path d="M{left} {py(y):.1f}h{W}" stroke="#eee"/>')
        out.append(text(left - 8, py(y) + 4, f"{y:.1f}", "end", 12, "#666"))
        y += 0.5
    unigram = next(iter(runs.values())).unigram
    out.append(f'<path d="M{left} {py(unigram):.1f}h{W}" stroke="#999" '
               'stroke-dasharray="2 3"/>')
    out.append(text(left + W - 4, py(unigram) + 14, "best guess without context",
                    "end", 11, "#777"))
    out.append(text(left + W, TOP + H + 38, unit, "end", 12, "#666"))
    for mode, run in runs.items():
        _, _, _, colour, dashes = MODES[mode]
        points = " ".join(f"{px(x):.1f},{py(y):.1f}"
                          for x, y in zip(of(run), run.losses))
        out.append(f'<polyline points="{points}" fill="none" '
                   f'stroke="{colour}" stroke-width="2.2" '
                   f'stroke-linejoin="round" stroke-dasharray="{dashes}"/>')
    return out


def draw(runs):
    low = 0.5 * int(min(min(r.losses + [r.unigram])
                        for r in runs.values()) / 0.5)
    high = 0.5 * (int(max(r.losses[0] for r in runs.values()) / 0.5) + 1)
    width, height = LEFT + 2 * W + GAP + 24, TOP + H + 56
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
           f'height="{height}" viewBox="0 0 {width} {height}" '
           'font-family="Helvetica, Arial, sans-serif">',
           f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>']
    for i, (mode, run) in enumerate(runs.items()):
        title, _, _, colour, dashes = MODES[mode]
        x, y = LEFT + (i % 2) * (W + GAP), 26 + (i // 2) * 22
        out.append(f'<path d="M{x} {y - 4}h34" stroke="{colour}" '
                   f'stroke-width="2.6" stroke-dasharray="{dashes}"/>')
        out.append(text(x + 44, y, f"{title} (rate {run.rate})"))
    out += panel(LEFT, "held-out loss against tokens", "million tokens", 1e-6,
                 runs, lambda r: r.tokens, low, high)
    out += panel(LEFT + W + GAP, "held-out loss against time", "seconds", 1.0,
                 runs, lambda r: r.seconds, low, high)
    return "\n".join(out + ["</svg>"]) + "\n"


def show(runs, everything):
    target = max(r.final() for r in runs.values())
    print(f"| mode | rate | held-out loss | tokens/s | seconds to {target:.2f} "
          "|\n| --- | --- | --- | --- | --- |")
    for mode, run in runs.items():
        print(f"| {MODES[mode][0]} | {run.rate} | {run.final():.4f} "
              f"| {run.tokens[-1] / run.seconds[-1]:.0f} "
              f"| {run.seconds_to(target):.1f} |")
    print()
    for mode, tried in everything.items():
        print(f"- {mode}: " + ", ".join(
            f"rate {r.rate} -> {r.final():.4f}" for r in tried))
    for a in everything.get("vpipe", []):
        for b in everything.get("pipedream", []):
            if a.rate == b.rate:
                same = a.trained == b.trained and a.losses == b.losses
                print(f"- vPipe and PipeDream at rate {a.rate}: losses "
                      f"{'equal, bit for bit' if same else 'DIFFER'}")


def main():
    args = arguments()
    if args.action == "run":
        for mode in args.modes:
            for rate in args.rates.split(","):
                train(args, mode, rate)
        return
    everything = {m: read_runs(args, m) for m in args.modes}
    missing = [m for m, tried in everything.items() if not tried]
    if missing:
        sys.exit(f"convergence: no runs of {', '.join(missing)} in "
                 f"{args.runs}; run them first")
    runs = {m: min(tried, key=Run.final) for m, tried in everything.items()}
    args.svg.parent.mkdir(parents=True, exist_ok=True)
    args.svg.write_text(draw(runs))
    show(runs, everything)


if __name__ == "__main__":
    main()
