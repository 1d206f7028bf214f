"""The order of samples, implemented from its description: Philox4x32-10
(Salmon et al., SC'11), a Feistel network of six rounds over it with cycle
walking, every tenth sample held out.
"""

M32 = (1 << 32) - 1
SHUFFLE = 3  # purpose in the key of Philox
MIX = 4  # runs that are shuffled together


def philox(counter, k0, k1):
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & M32, (p0 >> 32) ^ c3 ^ k1, p0 & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def random(seed, purpose, stream, c0, c1, c23):
    k0 = (seed & M32) ^ ((seed >> 32) * 0x85EBCA6B & M32)
    return philox((c0, c1, c23 & M32, c23 >> 32), k0, purpose << 24 | stream)


def permute(seed, epoch, n, i):
    """Returns element i of a shuffled range(n)."""
    half = 1
    while (n - 1) >> (2 * half):
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for r in range(6):
            left, right = right, left ^ (
                random(seed, SHUFFLE, r, right, 0, epoch)[0] & mask
            )
        i = left << half | right
        if i < n:
            return i


def split_samples(n, split):
    """Returns the samples of a split that has no files of its own."""
    return [i for i in range(n) if (i % 10 == 9) == (split == "eval")]


def order_in_runs(seed, epoch, n, run):
    """Returns samples in runs: the runs are shuffled, and MIX at a time are mixed."""
    n_whole = n // run
    size = MIX * run
    n_sets = (n + size - 1) // size
    out = []
    for p in range(n):
        begin = p // size * size
        here = min(size, n - begin)
        q = begin + permute(seed ^ 1 << 40, epoch * n_sets + p // size, here, p - begin)
        k = q // run
        k = permute(seed, epoch, n_whole, k) if k < n_whole else k
        out.append(k * run + q % run)
    return out


def cut(order, batch):
    return [order[i : i + batch] for i in range(0, len(order), batch)]
