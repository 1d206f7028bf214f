#!/usr/bin/env python3
"""Compares a training step of PyTorch and of vpipe on one device, in one run.

Both train the same model (same precision, layers, batch, dropout, loss, AdamW),
with the same number of threads on the same cores. They are set up and warm
before the first round, then take turns; a turn is one update, timed by the
contestant around the whole step.

  bench/peer_step.py --program build/bench_step [--models bert,gpt2,...]

Models are the cases of bench_step, with the suffix -bf16 in bf16 (torch: autocast to
bfloat16, weights and AdamW in fp32). On both sides bert computes the logits of every
token, bert-labelled those of the labelled tokens. Needs a Python with torch; PyPI's
CPU build will do.
"""
import argparse
import json
import os
import subprocess
import sys
import time

from peer_torch import Contestant, spread

SIZES = {  # as in bench_step.c
    "bert": dict(vocab=30528, hidden=768, layers=12, heads=12, seq=128,
                 batch=16, labels=128, dropout=0.1),
    "bert-labelled": dict(vocab=30528, hidden=768, layers=12, heads=12,
                          seq=128, batch=16, labels=20, dropout=0.1),
    "bert-wide": dict(vocab=30528, hidden=1024, layers=6, heads=16, seq=128,
                      batch=8, labels=128, dropout=0.1),
    "gpt2": dict(vocab=50257, hidden=768, layers=12, heads=12, seq=512,
                 batch=4, labels=0, dropout=0.0),
    "translation": dict(vocab=32768, hidden=512, layers=6, heads=8, seq=64,
                        batch=32, labels=0, dropout=0.1),
    "small": dict(vocab=1024, hidden=128, layers=4, heads=4, seq=64, batch=8,
                  labels=64, dropout=0.1),
}


BF16 = "-bf16"


def size_of(name):
    return SIZES[name.removesuffix(BF16)]


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default="build/bench_step")
    p.add_argument("--models", default="bert,bert-labelled,gpt2,translation")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return p.parse_args()


# ---- torch ------------------------------------------------------------------

def build(name):
    import torch
    from torch import nn
    from torch.nn import functional as F

    z = size_of(name)
    name = name.removesuffix(BF16)
    H, S, V, p = z["hidden"], z["seq"], z["vocab"], z["dropout"]
    heads = z["heads"]

    class Attention(nn.Module):
        def __init__(self, causal, cross=False):
            super().__init__()
            self.causal, self.cross = causal, cross
            if cross:
                self.q, self.kv = nn.Linear(H, H), nn.Linear(H, 2 * H)
            else:
                self.qkv = nn.Linear(H, 3 * H)
            self.out = nn.Linear(H, H)

        def split(self, x, parts):
            b, s, _ = x.shape
            return x.view(b, s, parts, heads, H // heads).permute(
                2, 0, 3, 1, 4)

        def forward(self, x, memory=None):
            if self.cross:
                (q,) = self.split(self.q(x), 1)
                k, v = self.split(self.kv(memory), 2)
            else:
                q, k, v = self.split(self.qkv(x), 3)
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=self.causal, dropout_p=p)
            y = y.transpose(1, 2).reshape(x.shape)
            return F.dropout(self.out(y), p)

    class Mlp(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.up, self.down, self.act = \
                nn.Linear(H, 4 * H), nn.Linear(4 * H, H), act

        def forward(self, x):
            return F.dropout(self.down(self.act(self.up(x))), p)

    class Layer(nn.Module):
        """Self-attention, cross-attention if there is a memory, MLP."""

        def __init__(self, act, causal=False, pre=False, cross=False):
            super().__init__()
            self.pre = pre
            parts = [Attention(causal)]
            if cross:
                parts.append(Attention(False, cross=True))
            parts.append(Mlp(act))
            self.parts = nn.ModuleList(parts)
            self.norms = nn.ModuleList(nn.LayerNorm(H) for _ in parts)

        def forward(self, x, memory=None):
            for part, norm in zip(self.parts, self.norms):
                y = norm(x) if self.pre else x
                y = part(y, memory) if getattr(part, "cross", False) \
                    else part(y)
                x = x + y if self.pre else norm(x + y)
            return x

    class Bert(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(V, H)
            self.positions = nn.Embedding(S, H)
            self.types = nn.Embedding(2, H)
            self.norm = nn.LayerNorm(H)
            self.layers = nn.ModuleList(
                Layer(F.gelu) for _ in range(z["layers"]))
            self.dense, self.dense_norm = nn.Linear(H, H), nn.LayerNorm(H)
            self.bias = nn.Parameter(torch.zeros(V))

        def forward(self, ids, types, labels):
            x = self.words(ids) + self.positions.weight + self.types(types)
            x = F.dropout(self.norm(x), p)
            for layer in self.layers:
                x = layer(x)
            x, labels = x.view(-1, H), labels.view(-1)
            if z["labels"] < S:
                rows = (labels >= 0).nonzero().squeeze(1)
                x, labels = x[rows], labels[rows]
            x = self.dense_norm(F.gelu(self.dense(x)))
            x = F.linear(x, self.words.weight, self.bias)
            return F.cross_entropy(x, labels, ignore_index=-1)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(V, H)
            self.positions = nn.Embedding(S, H)

            def act(x):
                return F.gelu(x, approximate="tanh")

            self.layers = nn.ModuleList(
                Layer(act, causal=True, pre=True) for _ in range(z["layers"]))
            self.norm = nn.LayerNorm(H)

        def forward(self, ids, labels):
            x = self.words(ids) + self.positions.weight
            for layer in self.layers:
                x = layer(x)
            x = F.linear(self.norm(x), self.words.weight)
            return F.cross_entropy(x.view(-1, V), labels.view(-1))

    class Translation(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(V, H)
            self.encoder = nn.ModuleList(
                Layer(F.relu) for _ in range(z["layers"]))
            self.decoder = nn.ModuleList(
                Layer(F.relu, causal=True, cross=True)
                for _ in range(z["layers"]))

        def embed(self, ids):
            return F.dropout(self.words(ids) * H ** 0.5 + self.where, p)

        def forward(self, source, target, labels):
            self.where = self.where if hasattr(self, "where") \
                else torch.randn(S, H)
            x, y = self.embed(source), self.embed(target)
            for layer in self.encoder:
                x = layer(x)
            for layer in self.decoder:
                y = layer(y, x)
            y = F.linear(y, self.words.weight)
            return F.cross_entropy(y.view(-1, V), labels.view(-1),
                                   label_smoothing=0.1)

    ids = torch.randint(0, V, (z["batch"], S))
    if name == "gpt2":
        return Gpt2(), (ids, ids.roll(-1, 1))
    if name == "translation":
        return Translation(), (ids, ids.flip(1), ids.flip(1).roll(-1, 1))
    rows = torch.rand(ids.shape).argsort(1)[:, :20]
    labels = torch.full_like(ids, -1)
    labels = labels.scatter(1, rows, ids.gather(1, rows))
    return Bert(), (ids, torch.zeros_like(ids), labels)


def torch_worker(name, n_threads):
    import torch

    torch.set_num_threads(n_threads)
    torch.manual_seed(0)
    model, batch = build(name)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def go():
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=BF16 in name):
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - start

    go()
    go()
    print(json.dumps({"ready": "torch " + torch.__version__}), flush=True)
    while sys.stdin.readline():
        print(json.dumps({"seconds": go()}), flush=True)


# ---- The contest ------------------------------------------------------------

def start(command, name, n_threads):
    env = dict(os.environ, OMP_NUM_THREADS=str(n_threads))
    return Contestant(command[0], 1, [subprocess.Popen(
        command + [name, str(n_threads)], env=env, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)])


def contest(args, name, n_threads):
    pair = [start([sys.executable, os.path.abspath(__file__), "--worker"],
                  name, n_threads),
            start([args.program, "worker"], name, n_threads)]
    for _ in range(args.rounds):
        for contestant in pair:
            contestant.turn(size_of(name)["batch"])
    for contestant in pair:
        contestant.stop()
    peer, own = (c.rates for c in pair)
    ratios = [b / a for a, b in zip(peer, own)]
    print(json.dumps({"case": "peer-step", "model": name,
                      "threads": n_threads, "torch": peer, "vpipe": own,
                      "about": pair[0].about}), flush=True)
    return (f"| {name} | {n_threads} | {spread(peer)} | {spread(own)} | "
            f"{spread(ratios)} |")


def main():
    args = arguments()
    if args.worker:
        torch_worker(args.worker[0], int(args.worker[1]))
        return
    rows = [contest(args, name, n_threads)
            for name in args.models.split(",")
            for n_threads in map(int, args.threads.split(","))]
    print("\nsamples/s: median (least..most)")
    print("| model | threads | torch | vpipe | vpipe / torch |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
