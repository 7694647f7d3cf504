#!/usr/bin/env python3
"""Tables 1 to 4 and the studies of Ma et al. 2023 (FedID), as `chorus run` commands.

    bench/glue_distillation.py --prepare build/glue_data --data ../shared/data --rows 4800        # smaller files
    bench/glue_distillation.py --data build/glue_data --tune SST-2 QQP --chosen build/chosen.json # rates, by method
    bench/glue_distillation.py --data build/glue_data --chosen build/chosen.json --tables 1 2 --tasks SST-2 QQP
    bench/glue_distillation.py --tables 4 --tasks RTE --model models/chorus-mini --device cpu --list
    bench/glue_claims.py build/glue_distillation/results.json                                     # tables and verdicts

Every cell is one run per seed of configs/distillation/glue.yaml with other settings, in OUT/TASK/METHOD/SETTINGS/SEED,
where SETTINGS is a hash of its settings; a run that exists already, or that another cell needs too, is not repeated. Of a
finished run only its summary and metrics are kept. At the end a table of means and standard deviations over the seeds
(the score after the last round, x100) is printed and added to OUT/results.json.
With --minutes no run begins after that time; cells without a finished run are left out, and the table shows how many
seeds there were. A run that left clients out (no memory, for example) is said and not counted. The first seed of all
cells comes first.

  table 1   centralized (on the clients' data), fedavg, feddf, feded, fedkd, ds_fl, mhat, fedid (as published and as
            written), calibrated; alpha 100 and 1; one network. Centralized training does not depend on alpha: it runs once
  table 2   the methods from fedkd on; alpha 100 and 1; clients with the networks of --networks
  table 3   the same methods, the public set from another domain: SST-2 with IMDB, QQP with PAWS, 64 tokens of each text; a
            hundred labelled queries are set aside from the training data, which all goes to the clients otherwise
  table 4   fedid without feedback, and without distillation; as written with and without feedback
  studies   public and query: a tenth to all of the public texts, or of the labelled queries, while the clients' data stay
            the same; the other methods' servers train on the queries, too. clients: 5, 10, 20 clients

--prepare writes --rows random rows of every task's training data, the whole development sets, and a quarter as many texts
of the other domains of table 3, for a machine to which data travel slowly. QNLI has no training data in ../shared/data:
1,000 rows of its development set are the test set there, and the others are for training.

--tune chooses the settings of GRIDS for every method by itself: each combination runs with alpha 1, one network, another
seed, and a sixth of the training data in the place of the test set; the highest mean accuracy over the tasks given wins.
"""
import argparse
import concurrent.futures
import dataclasses
import gzip
import hashlib
import itertools
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TASKS = {  # task, test file, scores
    "WNLI": ("pair_classification", "dev.tsv", ["accuracy"]),
    "RTE": ("pair_classification", "dev.tsv", ["accuracy"]),
    "MRPC": ("pair_classification", "dev.tsv", ["f1", "accuracy"]),
    "CoLA": ("text_classification", "dev.tsv", ["matthews"]),
    "SST-2": ("text_classification", "dev.tsv", ["accuracy"]),
    "QNLI": ("pair_classification", "dev.tsv", ["accuracy"]),
    "QQP": ("pair_classification", "dev.tsv", ["f1", "accuracy"]),
    "MNLI": ("pair_classification", "dev_matched.tsv", ["accuracy"]),
    "STS-B": ("pair_regression", "dev.tsv", ["pearson", "spearman"]),
}
METHODS = {
    "centralized": ["algorithm=centralized", "rounds=1"],
    "fedavg": ["algorithm=fedavg"],
    "feddf": ["algorithm=feddf"],
    "feded": ["algorithm=feded"],
    "fedkd": ["algorithm=fedkd", "rounds=1"],
    "ds_fl": ["algorithm=ds_fl"],
    "mhat": ["algorithm=mhat"],
    "fedid": [],
    "fedid as written": ["algorithm.preset=as_written"],
    "calibrated": ["algorithm={name: calibrated, trust: 1}"],
}
DISTILLING = ["fedkd", "ds_fl", "mhat", "fedid", "fedid as written", "calibrated"]
ABLATIONS = {  # row: method, what it lacks
    "fedid": ("fedid", []),
    "without feedback": ("fedid", ["algorithm.feedback=none"]),
    "without distillation": ("fedid", ["algorithm.distillation=false"]),
    "as written": ("fedid as written", []),
    "as written, without feedback": ("fedid as written", ["algorithm.feedback=none"]),
}
STUDIED = {"fedid": [], **{name: ["algorithm.query=true"] for name in ("mhat", "ds_fl", "fedkd")}}
SHARES = (0.1, 0.2, 0.4, 0.8, 1)
ELSEWHERE = {"SST-2": "imdb/train.jsonl.gz", "QQP": "paws/train.tsv"}


def factors(clients, server):
    """Combinations of factors of the learning rate on the public set."""
    return [[f"algorithm.rate={rate:g}", f"algorithm.server_rate={server_rate:g}"]
            for rate, server_rate in itertools.product(clients, server)]


# By method, what --tune tries. Clients of FedDF, FedED and FedKD learn nothing from the public set. FedKD has one round:
# with 5 epochs its server makes as many passes over the public set as the others in five rounds.
GRIDS = {
    "centralized": [["trainer.epochs=3"], ["trainer.epochs=10"]],
    **{name: factors([1], [0.1, 0.3, 1]) for name in ("feddf", "feded")},
    "fedkd": [[*rates, f"algorithm.epochs={epochs}"] for rates in factors([1], [0.3, 1]) for epochs in (1, 5)],
    **{name: factors([0.03, 0.1, 0.3], [0.3, 1]) for name in ("ds_fl", "mhat", "calibrated")},
    "fedid": factors([0.003, 0.01, 0.03], [0.3, 1]),
    "fedid as written": factors([0.01, 0.03, 0.1], [0.3, 1]),
}


@dataclasses.dataclass(frozen=True)
class Cell:
    table: str
    task: str
    alpha: float
    row: str
    method: str
    more: tuple = ()  # settings besides those of the method


def cells(options):
    """All requested cells."""
    networks = ()
    if options.networks:
        share = 1 / (len(options.networks) + 1)
        models = ", ".join(f"{{name: network{i}, share: {share:g}, model: {{from: {folder}}}}}"
                           for i, folder in enumerate(options.networks))
        networks = (f"clients.models=[{models}]",)
    for table in options.tables:
        for task in options.tasks:
            if table == "1":
                for alpha in options.alphas:
                    for method in METHODS:
                        yield Cell(table, task, alpha, method, method)
            elif table == "2":
                for alpha in options.alphas:
                    for method in DISTILLING:
                        yield Cell(table, task, alpha, method, method, networks)
            elif table == "3" and task in ELSEWHERE:
                train, queries = set_aside(options, task, "table3", 100)
                other = (f"data.train=[{train}]", f"public={{unlabelled: [{options.data}/{ELSEWHERE[task]}], query: [{queries}]}}",
                         "task.max_length=64")
                for method in DISTILLING:
                    yield Cell(table, task, 1, method, method, networks + other)
            elif table == "4":
                for row, (method, lacks) in ABLATIONS.items():
                    yield Cell(table, task, 1, row, method, (*lacks, *networks))
            elif table in ("public", "query"):
                for share in SHARES:
                    files = public_files(options, task, **{table: share})
                    for method, more in STUDIED.items():
                        yield Cell(table, task, 1, f"{method} {100 * share:.0f} %", method, (*more, *networks, *files))
            elif table == "clients":
                for count in (5, 10, 20):
                    more = () if count == 10 else (f"clients.count={count}", f"clients_per_round={count}")
                    yield Cell(table, task, 1, f"{count} clients", "fedid", (*networks, *more))


def rows_of(path, task):
    """The head and the rows of a GLUE file."""
    lines = [line + "\n" for line in path.read_text(encoding="utf-8-sig").split("\n") if line]
    head = [] if task == "CoLA" else lines[:1]
    return head, lines[len(head):]


def shuffled(options, task):
    """The head and the rows of a task's training data, of which as many as --limit says."""
    head, rows = rows_of(options.data / "glue" / task / "train.tsv", task)
    random.Random(1).shuffle(rows)
    return head, rows[:options.limit or len(rows)]


def write_rows(folder, head, parts):
    """The paths of files with these rows each, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, rows in parts.items():
        (folder / file).write_text("".join(head + rows), encoding="utf-8")
    return [folder / file for file in parts]


def prepare(options):
    for task, (_, test, _) in TASKS.items():
        source, target = options.data / "glue" / task, options.prepare / "glue" / task
        if (source / "train.tsv").exists():
            head, rows = shuffled(options, task)
            write_rows(target, head, {"train.tsv": rows[:options.rows]})
            shutil.copyfile(source / test, target / test)
        else:  # QNLI
            head, rows = rows_of(source / test, task)
            random.Random(1).shuffle(rows)
            write_rows(target, head, {"train.tsv": rows[1000:][:options.rows], test: rows[:1000]})
    for name in ELSEWHERE.values():
        source, target = options.data / name, options.prepare / name
        target.parent.mkdir(parents=True, exist_ok=True)
        open_file = gzip.open if name.endswith(".gz") else open
        with open_file(source, "rt", encoding="utf-8") as text:
            lines = text.readlines()
        head = lines[:1] if name.endswith(".tsv") else []
        rows = lines[len(head):]
        random.Random(1).shuffle(rows)
        with open_file(target, "wt", encoding="utf-8") as out:
            out.writelines(head + rows[:options.rows // 4])


def set_aside(options, task, name, count):
    """Files with `count` random rows of the training data and with the others: (others, chosen)."""
    head, rows = shuffled(options, task)
    return write_rows(options.out / "data" / task / name, head, {"train.tsv": rows[count:], "chosen.tsv": rows[:count]})


def public_files(options, task, public=1, query=1):
    """Half of the training data for the clients; of the other half these shares of the public texts and of the queries."""
    head, rows = shuffled(options, task)
    half, queries = len(rows) // 2, len(rows) // 20
    train, unlabelled, labelled = write_rows(options.out / "data" / task / f"public{public:g}-query{query:g}", head, {
        "train.tsv": rows[:half],
        "public.tsv": rows[half + queries:][:round(public * (len(rows) - half - queries))],
        "query.tsv": rows[half:half + queries][:round(query * queries)]})
    return (f"data.train=[{train}]", f"public={{unlabelled: [{unlabelled}], query: [{labelled}]}}")


def tune(options):
    """Chooses one combination of GRIDS for every method, or for those of --methods, and writes them to --chosen."""
    methods = [method for method in GRIDS if not options.methods or method in options.methods]
    tries = []  # method, combination, task, run
    for task in options.tune:
        _, rows = shuffled(options, task)
        train, held = set_aside(options, task, "tune", len(rows) // 6)
        for method in methods:
            cell = Cell("tune", task, 1, method, method, (f"data.train=[{train}]", f"data.test=[{held}]"))
            tries += [(method, choice, task, Run(options, cell, 7, choice)) for choice in GRIDS[method]]
    run_all(options, [each[3] for each in tries])
    if options.list:
        return
    chosen = json.loads(options.chosen.read_text()) if options.chosen.exists() else {}
    for method in methods:
        best = None
        for choice in GRIDS[method]:
            scores = [100 * last.get("accuracy", last.get(TASKS[task][2][0]))
                      for name, other, task, one in tries if (name, other) == (method, choice) and (last := one.scores())]
            print(f"tune {method:18} {' '.join(choice)}: {' '.join(f'{score:.1f}' for score in scores)}", flush=True)
            if len(scores) == len(options.tune) and (best is None or sum(scores) > best):
                best, chosen[method] = sum(scores), choice
        print(f"tune {method:18} chosen: {' '.join(chosen.get(method, ['nothing']))}", flush=True)
    options.chosen.write_text(json.dumps(chosen, indent=1))


def overrides_of(options, cell, seed, chosen):
    """Later settings overrule earlier ones."""
    name, test, _ = TASKS[cell.task]
    alpha = 100 if cell.method == "centralized" else cell.alpha
    folder = options.data / "glue" / cell.task
    result = [
        f"name=glue-{cell.task}",
        f"seed={seed}",
        f"device={options.device}",
        f"data={{train: [{folder}/train.tsv], test: [{folder}/{test}], glue_task: {cell.task}, limit: {options.limit}}}",
        f"task={{name: {name}, max_length: {options.max_length}}}",
        f"model={{from: {options.model}}}",
        f"clients.partition={{name: label_dirichlet, alpha: {alpha}}}",
        "evaluation.every=0",
    ]
    if options.precision != "bfloat16":  # that of glue.yaml
        result.append(f"trainer.precision={options.precision}")
    if options.learning_rate:
        result.append(f"trainer.learning_rate={options.learning_rate}")
    if options.rounds:
        result.append(f"rounds={options.rounds}")
    if options.local_epochs:
        result.append(f"trainer.epochs={options.local_epochs}")
    result += METHODS[cell.method]
    if options.epochs and cell.method not in ("centralized", "fedavg"):
        result.append(f"algorithm.epochs={options.epochs}")
    return [*result, *chosen, *cell.more]


class Run:
    """One run of the program. Runs with the same settings have the same folder."""

    def __init__(self, options, cell, seed, chosen):
        self.options = options
        self.overrides = overrides_of(options, cell, seed, chosen)
        others = [word for word in self.overrides if not word.startswith(("seed=", "device="))]
        key = hashlib.sha256("\n".join([*others, *options.set]).encode()).hexdigest()[:12]
        self.folder = options.out / cell.task / cell.method.replace(" ", "_") / key / str(seed)
        self.log = self.folder.parent / f"{seed}.log"

    def start(self):
        options, folder = self.options, self.folder
        if self.left_out() == []:
            return
        command = [str(options.chorus), "run", str(ROOT / "configs/distillation/glue.yaml"), "--run-folder", str(folder)]
        command += [*self.overrides, *options.set]
        if options.list:
            print(" ".join(f"'{word}'" if " " in word else word for word in command))
            return
        if options.minutes and time.monotonic() - options.begun > 60 * options.minutes:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "w") as log:
            status = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                                    env={**os.environ, "OMP_NUM_THREADS": str(options.threads)}).returncode
        if status != 0:
            print(f"{' '.join(command)} ended with {status}; see {self.log}", flush=True)
            print(self.log.read_text(errors="replace")[-600:], flush=True)
        for part in folder.iterdir() if folder.exists() else []:
            if part.is_dir():
                shutil.rmtree(part)

    def left_out(self):
        """What a finished run says of clients that failed; None of a run that has not finished."""
        if not (self.folder / "summary.json").exists():
            return None
        return [line for line in self.log.read_text(errors="replace").splitlines()
                if " is left out: " in line and "it has no rows to train on" not in line]

    def scores(self):
        """The last scores of a finished run in which no client failed; None of another one."""
        why = self.left_out()
        if why:
            print(f"{self.folder} is not counted: {len(why)} times a client was left out, at first: {why[0]}", flush=True)
        return None if why is None or why else json.loads((self.folder / "summary.json").read_text())["last"]


def run_all(options, runs):
    """--jobs at a time."""
    runs = list({one.folder: one for one in runs}.values())
    if options.list:
        for one in runs:
            one.start()
        return
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(Run.start, runs))


def row_of(cell, runs):
    """Mean and deviation of a cell's scores; None without a finished run."""
    found = [last for last in (one.scores() for one in runs) if last is not None]
    scores = {name: [100 * last[name] for last in found if last.get(name) is not None] for name in TASKS[cell.task][2]}
    scores = {name: values for name, values in scores.items() if values}
    if not scores:
        return None
    row = {"table": cell.table, "task": cell.task, "alpha": cell.alpha, "method": cell.row,
           "seeds": max(len(values) for values in scores.values())}
    for name, values in scores.items():
        row[name] = [statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0]
    text = "  ".join(f"{name} {row[name][0]:.1f} +- {row[name][1]:.1f}" for name in scores)
    print(f"table {cell.table}  {cell.task:6} alpha {cell.alpha:<4g} {cell.row:28} {text}  ({row['seeds']} seeds)", flush=True)
    return row


def name_of(row):
    return row["table"], row["task"], row["alpha"], row["method"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=[], choices=["1", "2", "3", "4", "public", "query", "clients"])
    parser.add_argument("--tasks", nargs="+", default=["RTE"], choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", default="models/bert-base-uncased", help="the server's network")
    parser.add_argument("--networks", nargs="*", default=[], help="other networks of clients, in equal shares")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data"), help="folder with glue/, imdb/ and paws/")
    parser.add_argument("--prepare", type=pathlib.Path, help="write smaller files there and run nothing")
    parser.add_argument("--rows", type=int, default=4800, help="of each training file, with --prepare")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--precision", default="bfloat16", choices=["bfloat16", "tf32", "float32"])
    parser.add_argument("--limit", type=int, default=0, help="examples per split; 0: all")
    parser.add_argument("--tune", nargs="+", default=[], choices=list(TASKS), help="choose the methods' settings on these")
    parser.add_argument("--chosen", type=pathlib.Path, help="file of the chosen settings; --tune writes it")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=0)
    parser.add_argument("--epochs", type=int, default=0, help="of distillation")
    parser.add_argument("--local-epochs", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/glue_distillation")
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    parser.add_argument("--set", nargs="*", default=[], help="more settings for every run")
    parser.add_argument("--alphas", nargs="+", type=float, default=[100, 1], help="of tables 1 and 2")
    parser.add_argument("--methods", nargs="+", default=[], help="only these rows of the tables")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--threads", type=int, default=2, help="of each run")
    parser.add_argument("--minutes", type=float, default=0, help="no run begins after that time; 0: no limit")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus", help="the program")
    options = parser.parse_args()
    options.begun = time.monotonic()
    if options.prepare:
        prepare(options)
        return
    if options.tune:
        if not options.chosen:
            parser.error("--tune needs --chosen, where it writes its choice")
        tune(options)
    elif options.chosen and not options.chosen.exists():
        parser.error(f"{options.chosen} does not exist; --tune writes it")
    chosen = json.loads(options.chosen.read_text()) if options.chosen and options.chosen.exists() else {}
    wanted = [cell for cell in cells(options) if not options.methods or cell.row in options.methods]
    runs = {cell: [Run(options, cell, seed, chosen.get(cell.method, [])) for seed in range(42, 42 + options.seeds)]
            for cell in wanted}
    run_all(options, [of_cell[k] for k in range(options.seeds) for of_cell in runs.values()])
    if options.list or not wanted:
        return
    results = options.out / "results.json"
    rows = {name_of(row): row for row in (json.loads(results.read_text()) if results.exists() else [])}
    for cell, of_cell in runs.items():
        if row := row_of(cell, of_cell):
            rows[name_of(row)] = row
    options.out.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(list(rows.values()), indent=1))


if __name__ == "__main__":
    main()
