#!/usr/bin/env python3
"""Compares new tokens per second of `vpipe generate` and transformers.

  bench/generate_peer.py --device cpu               batches of 1 and 64
  bench/generate_peer.py --device cuda --dtype bf16

Both continue the same prompts with a GPT-2 of 124M random weights, greedily, and
never end early. This script makes the model: nothing is downloaded. Modes of
transformers: `eager`, the default of generate(), and `static`, a static cache and a
compiled forward. A round runs all of them once; the table has medians over rounds,
and ratios are medians of ratios within a round, since machines change speed. Times
count the tokens after the first one, without loading the model, compiling and the
prompt, on both sides.
Needs PyTorch and transformers.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# transformers imports the library tokenizers, which tokenizers.py here would hide.
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() !=
               ROOT / "bench"]

STATS = re.compile(r"then (\d+) ids in \d+ steps, ([0-9.]+) s")


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--program", default=str(ROOT / "build/vpipe"))
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--batches", type=int, nargs="+", default=[1, 64])
    p.add_argument("--prompt", type=int, default=32, help="ids of a prompt")
    p.add_argument("--new", type=int, default=128, help="new ids of a text")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--modes", nargs="+", default=["eager", "static"],
                   choices=("eager", "static"))
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--layers", type=int, default=12, help="for a quick look")
    return p.parse_args()


def make_model(args, folder):
    import torch
    import transformers
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=args.layers)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder)
    return model


def make_prompts(args, batch):
    import torch
    torch.manual_seed(batch)
    return torch.randint(0, 50257, (batch, args.prompt))


# ---- transformers -----------------------------------------------------------

class Peer:
    """One mode of transformers, on a copy of the model."""

    def __init__(self, args, folder, mode):
        import torch
        import transformers
        dtype = torch.bfloat16 if args.dtype == "bf16" else torch.float32
        self.torch, self.args = torch, args
        self.model = transformers.GPT2LMHeadModel.from_pretrained(
            folder, dtype=dtype).to(args.device).eval()
        self.options = {"do_sample": False, "eos_token_id": None,
                        "pad_token_id": 0}
        if mode == "static":
            self.options["cache_implementation"] = "static"
            self.model.forward = self.compiled(self.model.forward)

    def compiled(self, plain):
        """Returns a compiled forward for single tokens, with CUDA graphs on a GPU.
        Prompts are not compiled: the cache must not be memory of a CUDA graph."""
        torch = self.torch
        fast = torch.compile(
            plain, mode="reduce-overhead" if self.args.device == "cuda" else None)

        def forward(input_ids=None, **rest):
            if input_ids is None or input_ids.shape[1] > 1:
                return plain(input_ids=input_ids, **rest)
            torch.compiler.cudagraph_mark_step_begin()
            return fast(input_ids=input_ids, **rest)

        return forward

    def generate(self, prompts, n):
        ids = prompts.to(self.args.device)
        mask = self.torch.ones_like(ids)
        if self.args.device == "cuda":
            self.torch.cuda.synchronize()
        start = time.perf_counter()
        with self.torch.inference_mode():
            out = self.model.generate(ids, attention_mask=mask,
                                      max_new_tokens=n, min_new_tokens=n,
                                      **self.options)
        out = out[:, ids.shape[1]:].tolist()
        return time.perf_counter() - start, out

    def rate(self, prompts):
        """Returns the tokens per second after the first token of each text, and the
        ids."""
        first, _ = self.generate(prompts, 1)
        seconds, ids = self.generate(prompts, self.args.new)
        n = (self.args.new - 1) * prompts.shape[0]
        return n / (seconds - first), ids


# ---- vpipe ------------------------------------------------------------------

def run_vpipe(args, folder, prompts):
    lines = [" ".join(map(str, row)) for row in prompts.tolist()]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        command = [args.program, "generate", folder, "--prompts", file.name,
                   "--print-ids", "--stats", "--ignore-eos",
                   "--max-tokens", str(args.new),
                   "--set", f"batch_size={len(lines)}",
                   "--set", f"device={args.device}",
                   "--set", f"precision={args.dtype}"]
        if args.device == "cpu":
            command += ["--set", f"threads_per_stage={args.threads}"]
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False)
    found = STATS.search(done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"vpipe failed: {done.stderr.strip()}")
    ids = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    return int(found[1]) / float(found[2]), ids


def same_ids(a, b):
    """Returns the share of ids before the first difference of each text."""
    n_same = 0
    for x, y in zip(a, b):
        for i, (p, q) in enumerate(zip(x, y)):
            if p != q:
                n_same += i
                break
        else:
            n_same += len(x)
    return n_same / sum(len(x) for x in a)


# ---- Rounds -----------------------------------------------------------------

def main():
    args = arguments()
    import torch
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        make_model(args, folder)
        peers = {mode: Peer(args, folder, mode) for mode in args.modes}
        print(f"GPT-2, {args.layers} layers, {args.device}, {args.dtype}, "
              f"prompts of {args.prompt} ids, {args.new} new ids, "
              f"{args.rounds} rounds")
        for batch in args.batches:
            prompts = make_prompts(args, batch)
            rates = {name: [] for name in ["vpipe", *peers]}
            same = {}
            for peer in peers.values(): # compiles
                peer.rate(prompts)
            for _ in range(args.rounds):
                rate, ids = run_vpipe(args, folder, prompts)
                rates["vpipe"].append(rate)
                for mode, peer in peers.items():
                    rate, other = peer.rate(prompts)
                    rates[mode].append(rate)
                    same[mode] = same_ids(ids, other)
            for name, values in rates.items():
                ratios = [a / b for a, b in zip(rates["vpipe"], values)]
                line = (f"batch {batch:3d}  {name:7s} "
                        f"{statistics.median(values):9.1f} tokens/s")
                if name != "vpipe":
                    line += (f"  vpipe is {statistics.median(ratios):5.2f} x "
                             f"({min(ratios):.2f} to {max(ratios):.2f}), "
                             f"{100 * same[name]:.0f} % same ids")
                print(line, flush=True)


if __name__ == "__main__":
    main()
