#!/usr/bin/env python3
"""Compares the pipelines of torch.distributed.pipelining and vpipe, in one run.

Both train the same BERT (same layers, batch, labelled tokens, dropout, AdamW,
fp32, 1F1B, one thread per stage) with 1, 2 and 4 stages on the same cores;
vpipe also with a process per stage over MPI, as torch has them over gloo, and
without a flush (asp), which torch does not have.
All contestants are set up and warm before the first round, then they take
turns; a turn is one update, timed by the contestant around the whole step.

  bench/peer_torch.py --program build/bench_pipeline [--head labelled|full]

--head full computes the logits of every token, --head labelled those of the
labelled tokens only; torch does the latter by putting the head into the loss
function. Needs a Python with torch; PyPI's CPU build will do.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default="build/bench_pipeline")
    p.add_argument("--stages", default="1,2,4")
    p.add_argument("--cores", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--minibatches", type=int, default=8)
    p.add_argument("--head", choices=("labelled", "full"), default="labelled")
    p.add_argument("--vocab", type=int, default=8192)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--labels", type=int, default=20,
                   help="scored tokens per sequence")
    p.add_argument("--dropout", type=int, default=10, help="percent")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


# ---- torch, one process per stage -------------------------------------------

def cut(args, n_stages):
    """Returns the first layer of every stage in the most balanced cut, with the cost
    of the head."""
    rows = args.labels / args.seq if args.head == "labelled" else 1.0
    head = rows * (args.vocab + args.hidden) / (12.0 * args.hidden)
    best = None

    def search(firsts):
        nonlocal best
        if len(firsts) == n_stages:
            ends = firsts[1:] + [args.layers]
            work = [e - f for f, e in zip(firsts, ends)]
            work[-1] += head
            key = (max(work), sum(w * w for w in work))
            if best is None or key < best[0]:
                best = (key, firsts)
            return
        left = n_stages - len(firsts) - 1
        for first in range(firsts[-1] + 1, args.layers - left):
            search(firsts + [first])

    search([0])
    return best[1] + [args.layers]


def build(args, rank, n_stages):
    import torch
    from torch import nn
    from torch.nn import functional as F

    H, S, p = args.hidden, args.seq, args.dropout / 100

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(H, 3 * H), nn.Linear(H, H)
            self.norm1, self.norm2 = nn.LayerNorm(H), nn.LayerNorm(H)
            self.up, self.down = nn.Linear(H, 4 * H), nn.Linear(4 * H, H)

        def forward(self, x):  # [B, S, H]
            b = x.shape[0]
            q, k, v = self.qkv(x).view(
                b, S, 3, args.heads, H // args.heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
            y = self.out(y.transpose(1, 2).reshape(b, S, H))
            x = self.norm1(x + F.dropout(y, p))
            y = self.down(F.gelu(self.up(x)))
            return self.norm2(x + F.dropout(y, p))

    class Embeddings(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(args.vocab, H)
            self.positions = nn.Embedding(S, H)
            self.types = nn.Embedding(2, H)
            self.norm = nn.LayerNorm(H)

        def forward(self, ids):  # [B, S]
            return F.dropout(self.norm(
                self.words(ids) + self.positions.weight +
                self.types.weight[0]), p)

    firsts = cut(args, n_stages)
    parts = [Embeddings()] if rank == 0 else []
    parts += [Layer() for _ in range(firsts[rank], firsts[rank + 1])]
    head = None
    if rank == n_stages - 1:
        head = nn.Sequential(nn.Linear(H, H), nn.GELU(), nn.LayerNorm(H),
                             nn.Linear(H, args.vocab))
    stage = nn.Sequential(*parts)
    if head is not None and args.head == "full":
        stage.append(head)

    def loss(out, labels):
        labels = labels.reshape(-1)
        out = out.reshape(labels.numel(), -1)
        if args.head == "labelled":
            rows = (labels >= 0).nonzero().squeeze(1)
            out, labels = head(out[rows]), labels[rows]
        return F.cross_entropy(out, labels, ignore_index=-1)

    params = list(stage.parameters())
    if head is not None and args.head == "labelled":
        params += list(head.parameters())
    return stage, loss, torch.optim.AdamW(params, 1e-4, fused=True)


def make_batch(args):
    import torch

    n = args.batch * args.minibatches
    ids = torch.randint(0, args.vocab, (n, args.seq))
    rows = torch.rand(n, args.seq).argsort(1)[:, :args.labels]
    labels = torch.full((n, args.seq), -1)
    return ids, labels.scatter(1, rows, ids.gather(1, rows))


def single_step(args):
    stage, loss, optimizer = build(args, 0, 1)
    ids, labels = make_batch(args)
    n = args.minibatches

    def step():
        for x, y in zip(ids.split(args.batch), labels.split(args.batch)):
            (loss(stage(x), y) / n).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def pipeline_step(args, rank, n_stages):
    import torch
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    stage, loss, optimizer = build(args, rank, n_stages)
    ids, labels = make_batch(args)
    pipe = Schedule1F1B(
        PipelineStage(stage, rank, n_stages, torch.device("cpu")),
        args.minibatches, loss_fn=loss)

    def step():
        if rank == 0:
            pipe.step(ids)
        elif rank == n_stages - 1:
            pipe.step(target=labels, losses=[])
        else:
            pipe.step()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def torch_worker(args):
    import datetime
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if n > 1:
        dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
    step = pipeline_step(args, rank, n) if n > 1 else single_step(args)

    def go():
        start = time.perf_counter()
        step()
        if n > 1:
            dist.barrier()
        return time.perf_counter() - start

    go()
    go()
    if rank == 0:
        print(json.dumps({"ready": "torch " + torch.__version__}), flush=True)
    while True:
        flag = torch.zeros(1)
        if rank == 0:
            flag[0] = 1.0 if sys.stdin.readline() else 0.0
        if n > 1:
            dist.broadcast(flag, 0)
        if flag[0] == 0.0:
            break
        seconds = go()
        if rank == 0:
            print(json.dumps({"seconds": seconds}), flush=True)
    if n > 1:
        dist.destroy_process_group()


# ---- The contest ------------------------------------------------------------

class Contestant:
    def __init__(self, name, n_stages, processes, longer=1):
        self.name, self.n_stages, self.processes = name, n_stages, processes
        self.longer = longer
        self.rates = []
        self.about = self.read()

    def read(self):
        line = self.processes[0].stdout.readline()
        if not line:
            sys.exit(f"peer_torch: {self.name}, {self.n_stages} stages, ended")
        return json.loads(line)

    def turn(self, n_samples):
        self.processes[0].stdin.write("go\n")
        self.processes[0].stdin.flush()
        self.rates.append(
            self.longer * n_samples / self.read()["seconds"])

    def stop(self):
        self.processes[0].stdin.close()
        for process in self.processes:
            process.wait(timeout=60)

    def median(self):
        return statistics.median(self.rates)


def start_torch(args, n_stages):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    processes = []
    for rank in range(n_stages):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(n_stages),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                   OMP_NUM_THREADS="1")
        processes.append(subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker"] +
            sys.argv[1:], env=env, text=True,
            stdin=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL))
    return Contestant("torch", n_stages, processes)


LONGER = 4  # a stream is measured over more minibatches, as it never drains


MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to",
          "none", "--quiet"]


def start_vpipe(args, n_stages, schedule, longer=1, mpi=False):
    labels = args.labels if args.head == "labelled" else args.seq
    sizes = {"stages": n_stages, "minibatches": longer * args.minibatches,
             "batch": args.batch, "labels": labels, "seq": args.seq,
             "hidden": args.hidden, "layers": args.layers,
             "heads": args.heads, "vocab": args.vocab}
    if args.dropout:
        sizes["dropout"] = args.dropout
    command = [args.program, "worker", "--schedule", schedule]
    for key, value in sizes.items():
        command += ["--" + key, str(value)]
    if mpi and n_stages > 1:
        command = MPIRUN + ["-n", str(n_stages)] + command
    return Contestant("vpipe mpi" if mpi else "vpipe", n_stages,
                      [subprocess.Popen(
                          command, text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)], longer)


def spread(values):
    return (f"{statistics.median(values):.2f} "
            f"({min(values):.2f}..{max(values):.2f})")


def ratios(own, peer):
    return [b / a for a, b in zip(peer.rates, own.rates)]


def report(args, teams):
    print(f"\n{args.head} head, dropout {args.dropout} %, {args.minibatches} "
          f"minibatches of {args.batch}, {args.cores} cores; samples/s: "
          "median (least..most)")
    print("| stages | torch 1f1b | vpipe 1f1b | over MPI | vpipe asp "
          "| 1f1b / torch | MPI / torch | MPI / threads | asp / torch "
          "| torch / its 1 stage | vpipe / its 1 stage |")
    print("| --- " * 11 + "|")
    for peer, own, apart, stream in teams:
        print(f"| {own.n_stages} | {spread(peer.rates)} | {spread(own.rates)} "
              f"| {spread(apart.rates)} | {spread(stream.rates)} "
              f"| {spread(ratios(own, peer))} | {spread(ratios(apart, peer))} "
              f"| {spread(ratios(apart, own))} "
              f"| {spread(ratios(stream, peer))} "
              f"| {peer.median() / teams[0][0].median():.2f} "
              f"| {own.median() / teams[0][1].median():.2f} |")


def main():
    args = arguments()
    if args.worker:
        torch_worker(args)
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.cores])
    teams = [(start_torch(args, n), start_vpipe(args, n, "1f1b"),
              start_vpipe(args, n, "1f1b", mpi=True),
              start_vpipe(args, n, "pipedream", LONGER))
             for n in map(int, args.stages.split(","))]
    for _ in range(args.rounds):
        for team in teams:
            for contestant in team:
                contestant.turn(args.batch * args.minibatches)
    for team in teams:
        for c in team:
            c.stop()
            print(json.dumps({
                "case": "peer", "program": c.name, "stages": c.n_stages,
                "head": args.head, "samples_per_second": c.rates,
                "about": c.about}))
    report(args, teams)


if __name__ == "__main__":
    main()
