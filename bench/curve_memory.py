#!/usr/bin/env python3
"""Step time over peak memory: PyTorch's activation_memory_budget and vpipe.

BERT-large on one GPU in bf16, one minibatch per step. PyTorch compiles the model
again for each budget (0: recompute all it can, 1: keep all) and reports the peak of
its allocator; vpipe trains with recompute_in_backward and a recompute_ratio, and
reports the bytes that it planned and allocated.

  bench/curve_memory.py --program build/vpipe [--budgets 1,0.5,0.25,0]
                        [--ratios 0,0.5,1] [--batch 32] [--seq 512]
  bench/curve_memory.py --program build/vpipe --swap

With --swap: four stages that share the GPU, 16 minibatches of 8 x 512 tokens per
update, with a share of the saved activations kept, swapped or recomputed.

Prints a line of JSON per point. vpipe allocates exactly the bytes of its plan, which
memory_limit limits; a budget of PyTorch is a share of its saved activations.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import peer_gpu

STEPS = 10


def torch_point(budget, case):
    import torch
    import torch._functorch.config as functorch

    functorch.activation_memory_budget = budget
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    model, batch = peer_gpu.build(case)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    run = torch.compile(model)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    print(json.dumps({"torch": torch.__version__, "budget": budget,
                      "ms": 1e3 * statistics.median(times),
                      "bytes": torch.cuda.max_memory_allocated()}), flush=True)


SWAP = {
    "keep": {},
    "swap_ratio 0.25": dict(swap_ratio=0.25),
    "swap_ratio 0.5": dict(swap_ratio=0.5),
    "swap_ratio 1, stage 0": dict(swap_ratio="[1, 0, 0, 0]"),
    "swap_ratio 1": dict(swap_ratio=1),
    "recompute_ratio 1": dict(recompute_ratio=1),
    "in backward": dict(recompute_ratio=1, recompute_in_backward="true"),
}


def own_point(program, name, case, **more):
    settings = dict(model_type="bert", vocab=case["vocab"],
                    hidden=case["hidden"], layers=case["layers"],
                    heads=case["heads"], positions=case["seq"],
                    dropout=case["dropout"], tie_embeddings="true",
                    synthetic_data="true", seq_length=case["seq"],
                    batch_size=case["batch"], optimizer="adamw",
                    learning_rate=0.0001, sync_mode="bsp", precision="bf16",
                    device="cuda", checkpoint_every=0, **more)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bert.yml")
        with open(path, "w") as f:
            f.writelines(f"{k}: {v}\n" for k, v in settings.items())
        run = os.path.join(folder, "run")
        subprocess.run([program, "train", path, "--max-steps", str(STEPS + 5),
                        "--output", run, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "metrics.jsonl")) as f:
            steps = [r for r in map(json.loads, f) if "loss" in r][5:]
    print(json.dumps({"vpipe": name,
                      "ms": 1e3 * statistics.median(
                          r["seconds"] for r in steps),
                      "bytes": steps[-1]["memory"],
                      "loss": steps[-1]["loss"]}), flush=True)


def numbers(text):
    return [float(x) for x in text.split(",") if x]


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default="build/vpipe")
    p.add_argument("--budgets", default="1,0.5,0.25,0")
    p.add_argument("--ratios", default="0,0.25,0.5,0.75,1")
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--swap", action="store_true")
    p.add_argument("--point", type=float, help=argparse.SUPPRESS)
    args = p.parse_args()
    case = dict(peer_gpu.BERT, batch=args.batch, seq=args.seq, labels=80)
    if args.point is not None:
        return torch_point(args.point, case)
    if args.swap:
        case.update(batch=8, seq=512)
        for name, more in SWAP.items():
            own_point(args.program, name, case, stages=4, schedule="1f1b",
                      accumulation_steps=16, **more)
        return None
    for ratio in numbers(args.ratios):
        own_point(args.program, ratio, case, stages=1, accumulation_steps=1,
                  recompute_ratio=ratio, recompute_in_backward="true")
    # A process for each point, so that compiled code and caches are not shared.
    for budget in numbers(args.budgets):
        subprocess.run([sys.executable, __file__, "--point", str(budget),
                        "--batch", str(args.batch), "--seq", str(args.seq)],
                       check=False)
    return None


if __name__ == "__main__":
    main()
