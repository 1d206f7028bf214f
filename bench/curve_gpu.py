#!/usr/bin/env python3
"""Compares the losses of PyTorch and vpipe in bf16.

Reads the folder that curve_gpu has written (initial weights, batches, losses),
trains the same model of Hugging Face's transformers under autocast to bf16 on the
same batches, and compares the mean loss of the last 20 steps: they may differ by 1 %.

  mkdir out && build/curve_gpu bert out 200 && bench/curve_gpu.py out

Cases with a hyphen in their names train on one core on both sides.
"""
import json
import sys

sys.path.pop(0)  # tokenizers.py in this folder would hide the library
import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

LAST, LIMIT = 20, 0.01


def make_model(z):
    if z["model"] == "bert":
        config = transformers.BertConfig(
            vocab_size=z["vocab"], hidden_size=z["hidden"],
            num_hidden_layers=z["layers"], num_attention_heads=z["heads"],
            intermediate_size=4 * z["hidden"],
            max_position_embeddings=z["seq"], hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0)
        return transformers.BertForMaskedLM(config)
    config = transformers.GPT2Config(
        vocab_size=z["vocab"], n_embd=z["hidden"], n_layer=z["layers"],
        n_head=z["heads"], n_positions=z["seq"], resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0)
    return transformers.GPT2LMHeadModel(config)


def load_weights(model, z, folder):
    """Loads the weights; exactly one entry must name each parameter."""
    data = numpy.fromfile(f"{folder}/weights", numpy.float32)
    named = dict(model.named_parameters())
    groups, at = {True: [], False: []}, 0
    for part in z["weights"]:
        n = part["rows"] * part["cols"]
        values = torch.from_numpy(data[at:at + n].copy())
        at += n
        values = values.view(part["rows"], part["cols"])
        name = part["name"]
        if name not in named and "transformer." + name in named:
            name = "transformer." + name
        p = named.pop(name)
        if part["transposed"]:
            values = values.t()
        p.data.copy_(values.reshape(p.shape))
        groups[bool(part["decay"])].append(p)
    assert at == len(data) and not named, (at, len(data), list(named))
    return groups


def batches(z, folder):
    n = z["batch"] * z["seq"]
    roles = ["tokens", "types", "mask", "rows", "labels"] \
        if z["model"] == "bert" else ["tokens", "mask", "labels"]
    data = numpy.fromfile(f"{folder}/batches", numpy.int32)
    data = torch.from_numpy(data).long().to(z["device"]).view(z["steps"], len(roles), n)
    for step in data:
        yield dict(zip(roles, step))


def loss_of(model, z, batch):
    shape = (z["batch"], z["seq"])
    ids = batch["tokens"].view(shape)
    if z["model"] == "gpt2":
        logits = model(ids).logits.flatten(0, 1)
    else:
        logits = model(ids, batch["mask"].view(shape),
                       batch["types"].view(shape)).logits.flatten(0, 1)
        logits = logits[batch["rows"].clamp(min=0)]
    return torch.nn.functional.cross_entropy(logits.float(), batch["labels"],
                                             ignore_index=-1)


def main():
    folder = sys.argv[1]
    with open(f"{folder}/index.json") as f:
        z = json.load(f)
    model = make_model(z)
    groups = load_weights(model, z, folder)
    torch.set_num_threads(1)
    model.to(z["device"]).train()
    optimizer = torch.optim.AdamW(
        [{"params": groups[True], "weight_decay": 0.01},
         {"params": groups[False], "weight_decay": 0.0}], z["lr"])
    losses = []
    for batch in batches(z, folder):
        with torch.autocast(z["device"], torch.bfloat16):
            loss = loss_of(model, z, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    own, peer = (sum(x[-LAST:]) / LAST for x in (z["losses"], losses))
    gap = abs(own - peer) / peer
    print(f"{z['model']}: loss {z['losses'][0]:.4f} -> {own:.4f} (vpipe), "
          f"{losses[0]:.4f} -> {peer:.4f} (torch {torch.__version__}); "
          f"gap {100 * gap:.3f} % (<= 1 %), fell by {losses[0] - peer:.2f} "
          f"nats (>= 1)")
    sys.exit(0 if gap <= LIMIT and losses[0] - peer >= 1 else 1)


if __name__ == "__main__":
    main()
