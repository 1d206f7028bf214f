"""Compares the speed of vpipe's tokenizers and Hugging Face's, one thread each.

    python bench/tokenizers.py BENCH_TOKENIZER NAME=TEXT.txt...

Trains a WordPiece and a BPE vocabulary of 16,000 tokens on each text, then
encodes its lines by both in turn: CPU time, each pass with an empty cache, the
best of five. BENCH_TOKENIZER is the program of bench/bench_tokenizer.c.
"""

import os

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import subprocess
import sys
import tempfile
import time

# This file has the name of the library and would hide it.
sys.path = [p for p in sys.path if p != os.path.dirname(os.path.abspath(__file__))]
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

SIZE = 16000
ROUNDS = 5
BATCH = 1000


def train(kind, text, path):
    if kind == "BPE":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=False
        )
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=SIZE,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(
            vocab_size=SIZE,
            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            limit_alphabet=4000,
            show_progress=False,
        )
    tokenizer.train([text], trainer)
    tokenizer.save(path)


def run_theirs(path, lines):
    """Returns CPU seconds and the number of ids. A new object has an empty cache."""
    tokenizer = Tokenizer.from_file(path)
    n_ids = 0
    start = time.process_time()
    for i in range(0, len(lines), BATCH):
        for one in tokenizer.encode_batch_fast(
            lines[i : i + BATCH], add_special_tokens=False
        ):
            n_ids += len(one)
    return time.process_time() - start, n_ids


def run_ours(program, path, text):
    words = subprocess.check_output([program, path, text], text=True).split()
    return float(words[0]), int(words[4])


def compare(program, name, text, kind):
    n_bytes = os.path.getsize(text)
    lines = open(text, encoding="utf-8", newline="\n").read().split("\n")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        train(kind, text, path)
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(run_ours(program, path, text))
            theirs.append(run_theirs(path, lines))
    if ours[0][1] != theirs[0][1]:
        raise SystemExit("%s, %s: other ids" % (name, kind))
    ours, theirs = min(ours)[0], min(theirs)[0]
    print(
        "| %s | %s | %.1f | %.1f | %.1f |"
        % (
            name,
            kind,
            n_bytes * 1e-6 / ours,
            n_bytes * 1e-6 / theirs,
            theirs / ours,
        ),
        flush=True,
    )


def main():
    for word in sys.argv[2:]:
        name, _, text = word.partition("=")
        for kind in ("WordPiece", "BPE"):
            compare(sys.argv[1], name, text, kind)


main()
