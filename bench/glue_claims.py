#!/usr/bin/env python3
"""Tables and verdicts from the results of bench/glue_distillation.py, as Markdown.

    python3 bench/glue_claims.py build/glue_distillation/results.json                       # prints
    python3 bench/glue_claims.py build/glue_distillation/results.json --into docs/reproductions.md
    python3 bench/glue_claims.py docs/reproductions.md --into docs/reproductions.md   # the verdicts on its own tables

Every claim of Ma et al. 2023 is a list of comparisons, in each cell (task and alpha) of one method with another, by the
means over the seeds of the main score. Cells in which no method beats the majority class of the test set are left out: a
method beats it where the t interval (95 %) of its mean is above. A claim holds when the two-sided sign test over its
comparisons says so at 5 %. It does not hold when the sign test says the opposite, or, for a claim about every cell, when
a comparison contradicts it by a t test at 5 % divided by the number of comparisons (Bonferroni). Otherwise it is not
decided. Comparisons that share runs are not independent, so the sign test is too lenient rather than too strict. The
columns "clearly" count t tests at 5 %. A t test needs two seeds of both sides.
A claim that more of something helps is about a trend instead: the t test of a linear contrast of the steps' means (their
ranks as coefficients, the variance within steps), two-sided at 5 % each; its comparisons are those of neighbouring steps.
--into replaces the text between the two marks of that file.
"""
import argparse
import json
import math
import pathlib
import re

BEGIN, END = "<!-- glue: begin -->", "<!-- glue: end -->"
SCORES = {"MRPC": ["f1", "accuracy"], "QQP": ["f1", "accuracy"], "CoLA": ["matthews"], "STS-B": ["pearson", "spearman"]}
MAIN = {task: names[0] for task, names in SCORES.items()}
# What a model of the majority class reaches on GLUE's development sets: accuracy, a correlation for CoLA and STS-B. QQP's
# is that of the development set in ../shared/data (63.2 on the whole one).
MAJORITY = {"WNLI": 56.3, "RTE": 52.7, "MRPC": 68.4, "CoLA": 0, "SST-2": 50.9, "QNLI": 50.5, "QQP": 63.9, "MNLI": 35.4,
            "STS-B": 0}
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
        self.learned = {(row["table"], row["task"], row["alpha"]) for row in rows if beats_majority(row)}

    def cells(self, table):
        return sorted({(task, alpha) for t, task, alpha, _ in self.scores if t == table})

    def get(self, table, cell, method):
        return self.scores.get((table, *cell, method))


def error_of(a, b):
    return math.sqrt(sum(deviation ** 2 / max(seeds, 1) for _, deviation, seeds in (a, b)))


def t_tail(t, freedom):
    """P(T > t) of Student's distribution, by Simpson's rule over its angle: T = sqrt(freedom) tan(angle)."""
    steps, begin = 2000, math.atan(t / math.sqrt(freedom))
    width = (math.pi / 2 - begin) / steps
    density = [math.cos(begin + i * width) ** (freedom - 1) for i in range(steps)] + [0.0 if freedom > 1 else 1.0]
    area = sum(value * (1 if i in (0, steps) else 4 if i % 2 else 2) for i, value in enumerate(density)) * width / 3
    return area * math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(math.pi)


def exceeds(difference, error, freedom, level):
    """Whether a difference is above 0 by a two-sided t test."""
    if difference <= 0:
        return False
    return error == 0 or t_tail(difference / error, freedom) < level / 2


def beats_majority(row):
    mean, deviation = row.get("accuracy", row[MAIN.get(row["task"], "accuracy")])
    seeds = row["seeds"]
    return seeds > 1 and exceeds(mean - MAJORITY[row["task"]], deviation / math.sqrt(seeds), seeds - 1, 0.05)


def sign_test(agree, count):
    """Two-sided p value of so many agreements."""
    tail = sum(math.comb(count, k) for k in range(max(agree, count - agree), count + 1)) / 2 ** count
    return min(1.0, 2 * tail)


class Comparison:
    """Of pairs (better, worse), each (table, cell, method), in cells in which something was learned."""

    def __init__(self, results, pairs):
        found = [(results.get(*better), results.get(*worse)) for better, worse in pairs
                 if (better[0], *better[1]) in results.learned and (worse[0], *worse[1]) in results.learned]
        found = [(a, b) for a, b in found if a is not None and b is not None]
        ties = sum(a[0] == b[0] for a, b in found)
        self.all = len(found)
        self.count = self.all - ties
        self.agree = sum(a[0] > b[0] for a, b in found)
        self.clear = sum(self.differs(a, b, 0.05) for a, b in found)
        self.against = sum(self.differs(b, a, 0.05) for a, b in found)
        self.refuted = any(self.differs(b, a, 0.05 / len(found)) for a, b in found)
        self.p = sign_test(self.agree, self.count)

    @staticmethod
    def differs(a, b, level):
        return a[2] > 1 and b[2] > 1 and exceeds(a[0] - b[0], error_of(a, b), a[2] + b[2] - 2, level)

    def cells(self):
        return f"{self.agree} of {self.all} | {self.clear} | {self.against} | {self.p:.2g}"

    def upwards(self):
        return 2 * self.agree > self.count

    def verdict(self, every):
        if every and self.refuted:
            return "does not hold"
        if self.p >= 0.05:
            return "not decided"
        return "holds" if self.upwards() else "does not hold"


class Trend(Comparison):
    """Of steps, each (table, cell, method), from few to many of something that should help."""

    def __init__(self, results, steps):
        super().__init__(results, list(zip(steps[1:], steps)))
        found = [score for step in steps if (score := results.get(*step)) is not None and score[2] > 1]
        ranks = [rank - (len(found) - 1) / 2 for rank in range(len(found))]
        self.slope = sum(rank * mean for rank, (mean, _, _) in zip(ranks, found))
        error = math.sqrt(sum((rank * deviation) ** 2 / seeds for rank, (_, deviation, seeds) in zip(ranks, found)))
        freedom = sum(seeds - 1 for _, _, seeds in found)
        self.p = 2 * t_tail(abs(self.slope) / error, freedom) if len(found) == len(steps) and error > 0 else 1.0
        self.refuted = False

    def cells(self):
        return super().cells() + " (trend)"

    def upwards(self):
        return self.slope > 0


def claims_of(results):
    """(claim, pairs to compare or trend) of all claims."""
    one, two, three, four = (results.cells(table) for table in "1234")

    def over(table, cells, better, worse):
        return [((table, cell, b), (table, cell, w)) for cell in cells for b in better for w in worse]

    def skew(table):
        for task in sorted({task for task, _ in results.cells(table)}):
            methods = {m for t, name, _, m in results.scores if t == table and name == task} - {"centralized"}
            for method in sorted(methods):
                yield (table, (task, 100), method), (table, (task, 1), method)

    def trends(table, claim, names):
        """In every cell of a study."""
        for cell in results.cells(table):
            if any(results.get(table, cell, name) for name in names):
                yield f"{claim} ({cell[0]})", Trend(results, [(table, cell, name) for name in names])

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
            yield from trends(table, f"{claim} {method}", [f"{method} {share} %" for share in (10, 20, 40, 80, 100)])
    yield from trends("clients", "more clients with the same data are worse", ["20 clients", "10 clients", "5 clients"])
    yield "ours: `calibrated` beats FedID, MHAT and DS-FL", over("1", one, ["calibrated"], others) + over(
        "2", two, ["calibrated"], others) + over("3", three, ["calibrated"], others)


def verdicts(results):
    yield "| claim | comparisons that agree | clearly for | clearly against | p | verdict |"
    yield "|---|---|---|---|---|---|"
    for claim, what in claims_of(results):
        found = what if isinstance(what, Trend) else Comparison(results, what)
        if found.all == 0:
            yield f"| {claim} | | | | | not measured |"
        else:
            yield f"| {claim} | {found.cells()} | {found.verdict(claim != IN_MOST_CELLS)} |"
    pairs = [((table, cell, "ds_fl"), (table, cell, "mhat")) for table in "12" for cell in results.cells(table)]
    found = Comparison(results, pairs)
    if found.all:
        verdict = "does not hold" if found.p < 0.05 else "holds" if found.clear * found.against > 0 else "not decided"
        yield f"| DS-FL and MHAT have no consistent order | DS-FL is better in {found.cells()} | {verdict} |"


def cell_text(row):
    scores = [value for value in row.values() if isinstance(value, list)]
    if row["seeds"] == 1:
        return " / ".join(f"{mean:.1f}" for mean, _ in scores) + " (1)"
    return " / ".join(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in scores) + f" ({row['seeds']})"


STEPPED = re.compile(r"(.+) (\d+ %)")  # a method of a study, and its share


def table_of(results, table):
    """A row per method; a column per cell or, in a study of shares, per cell and share."""
    texts, columns = {}, []  # method to column to text
    for task, alpha in results.cells(table):
        for row in results.rows:
            if (row["table"], row["task"], row["alpha"]) != (table, task, alpha):
                continue
            stepped = STEPPED.fullmatch(row["method"])
            method, share = stepped.groups() if stepped else (row["method"], "")
            column = f"{task}, alpha {alpha:g}" + (f": {share}" if share else "")
            if column not in columns:
                columns.append(column)
            texts.setdefault(method, {})[column] = cell_text(row)
    yield f"**{TITLES[table]}**"
    yield ""
    yield "| method | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for method, found in texts.items():
        yield f"| {method} | " + " | ".join(found.get(column, "") for column in columns) + " |"
    yield ""


def rows_of_page(text):
    """The tables that this script has written, as rows of results.json."""
    tables, rows, columns = {title: table for table, title in TITLES.items()}, [], []
    table = None
    for line in text.splitlines():
        if title := re.fullmatch(r"\*\*(.+)\*\*", line):
            table, columns = tables.get(title[1]), []
        elif table and line.startswith("| method |"):
            columns = [re.fullmatch(r"(.+), alpha ([^:]+)(?:: (.+))?", cell.strip()).groups() for cell in line.split("|")[2:-1]]
        elif table and columns and line.startswith("| "):
            method, *texts = (cell.strip() for cell in line.split("|")[1:-1])
            for (task, alpha, share), text in zip(columns, texts):
                if not text:
                    continue
                seeds = int(re.search(r"\((\d+)\)", text)[1])
                row = {"table": table, "task": task, "alpha": float(alpha), "method": f"{method} {share}" if share else method,
                       "seeds": seeds}
                for name, score in zip(SCORES.get(task, ["accuracy"]), text.split("(")[0].split("/")):
                    mean, _, deviation = score.strip().partition(" ± ")
                    row[name] = [float(mean), float(deviation or 0)]
                rows.append(row)
    return rows


def rows_in(path):
    text = path.read_text(encoding="utf-8")
    return rows_of_page(text[text.index(BEGIN) : text.index(END)]) if path.suffix == ".md" else json.loads(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, nargs="+", help="results.json, or a page with its tables")
    parser.add_argument("--into", type=pathlib.Path, help="replace the text between the marks of this file")
    options = parser.parse_args()
    rows = [row for path in options.results for row in rows_in(path)]
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
