"""Writes text compressed by gzip and zstd, and lines of JSON.

    python tests/golden/make_text.py          (needs zstandard)

text/plain.txt      the text
text/*.gz *.zst     the same text, compressed in several parts
text/wide.txt.zst   a window of 256 MiB, which is refused
text/*.jsonl        lines of JSON; lines.txt is the text read from them
"""

import gzip
import json
import os

import zstandard

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "text")

TEXTS = [
    "A first text.",
    "Zwei Zeilen:\nä ö ü ß",
    'quotes " and \\ and / and \t tab',
    "日本語 and 😀 beyond the first plane",
    "",
    "control \x01 \x7f \b\f\r",
    "e\u0301 combining, \u2028 separator, \ufeff mark, \uffff last",
]


def put(name, data):
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(data)


def main():
    os.makedirs(HERE, exist_ok=True)
    plain = "".join(f"Line {i}: {t}\n" for i in range(40) for t in TEXTS).encode()
    put("plain.txt", plain)
    parts = plain[:1000], b"", plain[1000:1001], plain[1001:]
    put("plain.txt.gz", b"".join(gzip.compress(p, mtime=0) for p in parts))
    frame = lambda p, **k: zstandard.ZstdCompressor(**k).compress(p)
    skipped = b"\x53\x2a\x4d\x18" + b"\x03\x00\x00\x00abc"
    put(
        "plain.txt.zst",
        skipped + b"".join(frame(p, level=1 + i, write_checksum=True) for i, p in enumerate(parts)),
    )
    wide = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    put("wide.txt.zst", stream.compress(plain) + stream.flush())
    edge = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=edge).compressobj()
    put("edge.txt.zst", stream.compress(plain) + stream.flush())

    put("lines.txt", "".join(t + "\n" for t in TEXTS).encode())
    lines = []
    for i, text in enumerate(TEXTS):
        other = {"id": i, "meta": {"text": "not this", "list": [1, -2.5e3, None, True]}}
        line = {"text": text, **other} if i % 2 else {**other, "text": text}
        lines.append(json.dumps(line, ensure_ascii=i % 3 == 0))
    put("lines.jsonl", "\n".join(lines).encode() + b"\n\n  \n")
    put("lines.jsonl.gz", gzip.compress("\n".join(lines).encode(), mtime=0))
    put("lines.ndjson.zst", frame("\n".join(lines).encode(), level=3))
    put("body.jsonl", "".join(json.dumps({"body": t}) + "\n" for t in TEXTS).encode())


if __name__ == "__main__":
    main()
