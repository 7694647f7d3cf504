"""Checks that Hugging Face transformers loads what Chorus writes and computes the same logits.

    python3 bench/peers/transformers_load.py [PARITY_FOLDER...]

Each parity folder (tests/fixtures/parity by default) is rewritten by `chorus model convert`, in float32, in shards
and in float16, loaded with from_pretrained, and run on the inputs of its expected.safetensors. Needs torch,
transformers and safetensors.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHORUS = ROOT / "build" / "chorus"


def largest_difference(folder, expected):
    config = transformers.AutoConfig.from_pretrained(folder)
    model, report = getattr(transformers, config.architectures[0]).from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise SystemExit(f"{folder}: {kind}: {sorted(report[kind])}")
    inputs = {name[6:]: value for name, value in expected.items() if name.startswith("input.")}
    if config.is_encoder_decoder:
        inputs["labels"] = expected["label.labels"]
    with torch.no_grad():
        output = model.eval()(**inputs)
    names = ("start_logits", "end_logits") if "start_logits" in expected else ("logits",)
    return max((output[name] - expected[name]).abs().max().item() for name in names)


def main():
    folders = [pathlib.Path(p) for p in sys.argv[1:]] or sorted((ROOT / "tests/fixtures/parity").iterdir())
    worst = 0.0
    for folder in folders:
        expected = load_file(folder / "expected.safetensors")
        cells = []
        for options in ([], ["--shard-mb", "1"], ["--dtype", "float16"]):
            with tempfile.TemporaryDirectory() as out:
                subprocess.run([CHORUS, "model", "convert", folder, out, *options], check=True, stdout=subprocess.DEVNULL)
                error = largest_difference(out, expected)
            cells.append(f"{error:.1e}")
            if "float16" not in options:
                worst = max(worst, error)
        print(f"{folder.name:20} float32 {cells[0]}  shards {cells[1]}  float16 {cells[2]}")
    print(f"largest float32 difference {worst:.1e} over {len(folders)} folders")
    if not worst < 2e-5:
        raise SystemExit("transformers does not get the same logits")


if __name__ == "__main__":
    main()
