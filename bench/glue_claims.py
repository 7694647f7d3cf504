#!/usr/bin/env python3
"""Tables and verdicts from the results of bench/glue_distillation.py, as Markdown.

    python3 bench/glue_claims.py build/glue_distillation/results.json                       # prints
    python3 bench/glue_claims.py build/glue_distillation/results.json --into docs/reproductions.md

Every claim of Ma et al. 2023 is compared cell by cell (task and alpha) by the means over the seeds, main score. A cell is
clear where the means differ by more than two standard errors of the difference, so it needs several seeds. A claim holds
when most of its cells agree, at least one clearly, and none is clearly against it; one that is about most cells only,
when clear agreement is also more frequent than the opposite. Without a clear cell it is not decided.
--into replaces the text between the two marks of that file.
"""
import argparse
import json
import math
import pathlib

BEGIN, END = "<!-- glue: begin -->", "<!-- glue: end -->"
MAIN = {"MRPC": "f1", "QQP": "f1", "CoLA": "matthews", "STS-B": "pearson"}
IN_MOST_CELLS = "alpha 100 is better than alpha 1 in most cells (Tables 1 and 2)"
TITLES = {
    "1": "Table 1: one network for all",
    "2": "Table 2: clients with different networks",
    "3": "Table 3: public texts of another domain",
    "4": "Table 4: FedID without its parts",
    "public": "Size of the public set",
    "query": "Size of the labelled query set",
    "clients": "Number of clients, same data",
}


class Results:
    def __init__(self, rows):
        self.rows = rows
        self.scores = {}
        for row in rows:
            main = row[MAIN.get(row["task"], "accuracy")]
            self.scores[row["table"], row["task"], row["alpha"], row["method"]] = (*main, row["seeds"])

    def cells(self, table):
        return sorted({(task, alpha) for t, task, alpha, _ in self.scores if t == table})

    def get(self, table, cell, method):
        return self.scores.get((table, *cell, method))


def error_of(a, b):
    return math.sqrt(sum(deviation ** 2 / max(seeds, 1) for _, deviation, seeds in (a, b)))


def compare(results, claims):
    """(cells that agree, cells, those that agree clearly, those that disagree clearly) of pairs (better, worse)."""
    agree = cells = clear = against = 0
    for better, worse in claims:
        a, b = results.get(*better), results.get(*worse)
        if a is None or b is None:
            continue
        cells += 1
        agree += a[0] >= b[0]
        if a[2] > 1 and b[2] > 1:
            clear += a[0] - b[0] > 2 * error_of(a, b)
            against += b[0] - a[0] > 2 * error_of(a, b)
    return agree, cells, clear, against


def claims_of(results):
    one, two, three, four = (results.cells(table) for table in "1234")

    def over(table, cells, better, worse):
        return [((table, cell, b), (table, cell, w)) for cell in cells for b in better for w in worse]

    def skew(table):
        for task in sorted({task for task, _ in results.cells(table)}):
            methods = {m for t, name, _, m in results.scores if t == table and name == task} - {"centralized"}
            for method in sorted(methods):
                yield (table, (task, 100), method), (table, (task, 1), method)

    def ladder(table, names):
        return [((table, cell, b), (table, cell, w)) for cell in results.cells(table)
                for w, b in zip(names, names[1:])]

    others = ["ds_fl", "mhat", "fedid"]
    yield ("FedKD is the worst distillation method (Tables 1 to 3)",
           over("1", one, [*others, "feded"], ["fedkd"]) + over("2", two, others, ["fedkd"]) +
           over("3", three, others, ["fedkd"]))
    yield "FedID beats MHAT and DS-FL (Table 2)", over("2", two, ["fedid"], ["mhat", "ds_fl"])
    yield "FedID as written beats MHAT and DS-FL (Table 2)", over("2", two, ["fedid as written"], ["mhat", "ds_fl"])
    yield "FedAvg and FedDF beat FedID on SST-2 (Table 1)", over(
        "1", [cell for cell in one if cell[0] == "SST-2"], ["fedavg", "feddf"], ["fedid"])
    yield IN_MOST_CELLS, [*skew("1"), *skew("2")]
    yield "centralized training is the upper bound (Table 1)", over(
        "1", one, ["centralized"], ["fedavg", "feddf", "feded", "fedkd", *others])
    yield ("FedID with different networks exceeds centralized training of the server's network",
           [(("2", cell, "fedid"), ("1", cell, "centralized")) for cell in two])
    yield "FedID is best across domains (Table 3)", over("3", three, ["fedid"], ["fedkd", "ds_fl", "mhat"])
    yield "FedID needs its feedback (Table 4)", over("4", four, ["fedid"], ["without feedback"])
    yield "FedID as written needs its feedback (Table 4)", over("4", four, ["as written"], ["as written, without feedback"])
    yield "FedID needs its distillation (Table 4)", over("4", four, ["fedid"], ["without distillation"])
    for table, claim in (("public", "more public texts help"), ("query", "more labelled texts help")):
        for method in ("fedid", *others[:2], "fedkd"):
            yield f"{claim}: {method}", ladder(table, [f"{method} {share} %" for share in (10, 20, 40, 80, 100)])
    yield "more clients with the same data are worse", ladder("clients", ["20 clients", "10 clients", "5 clients"])
    yield "ours: `calibrated` beats FedID, MHAT and DS-FL", over("1", one, ["calibrated"], others) + over(
        "2", two, ["calibrated"], others) + over("3", three, ["calibrated"], others)


def verdicts(results):
    yield "| claim | cells that agree | clearly for | clearly against | verdict |"
    yield "|---|---|---|---|---|"
    for claim, pairs in claims_of(results):
        agree, cells, clear, against = compare(results, pairs)
        if cells == 0:
            yield f"| {claim} | | | | not measured |"
            continue
        fine = against < clear if claim == IN_MOST_CELLS else against == 0
        verdict = "not decided" if clear + against == 0 else "holds" if 2 * agree > cells and fine and clear > 0 else "does not hold"
        yield f"| {claim} | {agree} of {cells} | {clear} | {against} | {verdict} |"
    pairs = [((table, cell, "ds_fl"), (table, cell, "mhat")) for table in "12" for cell in results.cells(table)]
    better, both, clear, against = compare(results, pairs)
    if both:
        verdict = "does not hold" if better in (0, both) and clear + against > 0 else "holds" if clear * against > 0 else "not decided"
        yield f"| DS-FL and MHAT have no consistent order | DS-FL is better in {better} of {both} | {clear} | {against} | {verdict} |"


def cell_text(row):
    scores = [value for value in row.values() if isinstance(value, list)]
    if row["seeds"] == 1:
        return " / ".join(f"{mean:.1f}" for mean, _ in scores) + " (1)"
    return " / ".join(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in scores) + f" ({row['seeds']})"


def table_of(results, table):
    cells = results.cells(table)
    methods = list(dict.fromkeys(row["method"] for row in results.rows if row["table"] == table))
    yield f"**{TITLES[table]}**"
    yield ""
    yield "| method | " + " | ".join(f"{task}, alpha {alpha:g}" for task, alpha in cells) + " |"
    yield "|---|" + "---|" * len(cells)
    for method in methods:
        texts = []
        for task, alpha in cells:
            row = [r for r in results.rows if (r["table"], r["task"], r["alpha"], r["method"]) == (table, task, alpha, method)]
            texts.append(cell_text(row[0]) if row else "")
        yield f"| {method} | " + " | ".join(texts) + " |"
    yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--into", type=pathlib.Path, help="replace the text between the marks of this file")
    options = parser.parse_args()
    rows = [row for path in options.results for row in json.loads(path.read_text())]
    results = Results(rows)
    lines = [*verdicts(results), ""]
    for table in TITLES:
        if results.cells(table):
            lines += table_of(results, table)
    text = "\n".join(lines)
    if options.into is None:
        print(text)
        return
    page = options.into.read_text(encoding="utf-8")
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    options.into.write_text(page[:begin] + "\n" + text + page[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
