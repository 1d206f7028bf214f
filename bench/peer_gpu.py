#!/usr/bin/env python3
"""A training step of PyTorch and of vpipe on one GPU, in one run.

Both train the same model (same layers, batch, dropout, loss, AdamW), PyTorch
under autocast to bf16 with fp32 weights, vpipe in bf16 with an fp32 master copy.
All contestants of a case are set up and warm before the first round, then take
turns; a turn is ten steps, timed by the contestant around them, with the GPU
idle at both ends.

  bench/peer_gpu.py --program build/bench_gpu [--modes eager,compile,...] [CASE]...

Cases are those of bench_gpu; `-labelled` ones compute the logits of labelled
tokens only, on both sides.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BERT = dict(kind="bert", vocab=30528, hidden=1024, layers=24, heads=16,
            dropout=0.1)
CASES = {  # as in bench_gpu.c
    "bert-large-b64-s128": dict(BERT, batch=64, seq=128, labels=0),
    "bert-large-b16-s128": dict(BERT, batch=16, seq=128, labels=0),
    "bert-large-b32-s512": dict(BERT, batch=32, seq=512, labels=0),
    "bert-large-b64-s128-labelled": dict(BERT, batch=64, seq=128, labels=20),
    "bert-large-b16-s128-labelled": dict(BERT, batch=16, seq=128, labels=20),
    "bert-large-b32-s512-labelled": dict(BERT, batch=32, seq=512, labels=80),
    "gpt2-124m-b32-s1024": dict(kind="gpt2", vocab=50304, hidden=768,
                                layers=12, heads=12, dropout=0.0, batch=32,
                                seq=1024),
    "gpt2-345m-b16-s1024": dict(kind="gpt2", vocab=50304, hidden=1024,
                                layers=24, heads=16, dropout=0.0, batch=16,
                                seq=1024),
    "gpt2-1.5b-b8-s1024": dict(kind="gpt2", vocab=50304, hidden=1600,
                               layers=48, heads=25, dropout=0.0, batch=8,
                               seq=1024),
}
MODES = {"eager": None, "compile": "default",
         "reduce-overhead": "reduce-overhead",
         "max-autotune": "max-autotune"}
TURN = 10  # steps


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default="build/bench_gpu")
    p.add_argument("--modes", default="eager,compile,reduce-overhead")
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    p.add_argument("cases", nargs="*")
    args = p.parse_args()
    args.cases = args.cases or list(CASES)
    for name in args.cases:
        if name not in CASES:
            p.error(f"unknown case {name}; one of: {', '.join(CASES)}")
    return args


# ---- torch ------------------------------------------------------------------

def build(z):
    import torch
    from torch import nn
    from torch.nn import functional as F

    H, heads, p, V = z["hidden"], z["heads"], z["dropout"], z["vocab"]
    bert = z["kind"] == "bert"

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(H, 3 * H), nn.Linear(H, H)
            self.up, self.down = nn.Linear(H, 4 * H), nn.Linear(4 * H, H)
            self.norm1, self.norm2 = nn.LayerNorm(H), nn.LayerNorm(H)

        def attention(self, x):
            b, s, _ = x.shape
            q, k, v = self.qkv(x).view(b, s, 3, heads, H // heads).permute(
                2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=not bert, dropout_p=p)
            return F.dropout(self.out(y.transpose(1, 2).reshape(b, s, H)), p)

        def mlp(self, x):
            x = F.gelu(self.up(x), approximate="none" if bert else "tanh")
            return F.dropout(self.down(x), p)

        def forward(self, x):
            if bert:
                x = self.norm1(x + self.attention(x))
                return self.norm2(x + self.mlp(x))
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(V, H)
            self.positions = nn.Embedding(z["seq"], H)
            self.layers = nn.ModuleList(Layer() for _ in range(z["layers"]))
            self.norm = nn.LayerNorm(H)
            if bert:
                self.types = nn.Embedding(2, H)
                self.dense, self.dense_norm = nn.Linear(H, H), nn.LayerNorm(H)
                self.bias = nn.Parameter(torch.zeros(V))

        def forward(self, ids, types, rows, labels):
            x = self.words(ids) + self.positions.weight
            if bert:
                x = F.dropout(self.norm(x + self.types(types)), p)
            for layer in self.layers:
                x = layer(x)
            x = x.view(-1, H)
            if rows is not None:
                x = x[rows]
            if bert:
                x = self.dense_norm(F.gelu(self.dense(x)))
                x = F.linear(x, self.words.weight) + self.bias
            else:
                x = F.linear(self.norm(x), self.words.weight)
            return F.cross_entropy(x, labels, ignore_index=-1)

    ids = torch.randint(0, V - 64, (z["batch"], z["seq"]), device="cuda")
    labels, rows = ids.roll(-1, 1).flatten(), None
    if bert:
        count = int(0.15 * z["seq"])
        places = torch.rand(ids.shape, device="cuda").argsort(1)[:, :count]
        labels = torch.full_like(ids, -1).scatter(
            1, places, ids.gather(1, places)).flatten()
        if z["labels"]:
            rows = (labels >= 0).nonzero().squeeze(1)
            labels = labels[rows]
    return Model().to("cuda").train(), (ids, torch.zeros_like(ids), rows,
                                        labels)


def torch_worker(name, mode):
    import torch

    torch.manual_seed(0)
    model, batch = build(CASES[name])
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    run = model if mode == "eager" else torch.compile(model, mode=MODES[mode])

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def turn():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(TURN):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / TURN

    turn()
    turn()
    memory = torch.cuda.max_memory_allocated() / 2 ** 30
    print(json.dumps({"ready": "torch " + torch.__version__,
                      "gib": memory}), flush=True)
    while sys.stdin.readline():
        print(json.dumps({"seconds": turn()}), flush=True)


# ---- The contest ------------------------------------------------------------

class Contestant:
    def __init__(self, name, command):
        self.name, self.ms = name, []
        self.process = subprocess.Popen(command, text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.ms.append(1e3 * self.read()["seconds"])

    def stop(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def spread(values, digits=2):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f}..{max(values):.{digits}f})")


def contest(args, name):
    here = os.path.abspath(__file__)
    peers = [Contestant(mode, [sys.executable, here, "--worker", name, mode])
             for mode in args.modes.split(",")]
    own = Contestant("vpipe", [args.program, "worker", name])
    ready = [c for c in peers if c.about]
    for c in peers:
        if not c.about:
            print(f"{name}: torch {c.name} failed", flush=True)
    for _ in range(args.rounds):
        for c in ready + [own]:
            c.turn()
    for c in ready + [own]:
        c.stop()
    best = min(ready, key=lambda c: statistics.median(c.ms))
    ratio = [a / b for a, b in zip(best.ms, own.ms)]
    print(json.dumps({"case": "peer-gpu", "model": name,
                      "torch": {c.name: c.ms for c in ready},
                      "torch_gib": {c.name: c.about["gib"] for c in ready},
                      "vpipe": own.ms, "vpipe_gib": own.about.get("gib"),
                      "about": ready[0].about["ready"]}), flush=True)
    return (statistics.median(ratio),
            f"| {name} | {best.name} | {spread(best.ms)} | {spread(own.ms)} | "
            f"{spread(ratio)} | {best.about['gib']:.1f} | "
            f"{own.about.get('gib', 0):.1f} |")


def main():
    args = arguments()
    if args.worker:
        torch_worker(*args.worker)
        return
    rows = [contest(args, name) for name in args.cases]
    print("\nms per step: median (least..most)")
    print("| case | best torch mode | torch | vpipe | torch / vpipe "
          "| torch GiB | vpipe GiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(row for _, row in rows))
    full = [r for (r, _), n in zip(rows, args.cases)
            if not n.endswith("labelled")]
    if full:
        print(f"\ngeometric mean of the ratios (all logits): "
              f"{statistics.geometric_mean(full):.3f}")


if __name__ == "__main__":
    main()
