"""Writes the Hugging Face folders of tests/hf/test_hf.c and tests/system/hf.sh.

    python tests/golden/make_hf.py      (needs torch, transformers, safetensors)

Each folder is tiny and saved by transformers itself. Folders named *_old are changed
to the format of older versions: names without the model's prefix, gamma and beta,
mask buffers, tied tensors under both names.

finetune/ has a token file as nanoGPT writes it, and the losses of AdamW steps of
PyTorch that start from the weights of gpt2/ and use the batches that vpipe draws.
"""

import json
import os
import shutil
import struct

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    GPT2Config,
    GPT2LMHeadModel,
    M2M100Config,
    M2M100ForConditionalGeneration,
)

from sampler import cut, order_in_runs

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "hf")
VOCAB = 48
SEQ = 8
STEPS = 6
ADAMW = dict(lr=1e-2, betas=(0.9, 0.999), eps=1e-8)


def randomise(model):
    """Randomises all tensors, so that an exchange of two changes the result."""
    for name, p in model.named_parameters():
        norm = p.dim() == 1 and name.endswith("weight")
        p.data = torch.randn_like(p) * 0.2 + (1.0 if norm else 0.0)
    model.tie_weights()
    return model


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=16,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0,
        eos_token_id=0,
    ))


def bert(cls, tied):
    return cls(BertConfig(
        vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        tie_word_embeddings=tied,
    ))


def m2m(tied):
    return M2M100ForConditionalGeneration(M2M100Config(
        vocab_size=VOCAB, d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=16,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
        encoder_layerdrop=0.0, decoder_layerdrop=0.0, scale_embedding=True,
        tie_word_embeddings=tied,
    ))


def save(name, model, **options):
    folder = os.path.join(ROOT, name)
    shutil.rmtree(folder, ignore_errors=True)
    randomise(model).save_pretrained(folder, **options)
    return folder


def set_config(folder, remove=(), **keys):
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    for key in remove:
        config.pop(key, None)
    config.update(keys)
    with open(path, "w") as f:
        json.dump(config, f, indent=2)


def rewrite(folder, change):
    """Replaces the tensors of a folder with one file by change(tensors)."""
    path = os.path.join(folder, "model.safetensors")
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def age_gpt2(tensors):
    out = {k.removeprefix("transformer."): v for k, v in tensors.items()}
    out["lm_head.weight"] = out["wte.weight"].clone()
    for layer in range(2):
        mask = torch.tril(torch.ones(16, 16, dtype=torch.bool)).view(1, 1, 16, 16)
        out[f"h.{layer}.attn.bias"] = mask
        out[f"h.{layer}.attn.masked_bias"] = torch.tensor(-10000.0)
    return out


def age_bert(tensors):
    out = {}
    for k, v in tensors.items():
        k = k.removeprefix("bert.")
        k = k.replace("LayerNorm.weight", "LayerNorm.gamma")
        k = k.replace("LayerNorm.bias", "LayerNorm.beta")
        k = k.replace("cls.predictions.bias", "cls.predictions.decoder.bias")
        out[k] = v
    out["embeddings.position_ids"] = torch.arange(16).view(1, 16)
    return out


def write_tokens(folder, n):
    """Writes tokens of a small grammar as uint16, the format of nanoGPT."""
    os.makedirs(folder, exist_ok=True)
    for split, start in (("train", 1), ("val", 5)):
        tokens = []
        state = start
        for _ in range(n):
            state = (state * 5 + 7) % VOCAB if len(tokens) % 3 else (state + 11) % VOCAB
            tokens.append(state)
        with open(os.path.join(folder, split + ".bin"), "wb") as f:
            f.write(struct.pack(f"<{n}H", *tokens))
    with open(os.path.join(folder, "train.bin"), "rb") as f:
        return list(struct.unpack(f"<{n}H", f.read()))


def fine_tune(source, tokens, batch, seed):
    """Returns the losses with vpipe's order of windows, shuffled in each epoch."""
    model = GPT2LMHeadModel.from_pretrained(source).double().train()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optim = torch.optim.AdamW(
        [dict(params=decay, weight_decay=0.01), dict(params=rest, weight_decay=0.0)],
        **ADAMW,
    )
    n_windows = (len(tokens) - 1) // SEQ
    block = (16 << 20) // (4 * SEQ) // 10 * 10
    order = [
        rows
        for epoch in range(3)
        for rows in cut(order_in_runs(seed, epoch, n_windows, block), batch)
    ]
    losses = []
    for rows in order[:STEPS]:
        x = torch.tensor([tokens[r * SEQ : r * SEQ + SEQ + 1] for r in rows])
        logits = model(x[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, VOCAB), x[:, 1:].reshape(-1)
        )
        losses.append(loss.item())
        optim.zero_grad()
        loss.backward()
        optim.step()
    return losses


def main():
    torch.manual_seed(1)
    source = save("gpt2", gpt2())
    old = save("gpt2_old", gpt2().half())
    rewrite(old, age_gpt2)
    set_config(old, remove=("dtype", "tie_word_embeddings"), n_ctx=16)
    save("bert", bert(BertForPreTraining, True), max_shard_size="8KB")
    old = save("bert_old", bert(BertForMaskedLM, True).bfloat16())
    rewrite(old, age_bert)
    save("bert_untied", bert(BertForMaskedLM, False).half())
    save("m2m", m2m(True))
    save("m2m_untied", m2m(False).bfloat16(), max_shard_size="6KB")
    folder = os.path.join(ROOT, "finetune")
    shutil.rmtree(folder, ignore_errors=True)
    tokens = write_tokens(folder, 8 * SEQ + 1)
    losses = fine_tune(source, tokens, batch=2, seed=7)
    with open(os.path.join(ROOT, "finetune_losses.txt"), "w") as f:
        f.writelines(f"{x:.9f}\n" for x in losses)


if __name__ == "__main__":
    main()
