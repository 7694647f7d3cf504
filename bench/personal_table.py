#!/usr/bin/env python3
"""The scores of own models over several seeds, from finished sweeps: a table and a picture.

    build/chorus sweep configs/personal/clinc.yaml --case 'FedAvg:' --case 'Ditto: algorithm=ditto' --seeds 3 --name clinc
    bench/personal_table.py runs/clinc --svg clinc.svg

For every case and model: the mean over the clients that trained and the mean over the worst tenth of them, each as
mean and standard deviation over seeds, with how many seeds are better than the first case's global model of the same
seed, and the megabytes that travelled in a run. With --newcomers: clients that never trained. The picture has the
distribution over the clients of all seeds: the middle half (box), the median (line), the mean (dot), the mean of the
worst tenth (triangle), and all clients from worst to best (thin line).
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
from dataclasses import dataclass
from html import escape

MODELS = ("global", "fine-tuned", "own", "alone")


@dataclass
class Row:
    """A model of one run."""
    seed: int
    scores: list  # one per client
    worst: float  # mean of the worst tenth
    traffic: float  # MB

    @property
    def mean(self):
        return statistics.fmean(self.scores)


def worst_tenth(scores, higher):
    ordered = sorted(scores, reverse=not higher)
    return statistics.fmean(ordered[:max(1, math.ceil(len(ordered) / 10 - 1e-9))])


def spread(values):
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values) if len(values) > 1 else 0:.3f}"


def read(sweep, newcomers):
    """(case, model) -> rows, one per seed; the metric; whether more is better."""
    rows, higher = {}, True
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
        higher = scores["higher_is_better"]
        case = ", ".join(str(value) for value in run["values"].values()) or "default"
        clients = [client for client in scores["clients"] if client["newcomer"] == newcomers]
        for model in MODELS:
            each = [client["scores"][model] for client in clients if client["scores"].get(model) is not None]
            if each:
                row = Row(run["seed"], each, worst_tenth(each, higher), traffic)
                rows.setdefault((case, model), []).append(row)
    # Ditto's global model is FedAvg's: once is enough.
    first = next((key for key in rows if key[1] == "global"), None)
    same = [key for key in rows if key[1] == "global" and key != first
            and [row.scores for row in rows[key]] == [row.scores for row in rows[first]]]
    for key in same:
        del rows[key]
    return rows, listing["metric"], higher


def better(rows, seeds, higher, value):
    """Of how many seeds a value beats the first global model: "3 of 3"."""
    base = {row.seed: value(row) for row in next((rows[key] for key in rows if key[1] == "global"), [])}
    if seeds is rows.get(next((key for key in rows if key[1] == "global"), None)) or not base:
        return ""
    known = [row for row in seeds if row.seed in base]
    wins = sum((value(row) > base[row.seed]) == higher and value(row) != base[row.seed] for row in known)
    return f" ({wins} of {len(known)})"


def table(rows, higher):
    print("| case | model | seeds | mean (better than global) | worst tenth (better) | MB |\n|---|---|---|---|---|---|")
    for (case, model), seeds in rows.items():
        means = spread([row.mean for row in seeds]) + better(rows, seeds, higher, lambda row: row.mean)
        worst = spread([row.worst for row in seeds]) + better(rows, seeds, higher, lambda row: row.worst)
        print(f"| {case} | {model} | {len(seeds)} | {means} | {worst} | "
              f"{statistics.fmean(row.traffic for row in seeds):.1f} |")


def picture(rows, metric, higher, title):
    names, left, top, wide, line = list(rows), 190, 56, 420, 30
    pooled = {name: sorted(score for row in rows[name] for score in row.scores) for name in names}
    low = min(scores[0] for scores in pooled.values())
    # Some clients' perplexities are huge: the axis ends where 97 % of every row's clients do.
    high = max(scores[-1] if higher else scores[int(0.97 * (len(scores) - 1))] for scores in pooled.values())
    low, high = (0.0 if low >= 0 and higher else low), max(high, low + 1e-9)
    x = lambda value: left + wide * (min(value, high) - low) / (high - low)
    seeds = max(len(each) for each in rows.values())
    parts = [f'<text x="12" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
             f'<text x="12" y="38" font-size="12">{escape(metric)} on each client\'s own test, {seeds} seeds'
             f'{"" if higher else " (less is better)"}</text>']
    power = 10 ** math.floor(math.log10((high - low) / 4))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= (high - low) / 6)
    for i in range(math.ceil(low / step), math.floor(high / step) + 1):
        value = i * step
        parts.append(f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{top}" y2="{top + line * len(names)}" '
                     f'stroke="#ddd"/><text x="{x(value):.1f}" y="{top + line * len(names) + 16}" font-size="11" '
                     f'text-anchor="middle">{value:.10g}</text>')
    for i, name in enumerate(names):
        scores, y = pooled[name], top + line * i + line / 2
        quarter, median, three = (scores[round(q * (len(scores) - 1))] for q in (0.25, 0.5, 0.75))
        worst = statistics.fmean(row.worst for row in rows[name])
        mean = statistics.fmean(row.mean for row in rows[name])
        label = name[0] if name[1] == "own" else f"{name[0]}: {name[1]}"
        parts += [f'<text x="{left - 10}" y="{y + 4:.1f}" font-size="12" text-anchor="end">{escape(label)}</text>',
                  f'<line x1="{x(scores[0]):.1f}" x2="{x(scores[-1]):.1f}" y1="{y}" y2="{y}" stroke="#08519c"/>',
                  f'<rect x="{x(quarter):.1f}" y="{y - 8}" width="{max(x(three) - x(quarter), 1):.1f}" height="16" '
                  'fill="#9ecae1" stroke="#08519c"/>',
                  f'<line x1="{x(median):.1f}" x2="{x(median):.1f}" y1="{y - 8}" y2="{y + 8}" stroke="#08519c" '
                  'stroke-width="2"/>',
                  f'<circle cx="{x(mean):.1f}" cy="{y}" r="4" fill="#d94801"/>',
                  f'<path d="M{x(worst):.1f} {y + 1} l-5 9 l10 0 z" fill="#000"/>']
    y = top + line * len(names) + 36
    parts.append(f'<text x="12" y="{y}" font-size="11">box: middle half of the clients; line in it: median; orange dot: '
                 'mean; black triangle: worst tenth</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 40}" height="{y + 14}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", nargs="+", type=pathlib.Path)
    parser.add_argument("--newcomers", action="store_true")
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    for sweep in arguments.sweep:
        if not (sweep / "sweep.json").exists():
            sys.exit(f"{sweep}: there is no sweep.json; give the folder of a finished sweep")
        rows, metric, higher = read(sweep, arguments.newcomers)
        if not rows:
            sys.exit(f"{sweep}: no run has own_scores.json; set evaluation.personal")
        print(f"{sweep.name}: {metric} on each client's own test examples\n")
        table(rows, higher)
        print()
        if arguments.svg:
            path = arguments.svg if len(arguments.sweep) == 1 else arguments.svg.with_stem(
                f"{arguments.svg.stem}-{sweep.name}")
            path.write_text(picture(rows, metric, higher, sweep.name))


if __name__ == "__main__":
    main()
