#!/usr/bin/env python3
"""greedy.py FOLDER PROMPT N: continues PROMPT by N tokens with transformers.

The text goes to stderr, the ids of the new tokens to stdout.
"""
import sys

from transformers import AutoModelForCausalLM, AutoTokenizer, logging

logging.disable_progress_bar()
folder, prompt, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
given = tokenizer(prompt, return_tensors="pt")
ids = model.generate(**given, max_new_tokens=n, do_sample=False)[0]
print(tokenizer.decode(ids), file=sys.stderr)
print(*ids[given["input_ids"].shape[1]:].tolist())
