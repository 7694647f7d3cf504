#!/usr/bin/env python3
"""The scores of own models over several seeds, from finished sweeps: a table and a picture.

    build/chorus sweep configs/personal/clinc.yaml --case 'FedAvg:' --case 'Ditto: algorithm=ditto' --seeds 3 --name clinc
    bench/personal_table.py runs/clinc --svg clinc.svg

For every case and model: the mean over the clients that trained and the mean over the worst tenth of them, each as
mean and standard deviation over seeds, and the megabytes that travelled in a run. With --newcomers: clients that never
trained. The picture has the mean (light) and the worst tenth (dark) of each.
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
from html import escape

MODELS = ("global", "fine-tuned", "own", "alone")


def worst_tenth(scores, higher):
    ordered = sorted(scores, reverse=not higher)
    count = max(1, math.ceil(len(ordered) / 10 - 1e-9))
    return statistics.fmean(ordered[:count])


def spread(values):
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values) if len(values) > 1 else 0:.3f}"


def read(sweep, newcomers):
    """(case, model) -> list over seeds of (mean, worst tenth, megabytes)."""
    rows = {}
    listing = json.loads((sweep / "sweep.json").read_text())
    for run in listing["runs"]:
        folder = pathlib.Path(run.get("folder", ""))
        folder = folder if folder.is_absolute() else sweep / folder.name
        if not (folder / "own_scores.json").exists():
            print(f"{folder}: no own_scores.json ({run.get('status')}); left out", file=sys.stderr)
            continue
        scores = json.loads((folder / "own_scores.json").read_text())
        summary = json.loads((folder / "summary.json").read_text())
        traffic = (summary.get("bytes_up", 0) + summary.get("bytes_down", 0)) / 1e6
        case = ", ".join(str(value) for value in run["values"].values()) or "default"
        clients = [client for client in scores["clients"] if client["newcomer"] == newcomers]
        for model in MODELS:
            each = [client["scores"][model] for client in clients if client["scores"].get(model) is not None]
            if each:
                row = (statistics.fmean(each), worst_tenth(each, scores["higher_is_better"]), traffic)
                rows.setdefault((case, model), []).append(row)
    return rows, listing["metric"]


def picture(rows, metric, title):
    width, height, left, top = 46, 220, 60, 40
    most = max(statistics.fmean(row[k] for row in seeds) for seeds in rows.values() for k in (0, 1)) or 1
    parts = []
    for i, ((case, model), seeds) in enumerate(rows.items()):
        mean, worst = (statistics.fmean(row[k] for row in seeds) for k in (0, 1))
        x = left + i * width
        for value, colour in sorted(((mean, "#9ecae1"), (worst, "#08519c")), reverse=True):  # the taller one behind
            tall = height * max(value, 0) / most
            parts.append(f'<rect x="{x}" y="{top + height - tall:.1f}" width="{width - 12}" height="{tall:.1f}" '
                         f'fill="{colour}"/>')
        parts.append(f'<text x="{x + 4}" y="{top + height + 12}" transform="rotate(40 {x + 4} {top + height + 12})" '
                     f'font-size="11">{escape(case)}: {escape(model)}</text>')
        parts.append(f'<text x="{x}" y="{top + height - height * mean / most - 4:.1f}" font-size="10">{mean:.2f}</text>')
    total = left + len(rows) * width + 120
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{top + height + 170}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/><text x="{left}" y="20" font-size="14">{escape(title)}: {escape(metric)} on own '
            f'tests, mean (light) and worst tenth (dark)</text>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", nargs="+", type=pathlib.Path)
    parser.add_argument("--newcomers", action="store_true")
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    for sweep in arguments.sweep:
        if not (sweep / "sweep.json").exists():
            sys.exit(f"{sweep}: there is no sweep.json; give the folder of a finished sweep")
        rows, metric = read(sweep, arguments.newcomers)
        if not rows:
            sys.exit(f"{sweep}: no run has own_scores.json; set evaluation.personal")
        print(f"{sweep.name}: {metric} on each client's own test examples\n")
        print("| case | model | seeds | mean | worst tenth | MB |\n|---|---|---|---|---|---|")
        for (case, model), seeds in rows.items():
            means, worst, traffic = zip(*seeds)
            print(f"| {case} | {model} | {len(seeds)} | {spread(means)} | {spread(worst)} | "
                  f"{statistics.fmean(traffic):.1f} |")
        print()
        if arguments.svg:
            path = arguments.svg if len(arguments.sweep) == 1 else arguments.svg.with_stem(
                f"{arguments.svg.stem}-{sweep.name}")
            path.write_text(picture(rows, metric, sweep.name))


if __name__ == "__main__":
    main()
