#!/usr/bin/env python3
"""Every attack against every aggregation: a table in Markdown and a picture.

    bench/attacks.py --chorus build/chorus --out runs/attacks --svg docs/img/attacks.svg

Runs configs/robust/attacks.yaml once per pair; finished runs are not repeated. A cell is the accuracy after the last
round, the mean over the seeds; for the backdoor also its success: the share of texts with the trigger phrase that the
model answers as the attackers want. A rule holds where its accuracy is within 3 points of the mean's without attackers
and, against the backdoor, its success within 10 points of the success without attackers.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys

CONFIG = "configs/robust/attacks.yaml"
DATA = "formulation=text_classification,examples=2400,test_examples=400,labels=4,overlap=0,seed={seed}"
RULES = {
    "mean": "mean",
    "Krum": "{name: krum, attackers: 5}",
    "multi-Krum": "{name: krum, attackers: 5, keep: 13}",
    "Bulyan": "{name: bulyan, attackers: 4}",  # the most that 20 clients allow
    "spectral filter": "{name: spectral_filter, attackers: 5}",
    "median": "median",
    "trimmed mean": "{name: trimmed_mean, attackers: 5}",
    "geometric median": "geometric_median",
    "centred clipping": "centred_clipping",
    "FLTrust": "{name: fltrust, trusted: 0}",
    "mixing, median": "{name: median, mixing: 5}",
    "mixing, trimmed mean": "{name: trimmed_mean, attackers: 5, mixing: 5}",
    "mixing, geometric median": "{name: geometric_median, mixing: 5}",
    "mixing, Krum": "{name: krum, attackers: 5, mixing: 5}",
}
BACKDOOR = '{name: backdoor, target: sea, trigger: "cf mn bb tq", factor: 4}'
ATTACKS = {
    "none": "share: 0.01, attack: " + BACKDOOR,  # by nobody: its success without attackers
    "sign flip x 4": "attack: {name: sign_flip, factor: 4}",
    "scaling x 100": "attack: {name: scaling, factor: 100}",
    "Gaussian, deviation 1": "attack: {name: gaussian, deviation: 1}",
    "label flip x 4": "attack: {name: label_flip, factor: 4}",
    "backdoor x 4": "attack: " + BACKDOOR,
    "ALIE, z 1.5, claim 100": "claim: 100, attack: {name: alie, z: 1.5}",
    "IPM, epsilon 4": "attack: {name: ipm, epsilon: 4}",
    "free riders, claim 100": "claim: 100, attack: free_rider",
    "ALIE, z 1.5": "attack: {name: alie, z: 1.5}",
    "free riders": "attack: free_rider",
}
# Only the mean looks at what clients claim: every other rule gives the same bits in both.
SAME_BUT_FOR_THE_MEAN = {"ALIE, z 1.5": "ALIE, z 1.5, claim 100", "free riders": "free riders, claim 100"}
POINTS, SUCCESS_POINTS = 0.03, 0.10


def run(arguments, rule, attack, seed):
    folder = pathlib.Path(arguments.out) / f"{rule}-{attack}-{seed}".replace(" ", "_").replace(",", "")
    summary = folder / "summary.json"
    if not summary.exists():
        if arguments.finished:
            return None
        shutil.rmtree(folder, ignore_errors=True)  # an unfinished run
        words = [arguments.chorus, "-q", "run", CONFIG, "--run-folder", str(folder), f"seed={seed}",
                 f'data.train=["{DATA.format(seed=seed)}"]', f"aggregation={RULES[rule]}",
                 "attacks={share: 0.25, spared: [0], " + ATTACKS[attack] + "}", *arguments.set]
        if attack == "none":
            words[-1 - len(arguments.set)] = "attacks={" + ATTACKS[attack] + "}"
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    last = json.loads(summary.read_text())["last"]
    return last["accuracy"], last.get("attack_success")


def measure(arguments):
    cells = {}
    for table_of, names in ((RULES, arguments.rules), (ATTACKS, arguments.attacks)):
        for name in [name for name in table_of if names and name not in names.split(";")]:
            del table_of[name]
    pairs = [(rule, attack, seed) for seed in arguments.seeds.split(",") for rule in RULES for attack in ATTACKS
             if rule == "mean" or attack not in SAME_BUT_FOR_THE_MEAN]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for (rule, attack, _), found in zip(pairs, pool.map(lambda pair: run(arguments, *pair), pairs)):
            if found:
                cells.setdefault((rule, attack), []).append(found)

    for attack, same in SAME_BUT_FOR_THE_MEAN.items():
        cells.update({(rule, attack): cells[rule, same] for rule in RULES if rule != "mean" and (rule, same) in cells})

    def mean(values):
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    return {pair: (mean([f[0] for f in found]), mean([f[1] for f in found])) for pair, found in cells.items()}


def holds(cells, rule, attack):
    if (rule, attack) not in cells:
        return False
    accuracy, success = cells[rule, attack]
    clean, usual = cells["mean", "none"]
    # A text of another label is answered with the target now and then without any attack.
    return accuracy >= clean - POINTS and ("backdoor" not in attack or success <= usual + SUCCESS_POINTS)


def text_of(cells, rule, attack):
    if (rule, attack) not in cells:
        return "-"
    accuracy, success = cells[rule, attack]
    return f"{accuracy:.3f}" + (f" / {success:.2f}" if "backdoor" in attack or attack == "none" else "")


def table(cells):
    lines = ["| attack | " + " | ".join(RULES) + " | hold |", "|---" * (len(RULES) + 2) + "|"]
    for attack in ATTACKS:
        row, count = [], 0
        for rule in RULES:
            good = holds(cells, rule, attack)
            count += good and rule != "mean"
            row.append(f"**{text_of(cells, rule, attack)}**" if good else text_of(cells, rule, attack))
        lines.append(f"| {attack} | " + " | ".join(row) + f" | {count} |")
    return "\n".join(lines)


def picture(cells):
    left, top, width, height = 180, 76, 92, 30
    total_width, total_height = left + width * len(RULES) + 14, top + height * len(ATTACKS) + 62
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" width="{total_width}" '
           f'height="{total_height}" font-family="system-ui, sans-serif" font-size="12" fill="#222">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           '<text x="14" y="24" font-size="15" font-weight="600">Accuracy with 5 attackers of 20 clients</text>']
    for column, rule in enumerate(RULES):
        for line, word in enumerate(reversed(rule.split(" "))):
            out.append(f'<text x="{left + width * (column + 0.5)}" y="{top - 10 - 15 * line}" text-anchor="middle">'
                       f'{word}</text>')
    clean = cells["mean", "none"][0]
    for row, attack in enumerate(ATTACKS):
        y = top + height * row
        out.append(f'<text x="{left - 10}" y="{y + 20}" text-anchor="end">{attack}</text>')
        for column, rule in enumerate(RULES):
            if (rule, attack) not in cells:
                continue
            lost = max(0.0, clean - cells[rule, attack][0])
            fooled = "backdoor" in attack and cells[rule, attack][1] > cells["mean", "none"][1] + SUCCESS_POINTS
            shade = "#b7e0bd" if holds(cells, rule, attack) else "#f7dfa5" if lost < 0.15 and not fooled else "#eeb0a6"
            x = left + width * column
            out.append(f'<rect x="{x + 1}" y="{y + 1}" width="{width - 2}" height="{height - 2}" rx="3" fill="{shade}"/>')
            out.append(f'<text x="{x + width / 2}" y="{y + 20}" text-anchor="middle">'
                       f'{text_of(cells, rule, attack)}</text>')
    for line, text in enumerate((f"Green: within 3 points of the mean without attackers ({clean:.3f}). Yellow: within 15.",
                                 "Second number: success of the backdoor; red where it succeeds.")):
        out.append(f'<text x="14" y="{total_height - 32 + 18 * line}">{text}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--out", default="runs/attacks", help="folder of the runs")
    parser.add_argument("--svg", help="writes the picture here")
    parser.add_argument("--seeds", default="1,2,3", help="of runs and their data")
    parser.add_argument("--finished", action="store_true", help="start no run: the table of those that are there")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--rules", help="only these, separated by semicolons; the mean must be one of them")
    parser.add_argument("--attacks", help="only these, separated by semicolons; none must be one of them")
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    arguments = parser.parse_args()
    cells = measure(arguments)
    print(table(cells))
    if arguments.svg:
        pathlib.Path(arguments.svg).write_text(picture(cells))


if __name__ == "__main__":
    main()
