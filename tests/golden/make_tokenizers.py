"""Writes the tokenizers of tests/golden/tokenizers, strings, and hashes of the ids
and texts that Hugging Face's tokenizers give for them.

    tests/system/manpages.sh fetch TEXT.txt           (Debian's manual pages, 20 MB)
    python tests/golden/make_tokenizers.py TEXT.txt     (needs tokenizers)

tokenizers/<name>/     a tokenizer, trained on TEXT.txt
tokenizers/strings.bin n, then n times: length, bytes (UTF-8); little-endian u32
tokenizers/<name>.hash for each string the first 4 bytes of three SHA-256 hashes:
                       of its ids as u32 with special tokens recognised, of those
                       without, and of the text that the first ids decode to
tokenizers/trained.hash hashes of vocabularies that Hugging Face trains on the strings
tokenizers/text.hash   SHA-256 of the output of `vpipe data encode` for TEXT.txt

Made with tokenizers 0.23.3.
"""

import hashlib
import os
import random
import struct
import sys
import tempfile

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers")
CLASSES = os.path.join(
    HERE, "..", "..", "..", "src", "text", "unicode", "classes.txt"
)
SIZE = 2000
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


# ---- Tokenizers -------------------------------------------------------------


def bert(text, **rules):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**rules)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train(
        [text],
        trainers.WordPieceTrainer(
            vocab_size=SIZE,
            special_tokens=BERT_SPECIAL,
            limit_alphabet=600,
            show_progress=False,
        ),
    )
    return tokenizer


def byte_level(text, before=None, normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE())
    own = pre_tokenizers.ByteLevel(
        add_prefix_space=options.pop("prefix", False), use_regex=before is None
    )
    tokenizer.pre_tokenizer = own
    if before:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(before), "isolated"), own]
        )
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train(
        [text],
        trainers.BpeTrainer(
            vocab_size=SIZE,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def make_tokenizers(text):
    """Writes the files of all tokenizers. Returns {name: Hugging Face tokenizer}."""
    made = {}
    made["bert"] = bert(text)
    made["bert_cased"] = bert(text, lowercase=False)
    made["bert_odd"] = bert(
        text, lowercase=True, strip_accents=False, handle_chinese_chars=False
    )
    made["gpt2"] = byte_level(text)
    made["roberta"] = byte_level(text, prefix=True)
    made["roberta"].add_special_tokens(
        [AddedToken("<mask>", lstrip=True, normalized=False)]
    )
    made["roberta"].add_tokens(
        [AddedToken("vpipe", normalized=True), "<mask>s", "vpipe data"]
    )
    made["llama3"] = byte_level(text, CONTRACTIONS + r"\p{N}{1,3}" + REST)
    made["llama3"].model.ignore_merges = True
    made["qwen2"] = byte_level(
        text, CONTRACTIONS + r"\p{N}" + REST, normalizers.NFC()
    )
    for name, tokenizer in made.items():
        folder = os.path.join(HERE, name)
        os.makedirs(folder, exist_ok=True)
        if name in ("bert", "bert_cased", "gpt2"):
            tokenizer.model.save(folder)
        else:
            tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    with open(os.path.join(HERE, "bert_cased/tokenizer_config.json"), "w") as f:
        f.write('{"do_lower_case": false, "model_max_length": 512}\n')
    return made


# ---- Strings ----------------------------------------------------------------

# Strings that simple implementations often encode wrongly.
TRICKY = """
\u0130stanbul|\u039f\u0394\u039f\u03a3|STRA\u1e9eE|so\u00adft|a\u200bb|\ufeffa
a\u0085b|a\u2028b|a\u3000\u3000b|\U0002b820|\U0002b91f|\U0002b920|\ud55c\uad6d
\u0301a|a\u0323\u0301|a\u0301\u0323|\u166d|\u2e43|\u1734|\u0898|[MASK]|[mask]
x[MASK]a|<|endoftext|>|a<|endoftext|>b|'S|''s|it's's|DON'T|I'll|we'VE|x'\u017f
1\u00bd2|\u0661\u0662|   | |  a|a  |a  b   c|a\u00a0b|\ufffd|\ue000|\u0378
\U0001f468\u200d\U0001f469\u200d\U0001f467|\u2764\ufe0f|\U0001f1e9\U0001f1ea
1234567|3.14|a1b22c333|$100|#!/bin/sh|e\u0301|\u00e9|\u1e69|\u212b|\u2126|\u037e
\u1fef|\u0344|\u0958|\U00011935\U00011930|\u1100\u1161\u11a8|\uac00\u11a8|\u0f73
<mask>|a <mask> b|  <mask>s|vpipe|vpipe data|vpipe  data|xvpipex|<mask><mask>
""".strip().replace(
    "<|endoftext|>", "\0"
).replace("\n", "|").split("|")


def read_borders():
    """Returns the code points on both sides of every border of every class."""
    found = set()
    for line in open(CLASSES):
        if line[0] in "#[\n":
            continue
        for word in line.split():
            low, _, high = word.partition("-")
            low, high = int(low, 16), int(high or low, 16)
            found |= {low - 1, low, high, high + 1}
    return sorted(
        c for c in found if 0 <= c < 0x110000 and not 0xD800 <= c < 0xE000
    )


def make_strings(text):
    rng = random.Random(27)
    out = [one.replace("\0", "<|endoftext|>") for one in TRICKY] + [""]
    for n in (99, 100, 101):
        out += ["a" * n, "\u00e9" * n, "e\u0301" * n, "\uac00" * (n // 2)]
    for unit in ("a", "ab", "\u044f", "\u4f60", "\U0001f600", "\u0301", " "):
        out.append(unit * (10000 // len(unit.encode())))
    out += ["".join(map(chr, range(a, a + 64))) for a in range(0, 0x3000, 64)]
    borders = read_borders()
    out += ["a%cb %c1 %c" % (c, c, c) for c in borders]
    lines = open(text, encoding="utf-8").read().split("\n")
    out += [rng.choice(lines) + "\r\n" + rng.choice(lines) for _ in range(300)]
    for _ in range(700):  # characters of several classes side by side
        kinds = [borders, range(1, 0x250), range(0x300, 0x370), [32, 39, 10]]
        out.append(
            "".join(
                chr(rng.choice(rng.choice(kinds)))
                for _ in range(rng.randrange(1, 30))
            )
        )
    return out


# ---- Training ---------------------------------------------------------------

TRAINED = [(300, 0), (1000, 0), (1000, 8), (20000, 0), (20000, 3)]


def write_trained(strings):
    """Writes SHA-256 of vocab.json and merges.txt for sizes and smallest counts."""
    lines = ""
    for size, least in TRAINED:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=False
        )
        tokenizer.train_from_iterator(
            strings,
            trainers.BpeTrainer(
                vocab_size=size,
                min_frequency=least,
                special_tokens=["<|endoftext|>", "a"],
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                show_progress=False,
            ),
        )
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.model.save(folder)
            sums = [
                hashlib.sha256(open(os.path.join(folder, name), "rb").read())
                for name in ("vocab.json", "merges.txt")
            ]
        lines += "%d %d %s\n" % (
            size,
            least,
            " ".join(one.hexdigest() for one in sums),
        )
    write("trained.hash", lines.encode())


# ---- Files ------------------------------------------------------------------


def short_hash(data):
    return hashlib.sha256(data).digest()[:4]


def pack(ids):
    return struct.pack("<%dI" % len(ids), *ids)


def encode(tokenizer, strings, ordinary):
    tokenizer.encode_special_tokens = ordinary
    batch = tokenizer.encode_batch(strings, add_special_tokens=False)
    return [one.ids for one in batch]


def write(name, data):
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(data)


def main():
    text = sys.argv[1]
    made = make_tokenizers(text)
    strings = make_strings(text)
    write_trained(strings)
    packed = [one.encode() for one in strings]
    write(
        "strings.bin",
        struct.pack("<I", len(packed))
        + b"".join(struct.pack("<I", len(one)) + one for one in packed),
    )
    lines = open(text, encoding="utf-8", newline="\n").read().split("\n")[:-1]
    sums = hashlib.sha256(open(text, "rb").read()).hexdigest() + "  text\n"
    for name, tokenizer in made.items():
        ids = encode(tokenizer, strings, False)
        ordinary = encode(tokenizer, strings, True)
        texts = tokenizer.decode_batch(ids, skip_special_tokens=False)
        write(
            name + ".hash",
            b"".join(
                short_hash(pack(a)) + short_hash(pack(b)) + short_hash(c.encode())
                for a, b, c in zip(ids, ordinary, texts)
            ),
        )
        sha = hashlib.sha256()
        for ids in encode(tokenizer, lines, False):
            sha.update((" ".join(map(str, ids)) + "\n").encode())
        sums += "%s  %s\n" % (sha.hexdigest(), name)
    write("text.hash", sums.encode())
    print(len(strings), "strings,", len(lines), "lines")


if __name__ == "__main__":
    main()
