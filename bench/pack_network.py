#!/usr/bin/env python3
"""Packs a Hugging Face folder into one small file, and unpacks it: 8 or 16 bits per weight, for a slow link.

    python3 bench/pack_network.py pack models/minilm build/minilm.npz --texts data/glue/RTE/*.tsv
    python3 bench/pack_network.py unpack build/minilm.npz build/models/minilm

With 8 bits every row of a matrix is scaled to integers from -127 to 127; vectors stay float16. With --texts, word
embeddings of pieces that do not occur in these files are left out and unpacked as zeros. Packing needs numpy, and
tokenizers for --texts; unpacking needs numpy only.
"""
import argparse
import json
import pathlib
import struct

import numpy as np

FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def read_safetensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        yield name, np.frombuffer(data[8 + size + begin:8 + size + end], TYPES[entry["dtype"]]).reshape(entry["shape"])


def write_safetensors(path, tensors):
    header, parts, at = {}, [], 0
    for name, tensor in sorted(tensors.items()):
        data = np.ascontiguousarray(tensor, np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            out.write(part)


def used_pieces(folder, texts):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    used = set(range(200))  # special pieces and signs
    for path in texts:
        for encoding in tokenizer.encode_batch(path.read_text(encoding="utf-8", errors="replace").splitlines()):
            used.update(encoding.ids)
    return np.array(sorted(used))


def pack(options):
    arrays = {}
    used = used_pieces(options.source, options.texts) if options.texts else None
    for name, tensor in read_safetensors(options.source / "model.safetensors"):
        if tensor.ndim < 2:
            arrays[f"v:{name}"] = tensor if tensor.dtype == np.int64 else tensor.astype(np.float16)
            continue
        matrix = tensor.astype(np.float32)
        if used is not None and name.endswith("word_embeddings.weight"):
            arrays[f"r:{name}"] = np.concatenate([[len(matrix)], used]).astype(np.int32)
            matrix = matrix[used[used < len(matrix)]]
        if options.bits == 16:
            arrays[f"h:{name}"] = matrix.astype(np.float16)
            continue
        scale = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-12) / 127
        arrays[f"q:{name}"] = np.rint(matrix / scale).astype(np.int8)
        arrays[f"s:{name}"] = scale.astype(np.float32)
    for name in FILES:
        if (options.source / name).exists():
            arrays[f"f:{name}"] = np.frombuffer((options.source / name).read_bytes(), np.uint8)
    options.target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.target, **arrays)
    print(f"{options.target}: {options.target.stat().st_size / 1e6:.1f} MB")


def unpack(options):
    options.target.mkdir(parents=True, exist_ok=True)
    tensors = {}
    with np.load(options.source) as arrays:
        for key in arrays.files:
            kind, name = key.split(":", 1)
            if kind == "f":
                (options.target / name).write_bytes(arrays[key].tobytes())
            elif kind == "v" and arrays[key].dtype != np.int64:
                tensors[name] = arrays[key]
            elif kind in "qh":
                matrix = arrays[key].astype(np.float32) * (arrays[f"s:{name}"] if kind == "q" else 1)
                if f"r:{name}" in arrays.files:
                    rows = arrays[f"r:{name}"]
                    whole = np.zeros((rows[0], matrix.shape[1]), np.float32)
                    whole[rows[1:]] = matrix
                    matrix = whole
                tensors[name] = matrix
    write_safetensors(options.target / "model.safetensors", tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["pack", "unpack"])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--texts", nargs="*", type=pathlib.Path, default=[])
    parser.add_argument("--bits", type=int, choices=[8, 16], default=8, help="per weight of a matrix")
    options = parser.parse_args()
    pack(options) if options.action == "pack" else unpack(options)


if __name__ == "__main__":
    main()
