#!/usr/bin/env python3
"""Accuracy against epsilon for full tuning, LoRA and LoRA with frozen A: configs/privacy/epsilon.yaml.

    bench/epsilon_study.py --device cuda [--svg docs/img/epsilon.svg] [--data ../shared/data/agnews] [KEY=VALUE ...]

First the clipping norm, which is also the step size, is chosen for every tuning at epsilon 8 with one seed (a search that
is not charged: it would cost epsilon in a real federation). Then every epsilon (1, 3, 8, none) runs with three seeds. A run
that is finished is not repeated. Prints the table of bench/epsilon_table.py.
"""
import argparse
import json
import pathlib
import subprocess
import sys

TUNINGS = {"full": "tuning=full", "LoRA": "tuning=lora", "frozen-A LoRA": "tuning={name: lora, freeze_a: true}"}


def case(name, tuning, clip, epsilon):
    private = f"{{name: private_mean, epsilon: {epsilon}, delta: 1e-4, clip: {clip}}}"
    aggregation = "mean" if epsilon is None else private
    return ["--case", f"{name}: {tuning}; trainer.clip={clip}; aggregation={aggregation}"]


def sweep(args, name, cases, seeds):
    command = [args.chorus, "sweep", "configs/privacy/epsilon.yaml", f"device={args.device}", f"data.train=[{args.data}/train_merged.csv]",
               f"data.test=[{args.data}/test.csv]", *args.settings, "--seeds", str(seeds), "--jobs", str(args.jobs), "--name", f"{args.name}-{name}"]
    for more in cases:
        command += more
    subprocess.run(command, check=False)
    return json.loads(pathlib.Path("runs", f"{args.name}-{name}", "sweep.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--data", default="../shared/data/agnews")
    parser.add_argument("--clips", type=float, nargs="+", default=[0.1, 0.3, 1])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 3, 8])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--name", default="epsilon")
    parser.add_argument("--svg")
    args, args.settings = parser.parse_known_args()

    search = sweep(args, "search", [case(f"{name} @ {clip:g}", tuning, clip, 8) for name, tuning in TUNINGS.items() for clip in args.clips], 1)
    best = {}
    for point in search["points"]:
        name, clip = point["values"]["case"].split(" @ ")
        if point["last"]["count"] and point["last"]["mean"] > best.get(name, (-1, 0))[0]:
            best[name] = point["last"]["mean"], float(clip)
    if set(best) != set(TUNINGS):
        sys.exit("the search for clipping norms failed; see runs/" + args.name + "-search")
    print("clipping norms:", ", ".join(f"{name} {clip:g} ({100 * score:.1f} %)" for name, (score, clip) in best.items()), flush=True)
    cases = [case(f"{name} @ {epsilon or 'none'}", tuning, best[name][1], epsilon) for name, tuning in TUNINGS.items() for epsilon in (*args.epsilons, None)]
    sweep(args, "main", cases, args.seeds)
    table = [sys.executable, str(pathlib.Path(__file__).with_name("epsilon_table.py")), f"runs/{args.name}-main"]
    return subprocess.run(table + (["--svg", args.svg] if args.svg else [])).returncode


if __name__ == "__main__":
    sys.exit(main())
