"""Loads folders that vpipe exported with transformers, and compares logits.

    python tests/golden/check_hf.py EXPORT[=REFERENCE]...

EXPORT is a folder of vpipe export: it must load without missing or unexpected
tensors. REFERENCE is the folder that it was imported from: the weights are equal,
so the logits must be equal to the last bit. A tokenizer, if there is one, must load
and give the same ids.
"""

import os
import sys

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer


def load(path, strict):
    config = AutoConfig.from_pretrained(path)
    cls = getattr(transformers, config.architectures[0])
    model, info = cls.from_pretrained(path, output_loading_info=True)
    for key in strict and ("missing_keys", "unexpected_keys", "mismatched_keys") or ():
        assert not info[key], f"{path}: {key}: {sorted(info[key])}"
    return model.eval().float()


def logits(model):
    ids = torch.arange(8).view(1, 8) % model.config.vocab_size
    inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids))
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids
    with torch.no_grad():
        out = model(**inputs)
    return out.logits if "logits" in out else out.prediction_logits


def encode(path):
    """Returns the ids of a text, or None if the folder has no tokenizer."""
    files = "tokenizer.json", "vocab.txt", "vocab.json"
    if not any(os.path.exists(os.path.join(path, f)) for f in files):
        return None
    return AutoTokenizer.from_pretrained(path)("It's a test, of 1234 words.")["input_ids"]


def check(export, reference):
    ids = encode(export)
    ours = logits(load(export, strict=True))
    assert torch.isfinite(ours).all(), export
    if reference:
        theirs = logits(load(reference, strict=False))
        assert torch.equal(ours, theirs), (export, (ours - theirs).abs().max())
        assert ids == encode(reference), export


def main():
    for argument in sys.argv[1:]:
        export, _, reference = argument.partition("=")
        check(export, reference)


if __name__ == "__main__":
    main()
