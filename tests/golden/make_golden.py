"""Writes the golden files of tests/backend/test_golden.c and tests/model/test_model.c.

    python tests/golden/make_golden.py      (needs torch and transformers)

Every model is Hugging Face's own, tiny, without dropout, in float64 from
weights that are exact in float32. A golden file of a model holds
  w.<name>     initial weights, g.<name> their gradients of the first batch,
  logits       of the first batch,
  loss         [steps + 1]: before each AdamW step and after the last,
  tokens, ...  one row per batch.
names_<model>.txt lists the tensors of the state_dict that the loss depends on.
"""

import math
import os

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    M2M100Config,
    M2M100ForConditionalGeneration,
)

from golden_optim import write_optim
from writer import GoldenWriter

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10
BATCHES = 3  # used in turn
VOCAB = 67
BATCH = 3
ADAMW = dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-8)
DECAY = 0.01


def bert(tied):
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=56, type_vocab_size=2,
        max_position_embeddings=19, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, tie_word_embeddings=tied,
    )
    return BertForMaskedLM(config)


def gpt2(tied):
    config = GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=2, n_inner=72,
        n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        tie_word_embeddings=tied, bos_token_id=0, eos_token_id=0,
    )
    return GPT2LMHeadModel(config)


def translation(tied):
    config = M2M100Config(
        vocab_size=VOCAB, d_model=24, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=3, decoder_attention_heads=3,
        encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=16,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
        encoder_layerdrop=0.0, decoder_layerdrop=0.0, pad_token_id=1,
        scale_embedding=True, tie_word_embeddings=tied,
    )
    return M2M100ForConditionalGeneration(config)


def exact_sinusoids(model):
    """Replaces the position tables, computed in float32, by ones in float64."""
    for side in (model.model.encoder, model.model.decoder):
        old = side.embed_positions.weights
        rows, cols = old.shape
        half = cols // 2
        table = torch.zeros(rows, cols, dtype=torch.float64)
        for position in range(rows):
            for i in range(half):
                angle = position * math.exp(-math.log(10000) * i / (half - 1))
                table[position, i] = math.sin(angle)
                table[position, half + i] = math.cos(angle)
        table[side.padding_idx] = 0.0
        assert torch.allclose(old.double(), table, atol=1e-5)
        side.embed_positions.weights = table.float().double()


def randomise(model, generator, attention_bias):
    """Sets random weights, exact in float32 and far from their initial symmetry."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if p.dim() == 2:
                is_table = "emb" in name or "shared" in name or "wte" in name
                fan_in = 4.0 * p.shape[1] if is_table else p.shape[1]
                p.copy_(noise / math.sqrt(fan_in))
            elif "norm" in name.lower() or ".ln_" in name:
                p.copy_(0.2 * noise + (1.0 if name.endswith("weight") else 0))
            else:
                p.copy_(0.1 * noise)
            if not attention_bias and "attn." in name and "bias" in name:
                p.zero_()
        if hasattr(model, "model"):  # fairseq embeds padding as zero
            for p in {model.model.shared.weight,
                      model.model.encoder.embed_tokens.weight,
                      model.model.decoder.embed_tokens.weight}:
                p[model.config.pad_token_id] = 0.0
        model.double()


def lengths(i, longest):
    """Returns the lengths of a batch: one full sample, the others shorter."""
    return [longest, longest - 1 - i % 3, longest - 4 - i % 2]


def bert_batch(generator, i):
    seq = 17
    ids = torch.randint(3, VOCAB, (BATCH, seq), generator=generator)
    types = torch.zeros(BATCH, seq, dtype=torch.int64)
    mask = torch.zeros(BATCH, seq, dtype=torch.int64)
    labels = torch.full((BATCH, seq), -1)
    for b, n in enumerate(lengths(i, seq)):
        mask[b, :n] = 1
        ids[b, n:] = 0
        types[b, n // 2 : n] = 1
        chosen = torch.randperm(n, generator=generator)[: 3 + b]
        labels[b, chosen] = torch.randint(
            3, VOCAB, (len(chosen),), generator=generator
        )
    return dict(tokens=ids, types=types, mask=mask, labels=labels)


def gpt2_batch(generator, i):
    seq = 13
    stream = torch.randint(3, VOCAB, (BATCH, seq + 1), generator=generator)
    ids, labels = stream[:, :-1].clone(), stream[:, 1:].clone()
    for b, n in enumerate(lengths(i, seq)):
        ids[b, n:] = 0
        labels[b, n:] = -1
    return dict(tokens=ids, labels=labels)


def translation_batch(generator, i):
    seq, tgt = 11, 13
    source = torch.randint(3, VOCAB, (BATCH, seq), generator=generator)
    target = torch.randint(3, VOCAB, (BATCH, tgt), generator=generator)
    labels = torch.randint(3, VOCAB, (BATCH, tgt), generator=generator)
    mask = torch.ones(BATCH, seq, dtype=torch.int64)
    target[:, 0] = 2
    for b, n in enumerate(lengths(i, seq)):
        mask[b, : seq - n] = 0
        source[b, : seq - n] = 1
    for b, n in enumerate(reversed(lengths(i + 1, tgt))):
        target[b, n:] = 1
        labels[b, n:] = -1
    return dict(tokens=source, mask=mask, target_tokens=target, labels=labels)


def logits_of(model, batch):
    if "types" in batch:
        return model(
            input_ids=batch["tokens"], token_type_ids=batch["types"],
            attention_mask=batch["mask"],
        ).logits
    if "target_tokens" in batch:
        return model(
            input_ids=batch["tokens"], attention_mask=batch["mask"],
            decoder_input_ids=batch["target_tokens"], use_cache=False,
        ).logits
    return model(input_ids=batch["tokens"], use_cache=False).logits


def loss_of(logits, labels, smoothing):
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=-1,
        label_smoothing=smoothing,
    )


def used_parameters(model, attention_bias):
    """Returns {name: parameter} of those with a gradient; tied ones once."""
    found = {}
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        if not attention_bias and "attn." in name and "bias" in name:
            continue
        found[name] = p
    return found


def write_names(name, params):
    with open(os.path.join(HERE, f"names_{name}.txt"), "w") as file:
        for key in sorted(params):
            shape = " ".join(str(n) for n in params[key].shape)
            file.write(f"{key} {shape}\n")


def write_model(name, model, make_batch, smoothing=0.0, attention_bias=True):
    generator = torch.Generator().manual_seed(20)
    randomise(model, generator, attention_bias)
    if "target_tokens" in make_batch(torch.Generator(), 0):
        exact_sinusoids(model)
    model.eval()
    batches = [make_batch(generator, i) for i in range(BATCHES)]

    logits = logits_of(model, batches[0])
    loss_of(logits, batches[0]["labels"], smoothing).backward()
    params = used_parameters(model, attention_bias)
    write_names(name, params)
    out = GoldenWriter(os.path.join(HERE, name))
    for role in batches[0]:
        out.add(role, torch.stack([b[role].flatten() for b in batches]))
    for key, p in params.items():
        out.add("w." + key, p)
        out.add("g." + key, p.grad)
    out.add("logits", logits)

    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in params.values() if p.dim() == 2],
             "weight_decay": DECAY},
            {"params": [p for p in params.values() if p.dim() == 1],
             "weight_decay": 0.0},
        ],
        **ADAMW,
    )
    losses = []
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        batch = batches[step % BATCHES]
        loss = loss_of(logits_of(model, batch), batch["labels"], smoothing)
        losses.append(loss.item())
        if step < STEPS:
            loss.backward()
            optimizer.step()
    out.add("loss", losses)
    out.close()
    print(name, "%.6f -> %.6f" % (losses[0], losses[-1]), out.offset, "bytes")


def main():
    torch.set_num_threads(1)
    for tied in (True, False):
        suffix = "tied" if tied else "untied"
        write_model(f"bert_{suffix}", bert(tied), bert_batch)
        write_model(f"gpt2_{suffix}", gpt2(tied), gpt2_batch)
        write_model(
            f"translation_{suffix}", translation(tied), translation_batch,
            smoothing=0.1, attention_bias=tied,
        )
    write_optim()


if __name__ == "__main__":
    main()
