#!/usr/bin/env python3
"""Accuracy against epsilon: a table (Markdown) and a picture from the results of bench/epsilon_study.py.

    bench/epsilon_table.py OUT [--svg docs/img/epsilon.svg]

Scores are those after the last round, mean and standard deviation over the seeds that had no part in the search for the
learning rate; bytes are what one client sends per round.
"""
import argparse
import collections
import json
import pathlib
import statistics

TUNINGS = ["full", "LoRA", "frozen-A LoRA"]
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]


def read(folder):
    cells = collections.defaultdict(list)
    metric = ""
    runs = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for run in sorted(runs, key=lambda run: TUNINGS.index(run["tuning"])):
        metric = run["metric"]
        if not run["search"]:
            wanted = float("inf") if run["epsilon"] is None else run["epsilon"]
            cells[run["tuning"], wanted].append({**run, "score": 100 * run["score"]})
    return metric, cells


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0


def table(metric, cells):
    cases = list(dict.fromkeys(case for case, _ in cells))
    wanted = sorted({epsilon for _, epsilon in cells})
    lines = ["| tuning | " + " | ".join("no privacy" if e == float("inf") else f"epsilon {e:g}" for e in wanted) + " | kB up per client and round |",
             "|---" * (len(wanted) + 2) + "|"]
    for case in cases:
        row = [case]
        for epsilon in wanted:
            runs = cells.get((case, epsilon), [])
            scores = [run["score"] for run in runs]
            row.append(f"{statistics.mean(scores):.1f} ± {spread(scores):.1f}" if scores else "-")
        sent = [run["kilobytes"] for (name, _), runs in cells.items() if name == case for run in runs]
        lines.append("| " + " | ".join(row) + f" | {statistics.mean(sent):.0f} |")
    seeds = min(len(runs) for runs in cells.values())
    noises = ", ".join(f"{cells[cases[0], e][0]['noise']:.2f} for epsilon {e:g}" for e in wanted if e != float("inf") and (cases[0], e) in cells)
    rates = "; ".join(f"{case}: " + ", ".join(f"{cells[case, e][0]['rate']:g}" for e in wanted if (case, e) in cells) for case in cases)
    return ("\n".join(lines) + f"\n\n{metric} in percent after the last round, {seeds} seeds or more. Noise per clipping norm: {noises}. "
            f"Learning rates: {rates}.")


def picture(metric, cells, out):
    cases = list(dict.fromkeys(case for case, _ in cells))
    wanted = sorted({epsilon for _, epsilon in cells})
    left, top, width, height = 60, 50, 560, 280
    step = width / max(len(wanted) - 1, 1)
    scores = [run["score"] for runs in cells.values() for run in runs]
    low, high = max(0, min(scores) // 10 * 10), min(100, -(-max(scores) // 10) * 10)
    y = lambda score: top + height * (1 - (score - low) / max(high - low, 1))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="800" height="400" font-family="sans-serif" font-size="13"><rect width="800" height="400" fill="white"/>',
             f'<text x="{left}" y="28" font-size="16">Accuracy against epsilon (user level), AG News</text>']
    for tick in range(int(low), int(high) + 1, 10):
        parts.append(f'<line x1="{left}" y1="{y(tick)}" x2="{left + width}" y2="{y(tick)}" stroke="#ddd"/><text x="{left - 8}" y="{y(tick) + 4}" text-anchor="end">{tick} %</text>')
    for i, epsilon in enumerate(wanted):
        name = "none" if epsilon == float("inf") else f"{epsilon:g}"
        parts.append(f'<text x="{left + i * step}" y="{top + height + 20}" text-anchor="middle">{name}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 42}" text-anchor="middle">epsilon (none: no privacy)</text>')
    for c, case in enumerate(cases):
        colour, points = COLOURS[c % len(COLOURS)], []
        for i, epsilon in enumerate(wanted):
            runs = [run["score"] for run in cells.get((case, epsilon), [])]
            if not runs:
                continue
            x, mean = left + i * step, statistics.mean(runs)
            points.append(f"{x:.1f},{y(mean):.1f}")
            parts.append(f'<line x1="{x}" y1="{y(mean - spread(runs)):.1f}" x2="{x}" y2="{y(mean + spread(runs)):.1f}" stroke="{colour}"/><circle cx="{x}" cy="{y(mean):.1f}" r="4" fill="{colour}"/>')
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{left + width + 20}" y="{top + 22 * c}" width="12" height="12" fill="{colour}"/><text x="{left + width + 38}" y="{top + 11 + 22 * c}">{case}</text>')
    out.write_text("\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    args = parser.parse_args()
    if not (args.out / "results.jsonl").exists():
        parser.error(f"{args.out}: there is no results.jsonl; run bench/epsilon_study.py first")
    metric, cells = read(args.out)
    if not cells:
        parser.error(f"{args.out}: no run is finished")
    print(table(metric, cells))
    if args.svg:
        picture(metric, cells, args.svg)


if __name__ == "__main__":
    main()
