#!/usr/bin/env python3
"""Compares a stage of tensor-parallel ranks with one rank, on CPU cores.

BERT is trained on one stage: as 2 and as 4 ranks (mp_size) of 4 threads, and as
one rank with all these threads, 8 and 16. Both have the same cores. They take
turns in rounds; a turn is a short `vpipe train`, whose figure is the median of
its steps without the first ones. From the trace of a group come the times that
its ranks spend in sums and exchanges over the members, waiting for late members
included: `all` is the mean over the ranks, `least` that of the rank that waits
least. Beside the measured step is the forecast of `vpipe plan`, from a profile
that was measured just before. A figure is `median (least..most)` over rounds;
ratios are taken round by round. The summary comes last.

  bench/tensor_speed.py --program build/vpipe [--precisions bf16]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SKIPPED = 3  # first steps of a run, which are not counted
HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    beside = os.path.join(HERE, "vpipe")
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default=beside if os.path.exists(beside)
                   else "build/vpipe")
    p.add_argument("--ranks", default="2,4", help="ranks per group")
    p.add_argument("--threads", type=int, default=4, help="threads per rank")
    p.add_argument("--precisions", default="fp32,bf16")
    p.add_argument("--rounds", type=int, default=5, help="most rounds")
    p.add_argument("--minutes", type=float, default=3.6,
                   help="no round after the first begins if it would end later")
    p.add_argument("--steps", type=int, default=8, help="steps per turn")
    p.add_argument("--minibatches", type=int, default=1, help="per update")
    p.add_argument("--vocab", type=int, default=30528)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--dropout", type=int, default=10, help="percent")
    return p.parse_args()


def configuration(args):
    return dict(model_type="bert", vocab=args.vocab, hidden=args.hidden,
                layers=args.layers, heads=args.heads, positions=args.seq,
                dropout=args.dropout / 100, synthetic_data="true",
                seq_length=args.seq, batch_size=args.batch,
                accumulation_steps=args.minibatches, stages=1, sync_mode="bsp",
                schedule="1f1b", optimizer="adamw", learning_rate=0.0001,
                device="cpu", checkpoint_every=0)


def spread(values, digits=3):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f}..{max(values):.{digits}f})")


# ---- One run ----------------------------------------------------------------

def read_steps(run):
    """Returns the seconds of the steps that count."""
    with open(os.path.join(run, "metrics.jsonl")) as f:
        steps = [row for row in map(json.loads, f) if "loss" in row]
    return [row["seconds"] for row in steps[SKIPPED:]]


def read_waits(run, n_mb):
    """Returns per rank the seconds from the first counted action to the end, and the
    seconds in sums by kind of action. With one stage, ranks wait only in sums and, in
    UPDATE, for the norm of the gradients."""
    with open(os.path.join(run, "trace.json")) as f:
        events = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X"]
    begin = min(e["ts"] for e in events
                if e["cat"] == "F" and e["args"]["minibatch"] >= SKIPPED * n_mb)
    ranks = {}
    for e in events:
        if e["ts"] < begin:
            continue
        rank = ranks.setdefault(e["tid"], {"seconds": 0.0, "waits": {}})
        rank["seconds"] = max(rank["seconds"],
                              1e-6 * (e["ts"] + e["dur"] - begin))
        rank["waits"][e["cat"]] = rank["waits"].get(e["cat"], 0.0) + \
            1e-9 * e["args"]["wait_ns"]
    return list(ranks.values())


class Contestant:
    """`n_ranks` ranks of `n_threads` threads; 1: no group."""

    def __init__(self, lab, precision, n_ranks, n_threads):
        self.lab, self.precision = lab, precision
        self.n_ranks, self.n_threads = n_ranks, n_threads
        self.seconds, self.shares, self.least, self.waits = [], [], [], []
        self.plan = os.path.join(lab.folder,
                                 f"{precision}-{n_ranks}x{n_threads}.json")
        lab.call("plan", lab.config, *self.settings(), "--planner", "given",
                 "--profile", "measured", "--brief", "--out", self.plan,
                 cores=self.n_cores())
        with open(self.plan) as f:
            self.forecast = json.load(f)["forecast"]["step_seconds"]

    def name(self):
        return f"{self.n_ranks} x {self.n_threads}"

    def n_cores(self):
        return self.n_ranks * self.n_threads

    def settings(self):
        keys = dict(mp_size=self.n_ranks, threads_per_stage=self.n_threads,
                    precision=self.precision)
        return [word for key, value in keys.items()
                for word in ("--set", f"{key}={value}")]

    def turn(self):
        args, n = self.lab.args, len(self.seconds)
        run = self.plan.replace(".json", f"-run{n}")
        self.lab.call("train", self.lab.config, *self.settings(), "--set",
                      f"partition={self.plan}", "--max-steps",
                      str(args.steps), "--output", run, "--quiet",
                      cores=self.n_cores())
        self.seconds.append(statistics.median(read_steps(run)))
        ranks = read_waits(run, args.minibatches)
        shutil.rmtree(run)
        shares = [sum(rank["waits"].values()) / rank["seconds"]
                  for rank in ranks]
        self.shares.append(statistics.mean(shares))
        self.least.append(min(shares))
        self.waits.append({kind: statistics.mean(
            rank["waits"].get(kind, 0.0) for rank in ranks) /
            (args.steps - SKIPPED) for kind in ("F", "B", "UPDATE")})


class Lab:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.config = os.path.join(folder, "bert.yml")
        with open(self.config, "w") as f:
            f.writelines(f"{key}: {value}\n"
                         for key, value in configuration(args).items())

    def call(self, *words, cores):
        free = sorted(os.sched_getaffinity(0))
        done = subprocess.run(
            [os.path.abspath(self.args.program), *words], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
            env=dict(os.environ, XDG_CACHE_HOME=self.folder),
            preexec_fn=lambda: os.sched_setaffinity(0, free[:cores]))
        if done.returncode != 0:
            sys.exit("tensor_speed: " + " ".join(words) + "\n" + done.stdout)


# ---- The contest ------------------------------------------------------------

def contest(lab, precision, ends):
    """Returns pairs of a group and one rank."""
    args = lab.args
    pairs = [tuple(Contestant(lab, precision, n, n_ranks * args.threads // n)
                   for n in (n_ranks, 1))
             for n_ranks in map(int, args.ranks.split(","))]
    last = 0.0
    for i in range(args.rounds):
        start = time.monotonic()
        if i > 0 and start + last > ends:
            break
        for pair in pairs:
            for contestant in pair:
                contestant.turn()
        last = time.monotonic() - start
    for pair in pairs:
        for c in pair:
            print(json.dumps({
                "case": "tensor-speed", "precision": precision,
                "ranks": c.n_ranks, "threads": c.n_threads,
                "step_s": c.seconds, "forecast_s": c.forecast,
                "sums_share": c.shares, "sums_share_least": c.least,
                "sums_s": c.waits}), flush=True)
    return pairs


def row(c, one):
    """Returns the cells of a row. `one`: the rank to compare a group with; None for
    that rank's own row."""
    text = [c.precision, c.name(), spread([1e3 * s for s in c.seconds], 1)]
    error = spread([c.forecast / s for s in c.seconds])
    if one is None:
        return text + ["", "", "", "", f"{1e3 * c.forecast:.1f}", error]
    parts = (statistics.median(w[kind] for w in c.waits)
             for kind in ("F", "B", "UPDATE"))
    return text + [spread([a / b for a, b in zip(one.seconds, c.seconds)]),
                   spread([100 * s for s in c.shares], 1),
                   spread([100 * s for s in c.least], 1),
                   ", ".join(f"{1e3 * s:.1f}" for s in parts),
                   f"{1e3 * c.forecast:.1f}", error]


def report(args, pairs, seconds):
    print(f"\nBERT, hidden {args.hidden}, {args.layers} layers, vocabulary "
          f"{args.vocab}, dropout {args.dropout} %; {args.minibatches} "
          f"minibatch{'es' if args.minibatches > 1 else ''} of {args.batch} x "
          f"{args.seq} tokens per update; one stage; rounds of "
          f"{args.steps - SKIPPED} steps: " +
          ", ".join(dict.fromkeys(f"{len(c.seconds)} in {c.precision}"
                                  for pair in pairs for c in pair)) +
          f"; {seconds:.0f} s\nmedian (least..most); speed: one rank / group\n")
    print("| precision | ranks x threads | ms per step | speed "
          "| sums, % of the time: all | least | ms per step in F, B, UPDATE "
          "| forecast, ms | forecast / measured |")
    print("| --- " * 9 + "|")
    for group, one in pairs:
        print("| " + " | ".join(row(one, None)) + " |")
        print("| " + " | ".join(row(group, one)) + " |")


def main():
    args = arguments()
    begins, pairs = time.monotonic(), []
    needed = max(map(int, args.ranks.split(","))) * args.threads
    if args.steps <= SKIPPED:
        sys.exit(f"tensor_speed: use --steps {SKIPPED + 1} or more")
    if needed > len(os.sched_getaffinity(0)):
        sys.exit(f"tensor_speed: {needed} cores are needed; use fewer --ranks "
                 "or --threads")
    precisions = args.precisions.split(",")
    # fp32 steps take about twice as long as those of bf16.
    weights = [2.0 if p == "fp32" else 1.0 for p in precisions]
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(args, folder)
        for i, precision in enumerate(precisions):
            now = time.monotonic()
            left = begins + 60.0 * args.minutes - now
            pairs += contest(lab, precision,
                             now + left * weights[i] / sum(weights[i:]))
    report(args, pairs, time.monotonic() - begins)


if __name__ == "__main__":
    main()
