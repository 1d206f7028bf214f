#!/usr/bin/env python3
"""headline.py [--program vpipe]: trains plans under a memory limit on one GPU that
four stages share. BERT-large, 16 minibatches of 8 x 512 tokens per update.

There are two limits: halfway between the bytes of keeping all activations and those
of GPipe with full recomputation, and 1.1 times the latter. For each limit it trains
the plans of vpipe's search (with and without swap), GPipe, PipeDream's partition, and
1f1b with the smallest `recompute_ratio` that fits; then batch 16 under 2.9 GiB.
Prints a line per plan: forecast and measured milliseconds of an update, bytes of the
largest stage; and a table of ratios at the end."""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

STEPS = 14
GIB = 1 << 30
BASE = dict(model_type="bert", vocab=30528, hidden=1024, layers=24, heads=16,
            positions=512, dropout=0.1, tie_embeddings="true",
            synthetic_data="true", seq_length=512, batch_size=8,
            accumulation_steps=16, stages=4, sync_mode="bsp",
            optimizer="adamw", learning_rate=0.0001, precision="bf16",
            device="cuda", checkpoint_every=0)


class Lab:
    def __init__(self, program, folder):
        self.program, self.folder, self.n = program, folder, 0

    def config(self, **more):
        self.n += 1
        path = os.path.join(self.folder, f"{self.n}.yml")
        with open(path, "w") as f:
            f.writelines(f"{k}: {v}\n" for k, v in {**BASE, **more}.items())
        return path

    def call(self, *args):
        return subprocess.run([self.program, *args], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def train(self, steps=STEPS, **more):
        """Returns the milliseconds of an update and the bytes of the largest stage;
        None if vpipe refuses the configuration."""
        run = os.path.join(self.folder, f"run{self.n}")
        done = self.call("train", self.config(**more), "--max-steps",
                         str(steps), "--output", run, "--quiet")
        if done.returncode != 0:
            return None, done.stdout.strip().splitlines()[-1]
        with open(os.path.join(run, "metrics.jsonl")) as f:
            steps = [r for r in map(json.loads, f) if "loss" in r]
        return (1e3 * statistics.median(r["seconds"] for r in steps[3:]),
                max(steps[-1]["memory"]))

    def plan(self, planner, limit, *flags, **more):
        """Returns a plan file, its forecast in ms, and bytes; None if nothing fits."""
        path = os.path.join(self.folder, f"plan{self.n}.json")
        done = self.call("plan", self.config(**more), "--planner", planner,
                         "--memory", str(int(limit)), "--profile", "measured",
                         "--brief", "--out", path, *flags)
        if done.returncode != 0:
            return None, done.stdout.strip().splitlines()[-1], 0
        with open(path) as f:
            forecast = json.load(f)["forecast"]
        return path, 1e3 * forecast["step_seconds"], max(forecast["memory"])


def show(name, forecast, measured, n_bytes, note=""):
    print(json.dumps({"plan": name,
                      "forecast_ms": forecast and round(forecast, 1),
                      "ms": measured and round(measured, 1),
                      "GiB": n_bytes and round(n_bytes / GIB, 2),
                      "note": note}), flush=True)


def contest(lab, limit, **more):
    """Returns the milliseconds of each plan that fits."""
    out = {}
    for name, planner, flags in (("search", "vpipe", ()),
                                 ("search, swap", "vpipe", ("--swap",)),
                                 ("GPipe", "gpipe", ()),
                                 ("PipeDream", "pipedream", ())):
        path, forecast, n_bytes = lab.plan(planner, limit, *flags, **more)
        if not path or n_bytes > limit:
            show(name, None, None, n_bytes, forecast if not path
                 else "does not fit")
            continue
        ms, n_bytes = lab.train(partition=path, **more)
        show(name, forecast, ms, n_bytes if ms else 0, "" if ms else n_bytes)
        if ms:
            out[name] = ms
    for ratio in (r / 20 for r in range(21)):
        tail = dict(schedule="1f1b", recompute_ratio=ratio, **more)
        done = lab.call("train", lab.config(memory_limit=int(limit), **tail),
                        "--max-steps", "1", "--dry-run")
        if done.returncode == 0:
            ms, n_bytes = lab.train(**tail)
            show(f"recompute_ratio {ratio}", None, ms, n_bytes)
            out["tail"] = ms
            break
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="build/vpipe")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(os.path.abspath(args.program), folder)
        keep_ms, keep = lab.train(schedule="1f1b")
        full_ms, full = lab.train(schedule="gpipe", recompute_ratio=1)
        show("keep all", None, keep_ms, keep)
        show("GPipe, recompute all", None, full_ms, full)
        rows = []
        for name, limit in (("midpoint", (keep + full) / 2),
                            ("1.1 x GPipe", 1.1 * full)):
            print(f"# {name}: {limit / GIB:.2f} GiB", flush=True)
            rows.append((name, contest(lab, limit)))
        print("# batch 16 under 2.9 GiB", flush=True)
        rows.append(("batch 16", contest(lab, 2.9 * GIB, batch_size=16,
                                         accumulation_steps=8)))
        for name, ms in rows:
            best = min((ms[k] for k in ("search", "search, swap") if k in ms),
                       default=None)
            print(name, "best search ms", best and round(best, 1),
                  {k: round(v / best, 3) for k, v in ms.items() if best})


if __name__ == "__main__":
    main()
