"""Golden file of the optimizers and learning-rate curves: optim.idx, optim.bin.

Ten steps of each optimizer from stored weights with stored gradients, done by
torch.optim in float64 (LAMB, which torch lacks, is written out here), and
tables of learning rates. tests/optim/test_optim.c reads the file.

    python golden_optim.py [folder]
"""

import math
import os
import sys

import numpy as np
import torch

from writer import GoldenWriter

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10
# The fifth tensor starts at zero and the sixth has no gradient, so that a norm in
# LAMB's trust ratio is 0.
SIZES = [1, 3, 17, 300, 5, 7]
ZERO_WEIGHT, ZERO_GRAD = 4, 5
DECAY = [1, 0, 0, 1, 1, 0]

# name: kind, beta1 (momentum), beta2, eps, weight decay, lr of the first step
CASES = {
    "sgd": ("sgd", 0.9, 0.0, 0.0, 0.05, 0.01),
    "sgd_plain": ("sgd", 0.0, 0.0, 0.0, 0.0, 0.1),
    "adam": ("adam", 0.9, 0.997, 1e-8, 0.1, 0.01),
    "adamw": ("adamw", 0.9, 0.999, 1e-8, 0.1, 0.01),
    "adamw_eps": ("adamw", 0.8, 0.95, 1e-2, 0.0, 0.02),
    "lamb": ("lamb", 0.9, 0.999, 1e-6, 0.1, 0.02),
    "lamb_no_decay": ("lamb", 0.9, 0.999, 1e-6, 0.0, 0.05),
}


def f32(x):
    """Rounds to a C float. Returns a Python number."""
    return float(np.float32(x))


class Lamb(torch.optim.Optimizer):
    """You et al., "Large batch optimization for deep learning", algorithm 2,
    bias-corrected, with the identity as phi and the ratio always applied."""

    def __init__(self, groups, lr, betas, eps):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps))
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for w in group["params"]:
                g, state = w.grad, self.state[w]
                m = state.get("exp_avg", torch.zeros_like(w))
                v = state.get("exp_avg_sq", torch.zeros_like(w))
                m = b1 * m + (1 - b1) * g
                v = b2 * v + (1 - b2) * g * g
                state["exp_avg"], state["exp_avg_sq"] = m, v
                m_hat = m / (1 - b1**self.t)
                v_hat = v / (1 - b2**self.t)
                u = m_hat / (v_hat.sqrt() + group["eps"])
                u = u + group["weight_decay"] * w
                w_norm, u_norm = w.norm().item(), u.norm().item()
                ratio = w_norm / u_norm if w_norm > 0 and u_norm > 0 else 1.0
                w -= group["lr"] * ratio * u


def make_optimizer(params, kind, beta1, beta2, eps, decay):
    groups = [
        {"params": [p], "weight_decay": decay if flag else 0.0}
        for p, flag in zip(params, DECAY)
    ]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=1.0, momentum=beta1)
    if kind == "lamb":
        return Lamb(groups, 1.0, (beta1, beta2), eps)
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return make(groups, lr=1.0, betas=(beta1, beta2), eps=eps)


def run_case(out, name, w0, grads, lrs, scales):
    kind, *numbers = CASES[name]
    beta1, beta2, eps, decay = (f32(x) for x in numbers[:4])
    params = [
        torch.nn.Parameter(torch.tensor(w, dtype=torch.float64)) for w in w0
    ]
    optimizer = make_optimizer(params, kind, beta1, beta2, eps, decay)
    for t in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = float(lrs[t])
        for p, g in zip(params, grads[t]):
            p.grad = torch.tensor(g, dtype=torch.float64) * float(scales[t])
        optimizer.step()
    out.add(f"{name}.config", [beta1, beta2, eps, decay])
    out.add(f"{name}.lr", lrs)
    out.add(f"{name}.w", torch.cat(params))
    moments = ["exp_avg", "exp_avg_sq"]
    if kind == "sgd":
        moments = ["momentum_buffer"]
    for i, moment in enumerate(moments):
        state = [optimizer.state[p].get(moment) for p in params]
        if state[0] is not None:
            out.add(f"{name}.moment{i}", torch.cat(state))


def write_steps(out):
    rng = np.random.default_rng(20220301)
    w0 = [rng.normal(0, 0.1, n).astype(np.float32) for n in SIZES]
    w0[ZERO_WEIGHT][:] = 0
    grads = [
        [rng.normal(0, 10.0 ** rng.uniform(-3, 0), n).astype(np.float32)
         for n in SIZES]
        for _ in range(STEPS)
    ]
    for g in grads:
        g[ZERO_GRAD][:] = 0
    scales = rng.uniform(0.25, 1.0, STEPS).astype(np.float32)
    out.add("sizes", np.array(SIZES))
    out.add("decay", np.array(DECAY))
    out.add("w0", np.concatenate(w0))
    out.add("grads", np.stack([np.concatenate(g) for g in grads]))
    out.add("grad_scale", scales)
    for name, case in CASES.items():
        lrs = (case[5] * np.linspace(1.0, 0.3, STEPS)).astype(np.float32)
        run_case(out, name, w0, grads, lrs, scales)


# ---- Learning rates --------------------------------------------------------

# policy: base, warmup, total steps, steps per epoch, epochs
CURVES = [
    ("polynomial", 0.05, 0.2, 36320, 1000, 37),
    ("polynomial", 1e-3, 0.0, 100, 10, 10),
    ("constant", 6e-4, 0.0, 1000, 100, 10),
    ("constant", 6e-4, 0.1, 1000, 100, 10),
    ("step", 0.1, 0.0, 900, 10, 90),
    ("step", 0.1, 0.05, 900, 10, 90),
    ("exponential_decay", 0.045, 0.0, 600, 20, 30),
    ("inverse_sqrt", 5e-4, 0.0, 20000, 1000, 20),
    ("inverse_sqrt", 5e-4, 0.05, 20000, 1000, 20),
    ("cosine", 3e-4, 0.0, 1000, 100, 10),
    ("cosine", 3e-4, 0.3, 1000, 100, 10),
]


def rate(policy, base, warmup, total, per_epoch, epochs, t):
    t = min(t, total)
    if t / total < warmup:
        return base * (t / total) / warmup
    epoch = (t - 1) // per_epoch
    if policy == "constant":
        return base
    if policy == "step":
        return base * 0.1 ** (epoch // 30)
    if policy == "polynomial":
        return base * (1 - t / total) ** 0.5
    if policy == "exponential_decay":
        return base * 0.97 ** (epoch / epochs)
    if policy == "inverse_sqrt":
        s = warmup * total if warmup > 0 else 4000
        return base * min(1.0, math.sqrt(s / t))
    done = (t / total - warmup) / (1 - warmup)
    return base * 0.5 * (1 + math.cos(math.pi * done))


def write_rates(out):
    for i, curve in enumerate(CURVES):
        policy, base, warmup, total, per_epoch, epochs = curve
        edge = round(warmup * total)
        steps = {1, 2, 3, edge - 1, edge, edge + 1, total // 2, total - 1,
                 total, total + 1, 10 * total, 3999, 4000, 4001,
                 30 * per_epoch, 30 * per_epoch + 1, 60 * per_epoch + 1}
        steps = sorted(t for t in steps if t >= 1)
        out.add(f"lr{i}.{policy}.steps", np.array(steps))
        out.add(f"lr{i}.{policy}.sizes", np.array([total, per_epoch, epochs]))
        out.add(f"lr{i}.{policy}.base", [base, warmup])
        out.add(f"lr{i}.{policy}.rates", [rate(*curve, t) for t in steps])


def write_optim(folder=HERE):
    with GoldenWriter(os.path.join(folder, "optim")) as out:
        write_steps(out)
        write_rates(out)


if __name__ == "__main__":
    write_optim(*sys.argv[1:2])
