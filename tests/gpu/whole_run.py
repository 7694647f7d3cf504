#!/usr/bin/env python3
"""A small W8 of bench/engine.py: whole runs in every precision, on generated data with models/chorus-mini.

    tests/gpu/whole_run.py --chorus build/gpu/chorus --device cuda

Exits with 1 when a run of Chorus fails or trains nothing. A peer that cannot run is only reported.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make_data(chorus, folder):
    """Two files as bench/whole_run.py expects them."""
    for split, examples in (("train", 600), ("test", 150)):
        plain = folder / f"{split}.jsonl"
        subprocess.run([chorus, "data", "make", "--formulation", "text_classification", "--labels", "4", "--examples",
                        str(examples), "--split", split, "--out", str(plain)], check=True, capture_output=True)
        with gzip.open(f"{plain}.gz", "wt") as out:
            for line in plain.read_text().splitlines():
                example = json.loads(line)
                out.write(json.dumps({"text": example["text"], "label": example["label"]}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", required=True, help="the program")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    options = parser.parse_args()
    chorus = str(pathlib.Path(options.chorus).resolve())
    with tempfile.TemporaryDirectory(prefix="chorus_w8_") as name:
        folder = pathlib.Path(name)
        make_data(chorus, folder)
        report = folder / "report.json"
        done = subprocess.run([sys.executable, str(ROOT / "bench" / "engine.py"), "--chorus", chorus, "--device",
                               options.device, "--quick", "--only", "W8", "--data", name, "--model",
                               str(ROOT / "models" / "chorus-mini"), "--json", str(report)], cwd=ROOT,
                              env={**os.environ, "XDG_CACHE_HOME": name})
        if done.returncode != 0:
            return 1
        rows = [row for row in json.loads(report.read_text())["rows"] if row["workload"] == "W8"]
    ours = [row for row in rows if not row["peer"]]
    failed = [row for row in ours if not row.get("value", 0) > 0]
    for row in failed:
        print(f"FAILED: {row['setting']}: {row.get('failure', 'nothing was trained')}")
    print(f"W8 in small: {len(ours) - len(failed)} of {len(ours)} settings ran, "
          f"{sum('value' in row for row in rows if row['peer'])} of the peer")
    return 1 if failed or not ours else 0


if __name__ == "__main__":
    sys.exit(main())
