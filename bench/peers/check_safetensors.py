#!/usr/bin/env python3
"""Loads safetensors files written by Chorus with the Python library and compares them with their source.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install safetensors numpy ml_dtypes
    CHORUS_TEST_OUTPUT=/tmp/written build/release/src/core/files/core_files_test --gtest_filter='SafetensorsTest.Writes*'
    /tmp/venv/bin/python bench/peers/check_safetensors.py /tmp/written

FOLDER/every_type.safetensors must equal the tensors of tests/fixtures/checkpoints/make_safetensors.py, and Python
must reject what Chorus rejects: the malformed files of src/core/files/safetensors_test.cpp are tried here.
"""
import json
import pathlib
import struct
import sys

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/fixtures/checkpoints"))
from make_safetensors import tensors as expected  # noqa: E402


def check_values(path):
    got = load_file(path)
    assert set(got) == set(expected), set(got) ^ set(expected)
    for name, value in expected.items():
        assert got[name].dtype == value.dtype and got[name].shape == value.shape, name
        assert np.array_equal(got[name], value), name
    with safe_open(path, "np") as file:
        assert file.metadata() == {"format": "pt"}
    print(f"{path}: {len(got)} tensors are equal")


def check_refusals():
    def file(header, data=b""):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data

    def tensor(shape, begin, end, dtype="U8"):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    bad = {
        "empty": b"", "short": b"\2\0\0", "header beyond the file": struct.pack("<Q", 64) + b"{}",
        "header too long": b"\xff" * 20, "array": file(b"[]"), "NUL": file(b"{}\0"), "half JSON": file(b'{"a":'),
        "dtype": file({"w": tensor([4], 0, 4, "F7")}, b"abcd"), "negative": file({"w": tensor([-4], 0, 4)}, b"abcd"),
        "overflow": file({"w": tensor([2**32, 2**32], 0, 4)}, b"abcd"), "order": file({"w": tensor([4], 4, 0)}, b"abcd"),
        "size": file({"w": tensor([2], 0, 4)}, b"abcd"), "truncated": file({"w": tensor([8], 0, 8)}, b"abcd"),
        "trailing": file({"w": tensor([3], 0, 3)}, b"abcd"), "hole": file({"w": tensor([3], 1, 4)}, b"abcd"),
        "overlap": file({"a": tensor([3], 0, 3), "b": tensor([2], 2, 4)}, b"abcd"),
        "metadata": file({"__metadata__": {"a": 1}}),
    }
    for name, data in bad.items():
        try:
            deserialize(data)
        except SafetensorError:
            continue
        sys.exit(f"Python accepts '{name}', which Chorus refuses")
    print(f"{len(bad)} malformed files are refused by both")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    check_values(pathlib.Path(sys.argv[1]) / "every_type.safetensors")
    check_refusals()
