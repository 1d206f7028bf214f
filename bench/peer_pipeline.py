#!/usr/bin/env python3
"""Compares pipelines on CPU cores: vpipe and torch.distributed.pipelining.

Both train the same BERT (layers, batch, labelled tokens, dropout, AdamW,
minibatches per update, threads per stage) with 1, 4 and 8 stages, in fp32 and
in bf16 (torch: autocast to bfloat16, weights and AdamW in fp32). Rank r of both
is bound to the same cores. torch has a process per stage over gloo and runs
1F1B and GPipe: the faster one counts. Its stages are cut between attention and
feed-forward layers, as vpipe's are; of three cuts (by measured times, by FLOPs,
same number of layers) the fastest is kept. vpipe runs the schedules of --schedule,
a row of the tables for each, and keeps the faster of two cuts (by measured times,
by FLOPs).

All contestants are set up and warm before the first round, then they take
turns; a turn is one update, timed by the contestant around the whole step.
Beside vpipe's pipelines run independent copies of its one-stage run, one per
stage, all at once. With these,

  share = speed-up / (simulated speed-up x speed of a copy)

is the part of the possible speed-up that the pipeline reaches: 1 if only the
schedule and the machine cost time. A figure is `median (least..most)` over
rounds; ratios are taken round by round. The summary comes last.

  bench/peer_pipeline.py --program build/bench_pipeline [--precisions bf16]

Needs a Python with torch; PyPI's CPU build will do. Exit 1 if a target is
missed.
"""
import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

from peer_torch import spread

RATIO = {"fp32": 1.3, "bf16": 1.5}  # targets: vpipe / torch
SHARE = 0.97
SCHEDULES = ("1f1b", "gpipe")  # torch's
HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    beside = os.path.join(HERE, "bench_pipeline")
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default=beside if os.path.exists(beside)
                   else "build/bench_pipeline")
    p.add_argument("--stages", default="4,8")
    p.add_argument("--threads", type=int, default=1, help="per stage")
    p.add_argument("--precisions", default="fp32,bf16")
    p.add_argument("--schedule", default="1f1b", help="schedules of vpipe, such as 1f1b,zb-h1")
    p.add_argument("--unpinned", action="store_true",
                   help="use any cores, for a trial on a machine with too few")
    p.add_argument("--rounds", type=int, default=5, help="most rounds")
    p.add_argument("--minutes", type=float, default=3.6,
                   help="no round after the first begins if it would end later")
    p.add_argument("--minibatches", type=int, default=16, help="per update")
    p.add_argument("--head", choices=("labelled", "full"), default="labelled")
    p.add_argument("--vocab", type=int, default=8192)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--heads", type=int, default=8)
    p.add_argument("--seq", type=int, default=128)
    p.add_argument("--batch", type=int, default=2)
    p.add_argument("--labels", type=int, default=20,
                   help="scored tokens per sequence")
    p.add_argument("--dropout", type=int, default=10, help="percent")
    p.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


# ---- Cuts of torch's stages -------------------------------------------------

def balance(costs, n_stages):
    """Returns the sizes of consecutive parts whose largest cost is least."""
    n = len(costs)
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)
    # best[i]: (largest, sum of squares, sizes) of the first i in k parts
    best = {0: (0.0, 0.0, ())}
    for k in range(1, n_stages + 1):
        best = {i: min((max(a, sums[i] - sums[j]), b + (sums[i] - sums[j]) ** 2,
                        sizes + (i - j,))
                       for j, (a, b, sizes) in best.items() if j < i)
                for i in range(k, n - n_stages + k + 1)}
    return best[n][2]


def flops(args):
    """Returns relative costs of attention, feed-forward layer and head."""
    h, rows = args.hidden, args.labels if args.head == "labelled" else args.seq
    return {"embedding": 0.0, "attention": 4.0 * h * h + args.seq * h,
            "mlp": 8.0 * h * h,
            "head": rows / args.seq * (args.vocab * h + h * h)}


def cuts(args, n_stages, seconds):
    """Returns a few cuts of the 2 x layers units, without repetitions."""
    found = []
    for by in (seconds, flops(args)):
        costs = [by["attention"], by["mlp"]] * args.layers
        costs[0] += by["embedding"]
        costs[-1] += by["head"]
        found.append(balance(costs, n_stages))
    if args.layers >= n_stages:  # the head is last: more layers come first
        sizes = balance([1.0] * args.layers, n_stages)
        found.append(tuple(2 * n for n in sorted(sizes, reverse=True)))
    return list(dict.fromkeys(found))


# ---- torch, one process per stage -------------------------------------------

def modules(args):
    """Returns the classes of the parts."""
    from torch import nn
    from torch.nn import functional as F

    H, S, p = args.hidden, args.seq, args.dropout / 100

    class Embedding(nn.Module):
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

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(H, 3 * H), nn.Linear(H, H)
            self.norm = nn.LayerNorm(H)

        def forward(self, x):  # [B, S, H]
            b = x.shape[0]
            q, k, v = self.qkv(x).view(
                b, S, 3, args.heads, H // args.heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
            y = self.out(y.transpose(1, 2).reshape(b, S, H))
            return self.norm(x + F.dropout(y, p))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(H, 4 * H), nn.Linear(4 * H, H)
            self.norm = nn.LayerNorm(H)

        def forward(self, x):
            return self.norm(x + F.dropout(self.down(F.gelu(self.up(x))), p))

    class Head(nn.Module):
        """Returns the loss / minibatches, of labelled rows only or of all logits."""

        def __init__(self):
            super().__init__()
            self.head = nn.Sequential(nn.Linear(H, H), nn.GELU(),
                                      nn.LayerNorm(H),
                                      nn.Linear(H, args.vocab))

        def forward(self, x, labels):
            x, labels = x.reshape(-1, H), labels.reshape(-1)
            if args.head == "labelled":
                rows = (labels >= 0).nonzero().squeeze(1)
                x, labels = x[rows], labels[rows]
            return F.cross_entropy(self.head(x), labels, ignore_index=-1) \
                / args.minibatches

    return {"embedding": Embedding, "attention": Attention, "mlp": Mlp,
            "head": Head}


def make_batch(args):
    import torch

    n = args.batch * args.minibatches
    ids = torch.randint(0, args.vocab, (n, args.seq))
    rows = torch.rand(n, args.seq).argsort(1)[:, :args.labels]
    labels = torch.full((n, args.seq), -1)
    return ids, labels.scatter(1, rows, ids.gather(1, rows))


class TorchStage:
    """One stage and its optimizer; a step is one update."""

    def __init__(self, args, rank, cut, precision):
        import torch
        from torch import nn

        parts = modules(args)
        first, n = sum(cut[:rank]), len(cut)
        names = (["attention", "mlp"] * args.layers)[first:first + cut[rank]]
        self.args, self.rank, self.n, self.precision = args, rank, n, precision
        self.body = nn.Sequential(*(parts[name]() for name in (
            ["embedding"] if rank == 0 else []) + names))
        self.head = parts["head"]() if rank == n - 1 else None
        params = list(self.body.parameters())
        if self.head is not None:
            params += list(self.head.parameters())
        self.optimizer = torch.optim.AdamW(params, 1e-4, fused=True)
        self.batch = make_batch(args)
        self.pipes = {}

    def pipe(self, name, n_mb):
        import torch
        from torch.distributed import pipelining

        if (name, n_mb) not in self.pipes:
            kind = {"1f1b": pipelining.Schedule1F1B,
                    "gpipe": pipelining.ScheduleGPipe}[name]
            self.pipes[name, n_mb] = kind(
                pipelining.PipelineStage(self.body, self.rank, self.n,
                                         torch.device("cpu")),
                n_mb, loss_fn=self.head or (lambda x, labels: None),
                scale_grads=False)
        return self.pipes[name, n_mb]

    def backward(self, name, n_mb):
        n = n_mb * self.args.batch
        ids, labels = (x[:n] for x in self.batch)
        if self.n == 1:
            for x, y in zip(ids.split(self.args.batch),
                            labels.split(self.args.batch)):
                self.head(self.body(x), y).backward()
        elif self.rank == 0:
            self.pipe(name, n_mb).step(ids)
        elif self.rank == self.n - 1:
            self.pipe(name, n_mb).step(target=labels, losses=[])
        else:
            self.pipe(name, n_mb).step()

    def step(self, name, n_mb=0):
        """Returns an autocast context for all minibatches of an update, so that
        weights are cast once per update."""
        import torch

        with torch.autocast("cpu", torch.bfloat16,
                            enabled=self.precision == "bf16"):
            self.backward(name, n_mb or self.args.minibatches)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def time_parts(args, precision):
    """Returns the seconds per minibatch of each part: forward, backward and its
    share of an update."""
    import torch

    seconds = {}
    ids, labels = (x[:args.batch] for x in make_batch(args))
    hidden = torch.randn(args.batch, args.seq, args.hidden)
    for name, make in modules(args).items():
        part = make()
        optimizer = torch.optim.AdamW(part.parameters(), 1e-4, fused=True)
        x = ids if name == "embedding" else hidden.clone().requires_grad_()
        times = []
        for _ in range(4):
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16,
                                enabled=precision == "bf16"):
                y = part(x, labels) if name == "head" else part(x).sum()
            y.backward()
            middle = time.perf_counter()
            optimizer.step()
            times.append(middle - start + (time.perf_counter() - middle) /
                         args.minibatches)
        seconds[name] = min(times[1:])
    return seconds


class TorchWorker:
    def __init__(self, args):
        import datetime
        import torch
        import torch.distributed as dist

        self.args, self.stages, self.dist = args, {}, dist
        self.rank = int(os.environ["RANK"])
        self.n = int(os.environ["WORLD_SIZE"])
        torch.set_num_threads(args.threads)
        torch.manual_seed(self.rank)
        if self.n > 1:
            dist.init_process_group("gloo",
                                    timeout=datetime.timedelta(minutes=10))
        self.say({"ready": "torch " + torch.__version__})

    def say(self, what):
        if self.rank == 0:
            print(json.dumps(what), flush=True)

    def share(self, value):
        """Rank 0's."""
        box = [value]
        if self.n > 1:
            self.dist.broadcast_object_list(box, 0)
        return box[0]

    def timed(self, stage, *how):
        start = time.perf_counter()
        stage.step(*how)
        if self.n > 1:
            self.dist.barrier()
        return time.perf_counter() - start

    def setup(self, precision):
        """Tries the cuts with short updates, then warms up the best one."""
        args, best = self.args, None
        found = self.share(cuts(args, self.n, time_parts(args, precision))
                           if self.rank == 0 else None)
        for cut in found:
            stage = TorchStage(args, self.rank, cut, precision)
            if len(found) > 1:
                n_mb = min(args.minibatches, self.n)
                self.timed(stage, "1f1b", n_mb)
                seconds = min(self.timed(stage, "1f1b", n_mb)
                              for _ in range(3))
            else:
                seconds = 0.0
            if self.share(best is None or seconds < best[0]):
                best = (seconds, cut, stage)
        stage = self.stages[precision] = best[2]
        stage.pipes.clear()
        for name in SCHEDULES[:self.n]:
            self.timed(stage, name)
        self.say({"cut": best[1], "of": len(found)})

    def obey(self):
        while True:
            line = sys.stdin.readline() if self.rank == 0 else ""
            words = self.share(line.split())
            if not words:
                break
            if words[0] == "setup":
                self.setup(words[1])
            else:
                self.say({"seconds": self.timed(self.stages[words[1]],
                                                words[0])})
        # Threads of gloo that still run would abort a normal exit.
        sys.stdout.flush()
        os._exit(0)


# ---- The contest ------------------------------------------------------------

def pick_cores(n):
    """Returns n cores in the order of their numbers. Uses two threads of a physical
    core only if no other core is free."""
    free, seen, order = sorted(os.sched_getaffinity(0)), {}, []
    for core in free:
        try:
            path = f"/sys/devices/system/cpu/cpu{core}/topology/"
            with open(path + "physical_package_id") as a, \
                    open(path + "core_id") as b:
                place = (a.read(), b.read())
        except OSError:
            place = (core,)
        seen[place] = seen.get(place, 0) + 1
        order.append((seen[place], core))
    if n > len(free):
        sys.exit(f"peer_pipeline: {n} cores are needed, {len(free)} are here; "
                 "use fewer stages or threads, or --unpinned")
    return sorted(core for _, core in sorted(order)[:n])


def share_of(args, cores, first, n_ranks=1):
    """Returns the cores of ranks from `first` on."""
    t = args.threads
    return cores if args.unpinned else cores[first * t:(first + n_ranks) * t]


class Worker:
    """Processes of one contestant; requests go to the first one."""

    def __init__(self, name, commands):
        self.name, self.n = name, len(commands)
        self.processes = [subprocess.Popen(
            command, env=env, text=True,
            preexec_fn=lambda own=cores: os.sched_setaffinity(0, own),
            stdin=subprocess.PIPE if i == 0 else subprocess.DEVNULL,
            stdout=subprocess.PIPE if i == 0 else subprocess.DEVNULL)
            for i, (command, env, cores) in enumerate(commands)]

    def read(self):
        line = self.processes[0].stdout.readline()
        if not line:
            self.stop()
            sys.exit(f"peer_pipeline: {self.name} ended")
        return json.loads(line)

    def ask(self, text):
        self.processes[0].stdin.write(text + "\n")
        self.processes[0].stdin.flush()
        return self.read()

    def stop(self):
        self.processes[0].stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def start_torch(args, cores, n_stages):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    env = dict(os.environ, WORLD_SIZE=str(n_stages), MASTER_ADDR="127.0.0.1",
               MASTER_PORT=port, OMP_NUM_THREADS=str(args.threads))
    if os.path.exists("/sys/class/net/lo"):
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    command = [sys.executable, os.path.abspath(__file__), "--worker"] + \
        sys.argv[1:]
    return Worker(f"torch, {n_stages} stages", [
        (command, dict(env, RANK=str(r)), share_of(args, cores, r))
        for r in range(n_stages)])


def start_vpipe(args, cores, precision, n_stages, schedule, copies=0):
    labels = args.labels if args.head == "labelled" else args.seq
    sizes = {"minibatches": args.minibatches, "threads": args.threads,
             "batch": args.batch, "labels": labels, "seq": args.seq,
             "hidden": args.hidden, "layers": args.layers,
             "heads": args.heads, "vocab": args.vocab}
    if args.dropout:
        sizes["dropout"] = args.dropout
    sizes["copies" if copies else "stages"] = copies or n_stages
    command = [args.program, "worker", "--schedule", schedule]
    command += [] if args.unpinned else ["--pinned"]
    command += ["--bf16"] if precision == "bf16" else []
    for key, value in sizes.items():
        command += ["--" + key, str(value)]
    name = f"{copies} copies" if copies else f"{n_stages} stages, {schedule}"
    worker = Worker(f"vpipe {precision}, {name}", [
        (command, None, share_of(args, cores, 0, copies or n_stages))])
    worker.about = worker.read()
    return worker


class Team:
    """Both programs with one number of stages and one precision."""

    def __init__(self, args, cores, precision, n_stages, peer):
        self.args, self.precision, self.n = args, precision, n_stages
        schedules = args.schedule.split(",")
        self.own = {name: start_vpipe(args, cores, precision, n_stages, name)
                    for name in schedules[:n_stages]}
        self.copies = start_vpipe(args, cores, precision, 1, schedules[0],
                                  n_stages) if n_stages > 1 else None
        self.peer = peer
        self.about = peer.ask(f"setup {precision}")
        self.torch = {name: [] for name in SCHEDULES[:n_stages]}
        self.vpipe, self.simulated, self.error = (
            {name: [] for name in self.own} for _ in range(3))
        self.together = []

    def turn(self):
        for name, times in self.torch.items():
            times.append(self.peer.ask(f"{name} {self.precision}")["seconds"])
        for name, worker in self.own.items():
            own = worker.ask("go")
            self.vpipe[name].append(own["seconds"])
            self.simulated[name].append(own["simulated_speedup"])
            self.error[name].append(own["simulated"] / own["seconds"])
        if self.copies:
            self.together.append(self.copies.ask("go")["seconds"])

    def stop(self):
        for worker in self.own.values():
            worker.stop()
        if self.copies:
            self.copies.stop()

    def best(self):
        return min(self.torch, key=lambda n: statistics.median(self.torch[n]))

    def rates(self, times):
        n = self.args.batch * self.args.minibatches
        return [n / seconds for seconds in times]


def divided(a, b):
    return [x / y for x, y in zip(a, b)]


def exact(values):
    return (f"{statistics.median(values):.3f} "
            f"({min(values):.3f}..{max(values):.3f})")


def target(values, least, missed):
    met = statistics.median(values) >= least
    missed.append(not met)
    return f"{exact(values)} {'met' if met else 'MISSED'}"


def contest(args, cores, peers, precision, ends):
    """Runs at least one round; others only if they would end before `ends`."""
    teams = [Team(args, cores, precision, n, peer) for n, peer in peers.items()]
    last = 0.0
    for i in range(args.rounds):
        start = time.monotonic()
        if i > 0 and start + last > ends:
            break
        for team in teams:
            team.turn()
        last = time.monotonic() - start
    for team in teams:
        team.stop()
        print(json.dumps({
            "case": "peer-pipeline", "precision": precision, "stages": team.n,
            "threads": args.threads, "torch_s": team.torch,
            "torch_cut": team.about, "vpipe_s": team.vpipe,
            "vpipe_cut": {name: worker.about["partition"]
                          for name, worker in team.own.items()},
            "simulated_speedup": team.simulated, "copies_s": team.together,
            "simulated_over_measured": team.error}), flush=True)
    return teams


def report_rates(teams, missed):
    print("\nsamples/s\n| precision | stages | torch | its schedule | vpipe "
          "| its schedule | vpipe / torch | target |")
    print("| --- " * 8 + "|")
    for team in teams:
        best = team.best()
        least = RATIO[team.precision]
        for name, times in team.vpipe.items():
            ratio = divided(team.torch[best], times)
            print(f"| {team.precision} | {team.n} "
                  f"| {spread(team.rates(team.torch[best]))} "
                  f"| {best if team.n > 1 else ''} "
                  f"| {spread(team.rates(times))} "
                  f"| {name if team.n > 1 else ''} | " + (
                      f"{target(ratio, least, missed)} | {least} |"
                      if team.n > 1 else f"{spread(ratio)} | |"))


def report_shares(teams, missed):
    print("\n| precision | stages | torch, speed-up | schedule "
          "| vpipe, speed-up | simulated speed-up | speed of a copy | share "
          "| target | simulated / measured |")
    print("| --- " * 10 + "|")
    for team in teams:
        one = next(t for t in teams
                   if t.precision == team.precision and t.n == 1)
        if team.n == 1:
            continue
        alone = next(iter(one.vpipe.values()))
        peer = divided(one.torch[one.best()], team.torch[team.best()])
        for name, times in team.vpipe.items():
            simulated = team.simulated[name]
            share = divided(divided(team.together, times), simulated)
            print(f"| {team.precision} | {team.n} | {spread(peer)} | {name} "
                  f"| {spread(divided(alone, times))} | {spread(simulated)} "
                  f"| {exact(divided(alone, team.together))} "
                  f"| {target(share, SHARE, missed)} | {SHARE} "
                  f"| {exact(team.error[name])} |")


def too_long(*_):
    sys.exit("peer_pipeline: a contestant does not answer")


def main():
    args = arguments()
    if args.worker:
        TorchWorker(args).obey()
        return
    begins, missed, teams = time.monotonic(), [], []
    ns = [1] + [int(n) for n in args.stages.split(",") if n != "1"]
    cores = sorted(os.sched_getaffinity(0)) if args.unpinned \
        else pick_cores(max(ns) * args.threads)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(int(60.0 * args.minutes) + 120)
    peers = {n: start_torch(args, cores, n) for n in ns}
    version = [peer.read()["ready"] for peer in peers.values()][0]
    precisions = args.precisions.split(",")
    # fp32 steps take about three times as long as those of bf16.
    weights = [3.0 if p == "fp32" else 1.0 for p in precisions]
    for i, precision in enumerate(precisions):
        now = time.monotonic()
        left = begins + 60.0 * args.minutes - now
        teams += contest(args, cores, peers, precision,
                         now + left * weights[i] / sum(weights[i:]))
    for peer in peers.values():
        peer.stop()
    print(f"\n{version}; BERT, hidden {args.hidden}, {args.layers} layers, "
          f"{args.head} head, dropout {args.dropout} %; {args.minibatches} "
          f"minibatches of {args.batch} x {args.seq} tokens per update; "
          f"vpipe {args.schedule}; {args.threads} "
          f"thread{'s' if args.threads > 1 else ''} per stage on cores "
          f"{cores[0]} to {cores[-1]}; rounds: " +
          ", ".join(f"{len(next(iter(t.vpipe.values())))} in {t.precision}"
                    for t in teams if t.n == 1) +
          f"; {time.monotonic() - begins:.0f} s\nmedian (least..most)")
    report_rates(teams, missed)
    report_shares(teams, missed)
    sys.exit(1 if any(missed) else 0)


if __name__ == "__main__":
    main()
