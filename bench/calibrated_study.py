#!/usr/bin/env python3
"""`calibrated` and its parts against FedID, MHAT and DS-FL, whose servers learn the same labelled texts.

    python3 bench/calibrated_study.py                         # twenty minutes on two cores; prints Markdown

Every run is configs/distillation/quick.yaml with another algorithm, seed and alpha; accuracy of the server's model after
the last round. A run that exists in --out is not repeated. Differences are to `calibrated`, seed by seed; one is marked
where its t interval (95 %, over the seeds) leaves out 0.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACE = "epochs: 2, batch_size: 16"
SLOW = PACE + ", rate: 0.2, server_rate: 0.5"  # as quick.yaml has for MHAT
METHODS = {
    "calibrated": f"calibrated, {PACE}",
    "prior: 0": f"calibrated, {PACE}, prior: 0",
    "confidence: 0": f"calibrated, {PACE}, confidence: 0",
    "prior: 0, confidence: 0 (MHAT with soft labels and query)": f"calibrated, {PACE}, prior: 0, confidence: 0",
    "trust: 1": f"calibrated, {PACE}, trust: 1",
    "trust: 10": f"calibrated, {PACE}, trust: 10",
    "query: false": f"calibrated, {PACE}, query: false",
    "query: false, trust: 10": f"calibrated, {PACE}, query: false, trust: 10",
    "mhat with query": f"mhat, {PACE}, query: true",
    "mhat with query, smaller steps": f"mhat, {SLOW}, query: true",
    "ds_fl with query": f"ds_fl, {PACE}, query: true",
    "ds_fl with query, smaller steps": f"ds_fl, {SLOW}, query: true",
    "fedid": f"fedid, {PACE}, rate: 0.1, server_rate: 0.5",
    "fedid, preset: as_written": f"fedid, {PACE}, preset: as_written, rate: 0.1, server_rate: 0.5",
}
T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}  # by the number of seeds


def accuracy(options, method, alpha, seed):
    folder = options.out / f"{method}-{alpha:g}-{seed}".replace(" ", "").replace(":", "").replace(",", "-")
    if not (folder / "summary.json").exists():
        command = [options.chorus, "run", ROOT / "configs/distillation/quick.yaml", "--run-folder", folder,
                   f"algorithm={{name: {METHODS[method]}}}", f"clients.partition.alpha={alpha:g}", f"seed={seed}",
                   "evaluation.per_client=false"]
        subprocess.run([str(word) for word in command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return 100 * json.loads((folder / "summary.json").read_text())["last"]["accuracy"]


def difference(scores, best):
    pairs = [a - b for a, b in zip(scores, best)]
    mean = statistics.mean(pairs)
    if len(pairs) < 2:
        return f"{mean:+.1f}"
    half = T_95[len(pairs)] * statistics.stdev(pairs) / math.sqrt(len(pairs))
    return f"{mean:+.1f}" + (" *" if abs(mean) > half else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--alphas", nargs="+", type=float, default=[1, 100])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/calibrated_study")
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    scores = {(method, alpha): [accuracy(options, method, alpha, seed) for seed in range(7, 7 + options.seeds)]
              for alpha in options.alphas for method in METHODS}
    print("| algorithm |" + "".join(f" alpha {alpha:g} | difference |" for alpha in options.alphas))
    print("|---|" + "---|---|" * len(options.alphas))
    for method in METHODS:
        cells = []
        for alpha in options.alphas:
            mine = scores[method, alpha]
            deviation = statistics.stdev(mine) if len(mine) > 1 else 0
            cells += [f"{statistics.mean(mine):.1f} ± {deviation:.1f}",
                      "" if method == "calibrated" else difference(mine, scores["calibrated", alpha])]
        print(f"| {method} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
