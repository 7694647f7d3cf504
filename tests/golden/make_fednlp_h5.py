#!/usr/bin/python3
"""Writes small files in FedNLP's HDF5 layout with h5py (Debian: python3-h5py), and records what h5py reads from them.

    /usr/bin/python3 tests/golden/make_fednlp_h5.py

makes tests/fixtures/data/fednlp/*_data.h5 and fednlp_h5.txt beside it: for each file (and for each of
../shared/data/fednlp_h5 if it exists) its name, the number of examples, and the CRC-32 of all fields in order.
The C++ reader must compute the same values.
"""
import json
import pathlib
import zlib

import h5py
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/fixtures/data/fednlp"
SHARED = ROOT.parent / "shared/data/fednlp_h5"
TEXT = h5py.string_dtype("utf-8")


def write(name, attributes, groups):
    with h5py.File(OUT / f"{name}_data.h5", "w", libver="latest") as file:
        file["attributes"] = json.dumps(attributes)
        for group, values in groups.items():
            for i, value in enumerate(values):
                if isinstance(value, list) and (not value or isinstance(value[0], str)):
                    value = np.array(value, dtype=TEXT)
                file[f"{group}/{i}"] = value


def lists(train, test):
    total = train + test
    return {"index_list": list(range(total)), "train_index_list": list(range(train)),
            "test_index_list": list(range(train, total))}


def make():
    OUT.mkdir(parents=True, exist_ok=True)
    write("classes", {**lists(3, 2), "label_vocab": {"b": 0, "never": 1, "a": 2}, "num_labels": -1,
                      "task_type": "text_classification", "unknown_key": {"x": [1]}},
          {"X": ["Grüße", "two", "", "four\nlines", "five"], "Y": ["a", "b", "a", "b", "a"], "extra": ["passed over"]})
    write("numbers", {**lists(1, 1), "label_vocab": None, "task_type": "text_classification"},
          {"X": ["x", "y"], "Y": [7, 7]})
    write("tags", {**lists(2, 1), "label_vocab": {"O": 0, "B-LOC": 1}, "task_type": "seq_tagging"},
          {"X": [["New", "Ulm"], ["é"], ["Rome", "."]], "Y": [["O", "B-LOC"], ["O"], ["B-LOC", "O"]],
           "all_deps": [["a", "b"], ["c"], ["d", "e"]]})
    write("spans", {**lists(2, 1), "label_index_list": ["News", "Wiki", "News"], "task_type": "span_extraction"},
          {"context_X": ["Ä cat sat.", "b c", "d e"], "question_X": ["Who?", "c?", "e?"],
           "Y": [np.array([2, 5]), np.array([2, 3], dtype=np.int32), np.array([2, 3])],
           "Y_answer": ["cat", "c", "e"], "question_ids": ["q0", "q1", "q2"]})
    write("spans_plain", {**lists(1, 1), "task_type": "span_extraction", "doc_index": [4, 5]},
          {"context_X": ["Ä cat sat.", "b c"], "question_X": ["Who?", "c?"], "Y": [np.array([2, 5]), np.array([2, 3])]})
    write("pairs", lists(1, 1), {"X": ["source", "s2"], "Y": ["target", "t2"], "history": [["a", "b"], ["c"]]})
    write("chunked", {"index_list": list(range(11))}, {"X_0/X": [f"line {i}" for i in range(11)]})
    with h5py.File(OUT / "fixed_data.h5", "w", libver="latest") as file:
        file["attributes"] = np.bytes_(json.dumps({**lists(1, 1), "task_type": "language_model"}))
        file["X/0"], file["X/1"] = np.bytes_("fixed"), np.bytes_("length")


def text(value):
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def read(path):
    """Every example as a list of fields, straight from h5py."""
    with h5py.File(path, "r") as file:
        attributes = json.loads(text(file["attributes"][()]))
        n = len(attributes["index_list"])
        train = set(attributes.get("train_index_list", range(n * 9 // 10)))
        sources = attributes.get("label_index_list") or attributes.get("doc_index")
        for i in range(n):
            fields = ["train" if i in train else "test"]
            if "context_X" in file:
                context = text(file[f"context_X/{i}"][()])
                begin, end = (int(v) for v in file[f"Y/{i}"][()])
                answer = text(file[f"Y_answer/{i}"][()]) if "Y_answer" in file else context[begin:end]
                fields += [context, text(file[f"question_X/{i}"][()]), answer, str(begin), str(end)]
            else:
                for name in ("X_0/X", "X", "Y"):
                    if name not in file:
                        continue
                    value = file[f"{name}/{i}"][()]
                    fields += [text(v) for v in value] if isinstance(value, np.ndarray) else [text(value)]
            if sources:
                fields.append(text(sources[i]))
            yield fields


def main():
    make()
    lines = []
    for path in sorted(OUT.glob("*_data.h5")) + (sorted(SHARED.glob("*_data.h5")) if SHARED.exists() else []):
        crc, count = 0, 0
        for fields in read(path):
            count += 1
            crc = zlib.crc32(("\x1f".join(fields) + "\x1e").encode("utf-8"), crc)
        lines.append(f"{'shared' if path.parent == SHARED else 'own'} {path.name} {count} {crc}")
    (OUT / "fednlp_h5.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
