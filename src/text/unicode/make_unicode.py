"""Writes classes.txt and mappings.txt: what Hugging Face `tokenizers` takes
each code point for. Every code point is probed, because the library mixes
several versions of Unicode.

    python src/text/unicode/make_unicode.py     (needs tokenizers; a minute)

Made with tokenizers 0.23.3. tools/unicode/make_tables.c turns the two files
into C tables when vpipe is built.
"""

import os
import unicodedata

from tokenizers.normalizers import NFC, NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

HERE = os.path.dirname(os.path.abspath(__file__))
ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xD7A4)  # computed, not listed
WIDTH = 79


def bert(**on):
    flags = dict(
        clean_text=False,
        handle_chinese_chars=False,
        strip_accents=False,
        lowercase=False,
    )
    flags.update(on)
    return BertNormalizer(**flags).normalize_str


def ranges(code_points):
    out = []
    for c in sorted(code_points):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return ["%X" % a if a == b else "%X-%X" % (a, b) for a, b in out]


def write_section(file, name, words):
    file.write("\n[%s]\n" % name)
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > WIDTH:
            file.write(line + "\n")
            line = ""
        line += (" " if line else "") + word
    file.write(line + "\n")


def probe_bert(classes):
    clean, strip = bert(clean_text=True), bert(strip_accents=True)
    cjk, cut = bert(handle_chinese_chars=True), BertPreTokenizer()
    nfd = NFD().normalize_str
    for c in ALL:
        ch = chr(c)
        cleaned = clean("a" + ch + "b")
        if cleaned == "ab":
            classes["removed"].add(c)
        elif cleaned == "a b":
            classes["blank"].add(c)
        if cjk(ch) != ch:
            classes["cjk"].add(c)
        # A mark that decomposes is never seen as such.
        if strip(ch) == "" and nfd(ch) == ch:
            classes["mark"].add(c)
        if len(cut.pre_tokenize_str("a" + ch + "b")) == 3:
            classes["punctuation"].add(c)


def probe_byte_level(classes):
    cut = ByteLevel(add_prefix_space=False).pre_tokenize_str
    for c in ALL:
        ch = chr(c)
        if len(cut("a" + ch)) == 1:
            classes["letter"].add(c)
        elif len(cut("1" + ch)) == 1:
            classes["number"].add(c)
        elif len(cut("!" + ch)) != 1:
            classes["space"].add(c)


def probe_combining():
    """Canonical combining class of each code point that has one: those that
    NFD moves before or behind a mark whose class is known."""
    nfd = NFD().normalize_str
    low, high = chr(0x334), chr(0x345)  # classes 1 and 240, the extremes
    found = [
        c
        for c in ALL
        if nfd(chr(c)) == chr(c)
        and (
            nfd(chr(c) + low) == low + chr(c)
            or (c != 0x345 and nfd(high + chr(c)) == chr(c) + high)
        )
    ]
    known = {}  # class -> one mark of it
    for c in found + [0x334, 0x345]:
        known.setdefault(unicodedata.combining(chr(c)), chr(c))
    known.pop(0, None)
    out = {}
    for c in found + [0x345]:
        ch = chr(c)
        others = {k for k, m in known.items() if m != ch}
        below = {k for k in others if nfd(ch + known[k]) == known[k] + ch}
        above = {k for k in others if nfd(known[k] + ch) == ch + known[k]}
        (own,) = set(known) - below - above
        out.setdefault(own, set()).add(c)
    return out


def hexes(text):
    return ".".join("%X" % ord(c) for c in text)


def probe_forms():
    nfd, nfc = NFD().normalize_str, NFC().normalize_str
    decompose, compose, unstable = [], [], set()
    for c in ALL:
        ch = chr(c)
        full = nfd(ch)
        if nfc(ch) != ch:
            unstable.add(c)
        if full == ch or c in HANGUL:
            continue
        decompose.append("%X=%s" % (c, hexes(full)))
        first = nfc(full[:-1])
        if nfc(full) == ch and len(first) == 1:
            compose.append("%s=%X" % (hexes(first + full[-1]), c))
            unstable.add(ord(full[-1]))
    unstable.update(range(0x1161, 0x1176))
    unstable.update(range(0x11A8, 0x11C3))
    return decompose, compose, unstable


def main():
    names = "removed blank cjk mark punctuation letter number space".split()
    classes = {name: set() for name in names}
    probe_bert(classes)
    probe_byte_level(classes)
    combining = probe_combining()
    decompose, compose, unstable = probe_forms()
    for marks in combining.values():
        unstable |= marks
    classes["unstable"] = unstable
    lower = bert(lowercase=True)
    with open(os.path.join(HERE, "classes.txt"), "w") as file:
        file.write("# Ranges of code points, hexadecimal; make_unicode.py.\n")
        for name, members in classes.items():
            write_section(file, name, ranges(members))
    with open(os.path.join(HERE, "mappings.txt"), "w") as file:
        file.write("# Hexadecimal; make_unicode.py wrote this.\n")
        write_section(
            file,
            "lower",
            [
                "%X=%s" % (c, hexes(lower(chr(c))))
                for c in ALL
                if lower(chr(c)) != chr(c)
            ],
        )
        write_section(file, "decompose", decompose)
        write_section(file, "compose", compose)
        write_section(
            file,
            "combining",
            [
                "%s=%X" % (one, number)
                for number in sorted(combining)
                for one in ranges(combining[number])
            ],
        )


main()
