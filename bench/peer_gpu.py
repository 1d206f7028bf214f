#!/usr/bin/env python3
"""Compares a training step of PyTorch and of vpipe on one GPU, in one run.

Both train the same model (same layers, batch, dropout, loss, AdamW), PyTorch
under autocast to bf16 with fp32 weights, vpipe in bf16 with fp32 weights in two
halves. PyTorch is set up and warm in all modes, compilation included, before vpipe
starts; then they take turns. A turn is ten steps, timed by the contestant around
them, with the GPU idle at both ends.

  bench/peer_gpu.py --program build/bench_gpu [--modes eager,compile,...] [CASE]...
  bench/peer_gpu.py --table

Cases are those of bench_gpu. The loss of masked LM needs the logits of labelled tokens
only: vpipe runs with all logits and with these, and in `-labelled` cases PyTorch
computes only these, too. Every case in every mode is a line of the results file, so
that a long comparison can be made in parts; the table takes the last line of each.
Compiled code of PyTorch is kept beside that file.
"""
import argparse
import fcntl
import importlib.util
import json
import os
import signal
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
         "max-autotune": "max-autotune",
         "max-autotune-no-cudagraphs": "max-autotune-no-cudagraphs"}
TURN = 10  # steps


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default="build/bench_gpu")
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--limit", type=int, default=900,
                   help="seconds in which a contestant must be ready")
    p.add_argument("--together", action="store_true",
                   help="all cases get ready before the first turn, and share "
                        "the memory")
    p.add_argument("--results", default="peer-gpu.jsonl")
    p.add_argument("--table", action="store_true",
                   help="print the results so far; measure nothing")
    p.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    p.add_argument("cases", nargs="*")
    args = p.parse_args()
    args.cases = args.cases or list(CASES)
    args.modes = args.modes.split(",")
    for what, names, known in (("case", args.cases, CASES),
                               ("mode", args.modes, MODES)):
        for name in names:
            if name not in known:
                p.error(f"unknown {what} {name}; one of: {', '.join(known)}")
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


def measure_alone():
    """Lets only one worker at a time measure kernels for autotuning, while workers
    prepare in parallel."""
    import torch
    from torch._inductor.runtime.benchmarking import benchmarker

    lock = open(os.path.join(os.environ["TORCHINDUCTOR_CACHE_DIR"], "lock"), "w")
    measure = benchmarker.benchmark_gpu

    def in_turn(call, *args, **options):
        call()  # compiles, which takes longer than the measurement
        torch.cuda.synchronize()
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return measure(call, *args, **options)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)

    benchmarker.benchmark_gpu = in_turn


def torch_worker(name, mode):
    import torch

    measure_alone()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
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
    def __init__(self, command, limit):
        self.start = time.perf_counter()
        self.ms, self.limit = [], limit
        self.process = subprocess.Popen(command, text=True,
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def get_ready(self):
        self.about = self.read()
        self.ready = time.perf_counter() - self.start
        return self.about

    def read(self):
        """Returns the next line; None if the contestant ended or takes too long."""
        signal.alarm(self.limit)
        try:
            line = self.process.stdout.readline()
        except TimeoutError:
            line = ""
        signal.alarm(0)
        return json.loads(line) if line else None

    def turn(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.ms.append(1e3 * self.read()["seconds"])

    def stop(self):
        if not self.about:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait(timeout=60)


def out_of_time(_signal, _frame):
    raise TimeoutError


def start_peers(args, names):
    """Returns {case: {mode: contestant}}, failed ones included. They prepare in
    parallel."""
    here = os.path.abspath(__file__)
    peers = {name: {mode: Contestant(
        [sys.executable, here, "--worker", name, mode], args.limit)
        for mode in args.modes} for name in names}
    for modes in peers.values():
        for peer in modes.values():
            peer.get_ready()
    return peers


def start_own(args, name):
    """Starts vpipe for the case; masked LM also with labelled rows only. Leaves out
    those that cannot start, for example because memory is short."""
    names = {"vpipe": name, "vpipe_labelled": name + "-labelled"}
    own = {}
    for key, case in names.items():
        if case in CASES:
            one = Contestant([args.program, "worker", case], args.limit)
            if one.get_ready():
                own[key] = one
            else:
                one.stop()
                print(f"peer_gpu.py: {args.program} worker {case} failed",
                      file=sys.stderr)
    return own


def contest(args, name, peers):
    """Returns lines for the results file, one per mode; without times if PyTorch or
    vpipe failed."""
    able = [peer for peer in peers.values() if peer.about]
    own = start_own(args, name) if able else {}
    for _ in range(args.rounds if "vpipe" in own else 0):
        for contestant in able + list(own.values()):
            contestant.turn()
    for contestant in list(peers.values()) + list(own.values()):
        contestant.stop()
    for mode in args.modes:
        line = {"case": "peer-gpu", "model": name, "mode": mode}
        peer = peers[mode]
        if peer.ms:
            line.update(torch=peer.ms, torch_gib=peer.about["gib"],
                        ready_s=peer.ready, about=peer.about["ready"])
            for key, contestant in own.items():
                line[key] = contestant.ms
                line[key + "_gib"] = contestant.about["gib"]
        yield line


# ---- The table --------------------------------------------------------------

def spread(values, digits=2):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f}..{max(values):.{digits}f})")


def read_results(path):
    """Returns {case: {mode: line}}, in the order of the cases."""
    found = {name: {} for name in CASES}
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            found[line["model"]][line["mode"]] = line
    return {name: modes for name, modes in found.items() if modes}


def ratio(line, key):
    return [a / b for a, b in zip(line["torch"], line[key])]


def print_case(name, lines):
    """Prints a row. Returns the median ratio to the best mode, None without one."""
    ran = {m: x for m, x in lines.items() if "torch" in x}
    cells = [spread(lines[m]["torch"]) if m in ran
             else "failed" if m in lines else "" for m in MODES]
    if not ran:
        print(f"| {name} | {' | '.join(cells)} |" + " |" * 8)
        return None
    best = min(ran, key=lambda m: statistics.median(ran[m]["torch"]))
    line = ran[best]
    key = "vpipe_labelled" if "vpipe_labelled" in line else "vpipe"
    labelled = [spread(line[key]), spread(ratio(line, key))]
    print(f"| {name} | {' | '.join(cells)} | {best} "
          f"| {spread(line['vpipe'])} | {spread(ratio(line, 'vpipe'))} "
          f"| {' | '.join(labelled if key != 'vpipe' else ['', ''])} "
          f"| {line['torch_gib']:.1f} | {line['vpipe_gib']:.1f} "
          f"| {line[key + '_gib']:.1f} |")
    return statistics.median(ratio(line, key))


def print_table(path):
    results = read_results(path)
    ratios = {True: [], False: []}  # True: PyTorch has labelled rows only
    print("\nms per step: median (least..most); ratios and GiB to torch's best "
          "mode; labelled: vpipe computes logits of labelled tokens only")
    print(f"| case | {' | '.join(MODES)} | best | vpipe | torch / vpipe "
          "| vpipe labelled | torch / it | torch GiB | vpipe GiB | labelled |")
    print("|" + " --- |" * (len(MODES) + 9))
    for name, lines in results.items():
        found = print_case(name, lines)
        if found:
            ratios[name.endswith("labelled")].append(found)
    for labelled, found in ratios.items():
        if found:
            print(f"\ngeometric mean of the ratios, vpipe as it trains, torch "
                  f"with logits of {'labelled' if labelled else 'all'} tokens: "
                  f"{statistics.geometric_mean(found):.3f}")


def main():
    args = arguments()
    if args.worker:
        torch_worker(*args.worker)
        return 0
    if not args.table and not importlib.util.find_spec("torch"):
        sys.exit(f"peer_gpu.py: {sys.executable} has no torch; let PYTHON name "
                 "one that has")
    signal.signal(signal.SIGALRM, out_of_time)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(
        os.path.dirname(os.path.abspath(args.results)), "inductor"))
    os.makedirs(os.environ["TORCHINDUCTOR_CACHE_DIR"], exist_ok=True)
    groups = [args.cases] if args.together else [[c] for c in args.cases]
    failed = False
    for group in [] if args.table else groups:
        peers = start_peers(args, group)
        for name in group:
            for result in contest(args, name, peers[name]):
                line = json.dumps(result)
                failed |= "torch" not in result or "vpipe" not in result
                print(line, flush=True)
                with open(args.results, "a", encoding="utf-8") as results:
                    print(line, file=results)
    print_table(args.results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
