"""Writes bleu.bin: BLEU scores of random corpora and the words of their lines, by
sacrebleu.

    python tests/golden/make_bleu.py

Fields end with a NUL byte. For each corpus:

    "N_SENTENCES N_REFERENCES BLEU MATCHES*4 TOTALS*4 HYP_LEN REF_LEN"
    the line that sacrebleu prints
    for each sentence: hypothesis, its words separated by spaces, references
"""

import os
import random

from sacrebleu.metrics import BLEU

HERE = os.path.dirname(os.path.abspath(__file__))

WORDS = """a b the cat sat on mat there is one dog It's don't 3.5 3.5% 1,000
1,000-2,000 (approx.) .5 5. 1-2 x-y A/B a,,b..c U.S. e.g., -- - ' `` $5.00 #1
50% [x] {y} ~ ^ \\ | < > & &amp; &quot;q&quot; &lt;b&gt; &amp;lt; &amp;amp; &#39;
<skipped> <skip<skipped>ped> 1. ,1 1,a a,1 1.,2 2000-
é über 日本 語。 「括弧」 «x» “y” … — naïve. 3،5 ½ ５. .５ 😀! ,é é, é. \u200b \u180e
\ufeff""".split()
GAPS = [" "] * 12 + ["", "  ", "\t", "\n", "-\n", "\r", "\v", "\f", "\x1c",
                     "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u2000",
                     "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f",
                     "\u3000", "\u200b", "\u2060"]


def make_line(rng, most):
    return "".join(rng.choice(WORDS) + rng.choice(GAPS)
                   for _ in range(rng.randrange(most)))


def change(rng, line, share):
    """Returns `line` with a share of its words replaced, sometimes cut."""
    words = line.split(" ")
    for i in range(len(words)):
        if rng.random() < share:
            words[i] = rng.choice(WORDS)
    if rng.random() < 0.3:
        del words[rng.randrange(len(words)):]
    return " ".join(words)


def main():
    rng = random.Random(11)
    metric = BLEU()
    out = []
    for number in range(60):
        n, n_refs = rng.choice([1, 2, 12]), rng.choice([1, 1, 2, 3])
        most, share = rng.choice([2, 8, 14, 30]), rng.choice([0.1, 0.4, 0.7])
        lines = [make_line(rng, most) for _ in range(n)]
        refs = [[change(rng, line, share / 2) for line in lines]
                for _ in range(n_refs)]
        hyps = [change(rng, line, share) for line in lines]
        score = metric.corpus_score(hyps, refs)
        values = [*score.counts, *score.totals, score.sys_len, score.ref_len]
        out.append(f"{n} {n_refs} {score.score!r} "
                   + " ".join(map(str, values)))
        out.append(str(score))
        for i, hyp in enumerate(hyps):
            out += [hyp, metric.tokenizer(hyp.rstrip())]
            out += [stream[i] for stream in refs]
    with open(os.path.join(HERE, "bleu.bin"), "wb") as file:
        file.write(b"".join(s.encode() + b"\0" for s in out))


if __name__ == "__main__":
    main()
