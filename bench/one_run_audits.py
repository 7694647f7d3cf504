#!/usr/bin/env python3
"""Lower bounds on epsilon from single runs (configs/privacy/one_run.yaml), many times: none may exceed what was accounted.

    bench/one_run_audits.py --runs 25 [--jobs 4] [--chorus build/chorus] [--json FILE] [--svg docs/img/one_run.svg]

Four settings with different noise and sampling, --runs runs each, with other canaries planted in each of them; a few
shadow runs with hardly any noise tell what every canary's loss would be with and without it. With --json FILE, which is
written after every run, another call continues. Prints for every
setting the accounted epsilon, the largest and the median bound, and how many exceed it; status 1 if any does.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

SETTINGS = {  # the noise comes first
    "noise 0.5, one step": ["trainer.privacy.noise=0.5"],
    "noise 1, one step": ["trainer.privacy.noise=1"],
    "noise 2, one step": ["trainer.privacy.noise=2"],
    "noise 0.8, 10 steps, sampling rate 0.2": ["trainer.privacy.noise=0.8", "trainer.steps=10", "trainer.batch_size=180"],
}


def train(args, folder, settings):
    command = [args.chorus, "run", "configs/privacy/one_run.yaml", *settings, "--run-folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


def audit(args, folder, settings, seed, shadows):
    run = pathlib.Path(folder) / f"run{seed}"
    train(args, run, [*settings, f"audit.seed={seed}"])
    # A run is locked while it is read, and audits run beside each other.
    own = [shutil.copytree(shadow, pathlib.Path(folder) / f"{shadow.name}-of-{seed}") for shadow in shadows]
    command = [args.chorus, "privacy", "audit", str(run), "--only", "canaries", "--json", "--shadow", *map(str, own)]
    result = subprocess.run(command, capture_output=True, text=True)
    for copy in (run, *own):
        shutil.rmtree(copy)
    if not result.stdout.lstrip().startswith("{"):
        sys.exit(result.stderr)
    report = json.loads(result.stdout)
    canaries = report["canaries"]
    return dict(epsilon=report["accounted"]["epsilon"], bound=canaries["epsilon_lower_bound"], gaussian=canaries["epsilon_lower_bound_gaussian"],
                auc=canaries["membership_by_shadow_runs"]["auc"], comparable=canaries["comparable"])


def picture(results, out):
    left, top, width, height = 60, 50, 620, 280
    most = max(row["epsilon"] for rows in results.values() for row in rows) * 1.05
    y = lambda value: top + height * (1 - value / most)
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="720" height="400" font-family="sans-serif" font-size="12"><rect width="720" height="400" fill="white"/>',
             f'<text x="{left}" y="28" font-size="16">Lower bounds on epsilon from single runs, and the accounted epsilon</text>']
    step = 2 if most > 8 else 1
    for tick in range(0, int(most) + 1, step):
        parts.append(f'<line x1="{left}" y1="{y(tick)}" x2="{left + width}" y2="{y(tick)}" stroke="#ddd"/><text x="{left - 8}" y="{y(tick) + 4}" text-anchor="end">{tick}</text>')
    slot = width / len(results)
    for i, (name, rows) in enumerate(results.items()):
        x = left + slot * i
        accounted = rows[0]["epsilon"]
        parts.append(f'<line x1="{x + 8}" y1="{y(accounted)}" x2="{x + slot - 8}" y2="{y(accounted)}" stroke="#D55E00" stroke-width="3"/>')
        for j, row in enumerate(rows):
            parts.append(f'<circle cx="{x + 14 + (slot - 28) * (j + 0.5) / len(rows):.1f}" cy="{y(row["gaussian"]):.1f}" r="3" fill="#0072B2" fill-opacity="0.7"/>')
        for k, line in enumerate(name.split(", ", 1)):
            parts.append(f'<text x="{x + slot / 2}" y="{top + height + 18 + 15 * k}" text-anchor="middle">{line}</text>')
    parts.append(f'<rect x="{left + 410}" y="{top + 6}" width="12" height="4" fill="#D55E00"/><text x="{left + 428}" y="{top + 12}">accounted epsilon</text>')
    parts.append(f'<circle cx="{left + 416}" cy="{top + 26}" r="3" fill="#0072B2"/><text x="{left + 428}" y="{top + 30}">lower bound of one run (95 %)</text>')
    out.write_text("\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--only", help="settings whose name contains this")
    parser.add_argument("--shadows", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    args = parser.parse_args()
    results, above = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}, 0
    print("| setting | accounted epsilon | largest bound | median | (epsilon, delta) bound, largest | above |\n|---|---|---|---|---|---|")
    for name, settings in SETTINGS.items():
        if args.only and args.only not in name:
            continue
        rows = results.get(name, [])
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            shadows = [pathlib.Path(folder) / f"shadow{i}" for i in range(args.shadows if len(rows) < args.runs else 0)]
            list(pool.map(lambda i: train(args, shadows[i], [*settings[1:], "trainer.privacy.noise=0.01", f"audit.seed={1000 + i}"]), range(len(shadows))))
            for row in pool.map(lambda seed: audit(args, folder, settings, seed, shadows), range(len(rows) + 1, args.runs + 1)):
                rows.append(row)
                results[name] = rows
                if args.json:
                    args.json.write_text(json.dumps(results))
        epsilon, bounds = rows[0]["epsilon"], [row["gaussian"] for row in rows]
        more = sum(max(row["gaussian"], row["bound"]) > row["epsilon"] for row in rows)
        above += more
        print(f"| {name} | {epsilon:.3f} | {max(bounds):.3f} ({100 * max(bounds) / epsilon:.0f} %) | {statistics.median(bounds):.3f} | "
              f"{max(row['bound'] for row in rows):.3f} | {more} of {len(rows)} |", flush=True)
    if args.svg:
        picture(results, args.svg)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
