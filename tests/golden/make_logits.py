"""Writes the models and logits of tests/run/test_inference.c.

    python tests/golden/make_logits.py   (needs torch, transformers, safetensors)

For each kind of model, writes a tiny Hugging Face folder, saved by transformers, with
logits.safetensors beside it: the logits of transformers in float32 for two sequences,
one of the greatest length of the model, the other short and padded.

    ids, target_ids   I64 [2, length]
    lengths           I64 [2], and target_lengths
    logits            F32 [2, length, vocabulary]; 0 after the end
"""

import os

import torch
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    M2M100Config,
    M2M100ForConditionalGeneration,
)

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, LONG, SHORT = 40, 128, 7


def randomise(model):
    for name, p in model.named_parameters():
        norm = p.dim() == 1 and name.endswith("weight")
        p.data = torch.randn_like(p) * 0.2 + (1.0 if norm else 0.0)
    model.tie_weights()
    return model.eval()


def bert():
    return BertForMaskedLM(BertConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=LONG, hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    ))


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=LONG,
        bos_token_id=0, eos_token_id=0,
    ))


def m2m():
    return M2M100ForConditionalGeneration(M2M100Config(
        vocab_size=VOCAB, d_model=16, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=LONG,
        encoder_layerdrop=0.0, decoder_layerdrop=0.0, activation_dropout=0.1,
        pad_token_id=1, bos_token_id=0, eos_token_id=2,
        decoder_start_token_id=2,
    ))


def draw(pad, lengths):
    ids = torch.randint(3, VOCAB, (len(lengths), max(lengths)))
    mask = torch.zeros_like(ids)
    for row, n in enumerate(lengths):
        mask[row, :n] = 1
        ids[row, n:] = pad
    return ids, mask


def write(name, make):
    torch.manual_seed(hash_of(name))
    model = randomise(make())
    folder = os.path.join(HERE, "logits", name)
    pairs = name == "m2m"
    pad = 1 if pairs else 0
    lengths = [LONG, SHORT]
    ids, mask = draw(pad, lengths)
    out = {"ids": ids, "lengths": torch.tensor(lengths)}
    given = {"input_ids": ids, "attention_mask": mask}
    if pairs:
        lengths = [SHORT - 2, LONG]
        target, mask = draw(pad, lengths)
        out["target_ids"] = given["decoder_input_ids"] = target
        out["target_lengths"] = torch.tensor(lengths)
    with torch.no_grad():
        logits = model(**given).logits
    out["logits"] = (logits * mask[..., None]).contiguous()
    model.save_pretrained(folder)
    save_file(out, os.path.join(folder, "logits.safetensors"))


def hash_of(name):
    return sum(name.encode())


if __name__ == "__main__":
    write("bert", bert)
    write("gpt2", gpt2)
    write("m2m", m2m)
