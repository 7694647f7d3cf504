#!/usr/bin/env python3
"""Learning with secure sums while clients vanish, beside the plain mean: a table in Markdown.

    bench/secure_learning.py --config configs/demo.yaml --set clients_per_round=10 --seeds 1,2,3,4,5 --out runs/learning

Runs a configuration with the plain mean, with dropouts and a sum in the clear (31 bits, wide clip), and with secagg_plus
and the same dropouts, so that the last two have the same survivors; finished runs are not repeated. Prints the accuracy
after the last round over the seeds, and the differences in points with their standard errors over the seeds.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import shutil
import subprocess
import sys

CASES = {
    "plain": "mean",
    "dropouts, in the clear": "{name: secagg_plus, mode: cost, bits: 31, clip: 8, vanish: VANISH}",
    "dropouts, secagg_plus": "{name: secagg_plus, vanish: VANISH}",
}


def accuracy(arguments, case, seed):
    folder = pathlib.Path(arguments.out) / f"{pathlib.Path(arguments.config).stem}-{case}-{seed}".replace(" ", "_").replace(
        ",", "")
    summary = folder / "summary.json"
    if not summary.exists():
        if arguments.finished:
            return None
        shutil.rmtree(folder, ignore_errors=True)  # an unfinished run
        words = [arguments.chorus, "-q", "run", arguments.config, "--run-folder", str(folder), f"seed={seed}",
                 "aggregation=" + CASES[case].replace("VANISH", str(arguments.vanish)), *arguments.set]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return json.loads(summary.read_text())["last"]["accuracy"]


def points(found, seeds, case, other):
    """The mean difference of two cases over the seeds and its standard error, in points."""
    away = [100 * (found[case, seed] - found[other, seed]) for seed in seeds]
    mean = sum(away) / len(away)
    error = math.sqrt(sum((x - mean) ** 2 for x in away) / max(1, len(away) - 1) / len(away))
    return f"{mean:+.2f} ± {error:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="configs/demo.yaml")
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--out", default="runs/secure_learning", help="folder of the runs")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--vanish", type=float, default=0.2)
    parser.add_argument("--finished", action="store_true", help="start no run: the table of the seeds that are done")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--cases", help="only these, separated by semicolons; plain must be one of them")
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    arguments = parser.parse_args()
    for case in [case for case in CASES if arguments.cases and case not in arguments.cases.split(";")]:
        del CASES[case]
    seeds = arguments.seeds.split(",")
    pairs = [(case, seed) for seed in seeds for case in CASES]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = dict(zip(pairs, pool.map(lambda pair: accuracy(arguments, *pair), pairs)))
    seeds = [seed for seed in seeds if all(found[case, seed] is not None for case in CASES)]
    if not seeds:
        sys.exit("secure_learning: no seed has all its runs")
    print(f"| {len(seeds)} seeds | mean accuracy | lowest | highest | points against plain | against the same survivors |")
    print("|---|---|---|---|---|---|")
    clear = "dropouts, in the clear"
    for case in CASES:
        values = [found[case, seed] for seed in seeds]
        away = "-" if case == "plain" else points(found, seeds, case, "plain")
        same = "-" if case in ("plain", clear) or clear not in CASES else points(found, seeds, case, clear)
        print(f"| {case} | {sum(values) / len(values):.4f} | {min(values):.4f} | {max(values):.4f} | {away} | {same} |")


if __name__ == "__main__":
    main()
