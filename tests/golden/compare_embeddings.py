#!/usr/bin/env python3
"""Compares `chorus embed` with transformers (mean of the last hidden states, float32) on the texts of a file.

    pip install torch transformers
    tests/golden/compare_embeddings.py build/chorus FOLDER texts.txt [--max-length 128]

Prints the largest difference of an element, as it is and of vectors of length 1, and the lowest cosine."""
import argparse
import json
import pathlib
import subprocess
import time

import numpy as np
import torch
import transformers


def theirs(folder, texts, longest):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, torch_dtype=torch.float32).eval()
    vectors = []
    with torch.no_grad():
        for begin in range(0, len(texts), 32):
            batch = tokenizer(texts[begin:begin + 32], padding=True, truncation=True, max_length=longest,
                              return_tensors="pt")
            hidden = model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1).float()
            vectors.append((hidden * mask).sum(1) / mask.sum(1))
    return torch.cat(vectors).numpy()


def ours(program, folder, texts, longest):
    done = subprocess.run([program, "embed", "--model", folder, "--pooling", "mean", "--max-length", str(longest),
                           "--json"], input="".join(t + "\n" for t in texts), capture_output=True, text=True, check=True)
    return np.array([json.loads(line)["embedding"] for line in done.stdout.split("\n") if line])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("--max-length", type=int, default=128)
    arguments = parser.parse_args()
    texts = [line for line in arguments.texts.read_text().split("\n") if line.strip()]
    times = [time.monotonic()]
    a = ours(arguments.program, arguments.folder, texts, arguments.max_length)
    times.append(time.monotonic())
    b = theirs(arguments.folder, texts, arguments.max_length)
    times.append(time.monotonic())
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b)]
    print(f"{arguments.folder}: {len(texts)} texts, {a.shape[1]} elements, transformers {transformers.__version__}, "
          f"torch {torch.__version__}\n"
          f"  largest difference {np.abs(a - b).max():.2e} (largest element {np.abs(b).max():.2f}); of unit vectors "
          f"{np.abs(unit[0] - unit[1]).max():.2e}; lowest cosine {(unit[0] * unit[1]).sum(1).min():.8f}\n"
          f"  {times[1] - times[0]:.1f} s and {times[2] - times[1]:.1f} s")


main()
