#!/usr/bin/env python3
"""Tables 1 to 4 and the studies of Ma et al. 2023 (FedID), as `chorus run` commands.

    bench/glue_distillation.py --tables 1 --tasks RTE MRPC --seeds 3                 # on a GPU
    bench/glue_distillation.py --tables 4 --tasks RTE --model models/chorus-mini --device cpu --limit 600 --list
    bench/glue_distillation.py --tables 1 --tasks RTE MRPC SST-2 --limit 3000 --rounds 5 --jobs 4   # a smaller table
    bench/glue_claims.py build/glue_distillation/results.json                        # tables and verdicts

Every cell is one run of configs/distillation/glue.yaml with other settings, in OUT/TABLE/TASK/ALPHA/METHOD/SEED; a run
that exists already is not repeated. Of a finished run only its summary and metrics are kept. At the end a table of means
and standard deviations over the seeds (the score after the last round, x100) is printed and written to OUT/results.json.
With --minutes no run begins after that time; cells without a finished run are left out, and the table shows how many
seeds there were. A run that left clients out (no memory, for example) is said and not counted. The first seed of all
cells comes first.

  table 1   centralized (on the clients' data, as many passes as they make), fedavg, feddf, feded, fedkd, ds_fl, mhat,
            fedid (as published and as written), calibrated; alpha 100 and 1; one network
  table 2   the methods from fedkd on; alpha 100 and 1; clients with the networks of --networks
  table 3   the same methods, the public set from another domain: SST-2 with IMDB, QQP with PAWS; a hundred labelled
            queries are set aside from the training data, which all goes to the clients otherwise
  table 4   fedid without feedback, and without distillation; as written with and without feedback
  studies   public and query: a tenth to all of the public texts, or of the labelled queries, while the clients' data stay
            the same; the other methods' servers train on the queries, too. clients: 5, 10, 20 clients

--tune chooses the learning rates of a task before its tables: every combination of --learning-rates (local training),
--rates and --server-rates (their factors on the public set, for clients and server) runs FedID and MHAT once, with
another seed and a sixth of the training data in the place of the test set; the combination with the highest mean is used
for all methods of the task.
"""
import argparse
import concurrent.futures
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
TASKS = {  # task, files, scores
    "WNLI": ("pair_classification", "train.tsv", "dev.tsv", ["accuracy"]),
    "RTE": ("pair_classification", "train.tsv", "dev.tsv", ["accuracy"]),
    "MRPC": ("pair_classification", "train.tsv", "dev.tsv", ["f1", "accuracy"]),
    "CoLA": ("text_classification", "train.tsv", "dev.tsv", ["matthews"]),
    "SST-2": ("text_classification", "train.tsv", "dev.tsv", ["accuracy"]),
    "QNLI": ("pair_classification", "train.tsv", "dev.tsv", ["accuracy"]),
    "QQP": ("pair_classification", "train.tsv", "dev.tsv", ["f1", "accuracy"]),
    "MNLI": ("pair_classification", "train.tsv", "dev_matched.tsv", ["accuracy"]),
    "STS-B": ("pair_regression", "train.tsv", "dev.tsv", ["pearson", "spearman"]),
}
DISTILLING = {
    "fedkd": ["algorithm=fedkd", "rounds=1"],
    "ds_fl": ["algorithm=ds_fl"],
    "mhat": ["algorithm=mhat"],
    "fedid": [],
    "fedid as written": ["algorithm.preset=as_written"],
    "calibrated": ["algorithm=calibrated"],
}
HOMOGENEOUS = {
    "centralized": ["algorithm=centralized"],
    "fedavg": ["algorithm=fedavg"],
    "feddf": ["algorithm=feddf"],
    "feded": ["algorithm=feded"],
    **DISTILLING,
}
ABLATIONS = {
    "fedid": [],
    "without feedback": ["algorithm.feedback=none"],
    "without distillation": ["algorithm.distillation=false"],
    "as written": ["algorithm.preset=as_written"],
    "as written, without feedback": ["algorithm.preset=as_written", "algorithm.feedback=none"],
}
STUDIED = {"fedid": [], **{name: [f"algorithm={name}", "algorithm.query=true"] for name in ("mhat", "ds_fl", "fedkd")}}
STUDIED["fedkd"].append("rounds=1")
SHARES = (0.1, 0.2, 0.4, 0.8, 1)
ELSEWHERE = {"SST-2": "imdb/train.jsonl.gz", "QQP": "paws/train.tsv"}


def cells(options):
    """(table, task, alpha, method, overrides) of all requested cells."""
    networks = []
    if options.networks:
        share = 1 / (len(options.networks) + 1)
        models = ", ".join(f"{{name: network{i}, share: {share:g}, model: {{from: {folder}}}}}"
                           for i, folder in enumerate(options.networks))
        networks = [f"clients.models=[{models}]"]
    alphas = options.alphas
    for table in options.tables:
        for task in options.tasks:
            if table == "1":
                for alpha in alphas:
                    for method, how in HOMOGENEOUS.items():
                        yield table, task, alpha, method, how
            elif table == "2":
                for alpha in alphas:
                    for method, how in DISTILLING.items():
                        yield table, task, alpha, method, [*how, *networks]
            elif table == "3" and task in ELSEWHERE:
                train, queries = set_aside(options, task, "table3", 100)
                other = [f"data.train=[{train}]", f"public={{unlabelled: [{options.data}/{ELSEWHERE[task]}], query: [{queries}]}}"]
                for method, how in DISTILLING.items():
                    yield table, task, 1, method, [*how, *networks, *other]
            elif table == "4":
                for method, how in ABLATIONS.items():
                    yield table, task, 1, method, [*how, *networks]
            elif table in ("public", "query"):
                for share in SHARES:
                    files = public_files(options, task, **{table: share})
                    for method, how in STUDIED.items():
                        yield table, task, 1, f"{method} {100 * share:.0f} %", [*how, *networks, *files]
            elif table == "clients":
                for count in (5, 10, 20):
                    yield table, task, 1, f"{count} clients", [
                        *networks, f"clients.count={count}", f"clients_per_round={count}"]


def shuffled(options, task):
    """The head and the rows of a task's training data."""
    text = pathlib.Path(f"{options.data}/glue/{task}/{TASKS[task][1]}").read_text(encoding="utf-8-sig")
    lines = [line + "\n" for line in text.split("\n") if line]
    head = [] if task == "CoLA" else lines[:1]
    rows = lines[len(head):]
    random.Random(1).shuffle(rows)
    return head, rows


def write_rows(options, task, name, head, parts):
    """The paths of files with these rows each, by name."""
    folder = options.out / "data" / task / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, rows in parts.items():
        (folder / file).write_text("".join(head + rows), encoding="utf-8")
    return [folder / file for file in parts]


def set_aside(options, task, name, count):
    """Files with `count` random rows of the training data and with the others: (others, chosen)."""
    head, rows = shuffled(options, task)
    return write_rows(options, task, name, head, {"train.tsv": rows[count:], "chosen.tsv": rows[:count]})


def public_files(options, task, public=1, query=1):
    """Half of the training data for the clients; of the other half these shares of the public texts and of the queries."""
    head, rows = shuffled(options, task)
    rows = rows[:options.limit or len(rows)]
    half, queries = len(rows) // 2, len(rows) // 20
    train, unlabelled, labelled = write_rows(options, task, f"public{public:g}-query{query:g}", head, {
        "train.tsv": rows[:half],
        "public.tsv": rows[half + queries:][:round(public * (len(rows) - half - queries))],
        "query.tsv": rows[half:half + queries][:round(query * queries)]})
    return [f"data.train=[{train}]", f"public={{unlabelled: [{unlabelled}], query: [{labelled}]}}"]


def tune(options, task):
    """The best (learning rate, clients' factor, server's factor) of a task, on training data that is set aside."""
    choices = list(itertools.product(options.learning_rates, options.rates, options.server_rates))
    rows = sum(1 for _ in open(f"{options.data}/glue/{task}/{TASKS[task][1]}", encoding="utf-8"))
    train, held = set_aside(options, task, "tune", rows // 6)
    runs = {}
    for rates in choices:
        for method in ("fedid", "mhat"):
            cell = ("tune", task, 1, f"{method} {' '.join(f'{rate:g}' for rate in rates)}", [
                *DISTILLING[method], f"data.train=[{train}]", f"data.test=[{held}]"])
            options.tuned[task] = rates
            runs[rates, method] = folder_of(options, cell, 7), overrides_of(options, cell, 7)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda each: run(options, *each), runs.values()))
    score = TASKS[task][3][0]
    means = {}
    for rates in choices:
        found = [json.loads(path.read_text())["last"].get(score) for method in ("fedid", "mhat")
                 if (path := runs[rates, method][0] / "summary.json").exists()]
        if len(found) == 2 and None not in found:
            means[rates] = sum(found) / 2
            print(f"tune {task:6} {rates_text(rates)}: {score} of fedid and mhat {100 * found[0]:.1f} {100 * found[1]:.1f}",
                  flush=True)
    options.tuned[task] = max(means, key=means.get) if means else choices[0]
    print(f"tune {task:6} chosen: {rates_text(options.tuned[task])}", flush=True)


def rates_text(rates):
    return f"learning rate {rates[0]:g}, factor of clients {rates[1]:g}, of the server {rates[2]:g}"


def tuned(options, task):
    return options.tuned.get(task, (0, 0, 0))


def settings(options, task, alpha, seed):
    name, train, test, _ = TASKS[task]
    folder = f"{options.data}/glue/{task}"
    result = [
        f"name=glue-{task}",
        f"seed={seed}",
        f"device={options.device}",
        f"data={{train: [{folder}/{train}], test: [{folder}/{test}], glue_task: {task}, limit: {options.limit}}}",
        f"task={{name: {name}, max_length: {options.max_length}}}",
        f"model={{from: {options.model}}}",
        f"clients.partition={{name: label_dirichlet, alpha: {alpha}}}",
    ]
    if options.device == "cpu":
        result.append("trainer.precision=float32")
    if rate := options.learning_rate or tuned(options, task)[0]:
        result.append(f"trainer.learning_rate={rate}")
    if options.rounds:
        result.append(f"rounds={options.rounds}")
    return result


def run(options, folder, overrides):
    if (folder / "summary.json").exists():
        return
    command = [str(options.chorus), "run", str(ROOT / "configs/distillation/glue.yaml"), "--run-folder", str(folder)]
    command += [*overrides, *options.set]
    if options.list:
        print(" ".join(f"'{word}'" if " " in word else word for word in command))
        return
    if options.minutes and time.monotonic() - options.begun > 60 * options.minutes:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.log", "w") as log:
        status = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                                env={**os.environ, "OMP_NUM_THREADS": str(options.threads)}).returncode
    if status != 0:
        print(f"{' '.join(command)} ended with {status}; see {log.name}", flush=True)
        print(pathlib.Path(log.name).read_text(errors="replace")[-600:], flush=True)
    for part in folder.iterdir() if folder.exists() else []:
        if part.is_dir():
            shutil.rmtree(part)


def seeds(options):
    return range(42, 42 + options.seeds)


def folder_of(options, cell, seed):
    table, task, alpha, method, _ = cell
    return options.out / table / task / f"alpha{alpha:g}" / method.replace(" ", "_") / str(seed)


def overrides_of(options, cell, seed):
    _, task, alpha, _, how = cell
    distills = not {"algorithm=centralized", "algorithm=fedavg"} & set(how)
    more = []
    if options.local_epochs:
        more.append(f"trainer.epochs={options.local_epochs}")
    if distills:
        _, rate, server_rate = tuned(options, task)
        numbers = {"epochs": options.epochs, "rate": options.rate or rate, "server_rate": options.server_rate or server_rate}
        more += [f"algorithm.{name}={number}" for name, number in numbers.items() if number]
    return settings(options, task, alpha, seed) + how + more


def whole(folder):
    """Whether this is a finished run in which no client failed."""
    if not (folder / "summary.json").exists():
        return False
    log = folder.parent / f"{folder.name}.log"
    why = [line for line in log.read_text(errors="replace").splitlines()
           if " is left out: " in line and "it has no rows to train on" not in line]
    if why:
        print(f"{folder} is not counted: {len(why)} times a client was left out, at first: {why[0]}", flush=True)
    return not why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["1"], choices=["1", "2", "3", "4", "public", "query", "clients"])
    parser.add_argument("--tasks", nargs="+", default=["RTE"], choices=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--model", default="models/bert-base-uncased", help="the server's network")
    parser.add_argument("--networks", nargs="*", default=[], help="other networks of clients, in equal shares")
    parser.add_argument("--data", default="data", help="folder with glue/, imdb/ and paws/")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--limit", type=int, default=0, help="examples per split; 0: all")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=0)
    parser.add_argument("--rate", type=float, default=0, help="factor of the learning rate on the public set")
    parser.add_argument("--tune", action="store_true", help="choose both for every task first, see above")
    parser.add_argument("--learning-rates", nargs="+", type=float, default=[1e-4, 3e-4])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.02, 0.1])
    parser.add_argument("--server-rates", nargs="+", type=float, default=[0.1, 0.5])
    parser.add_argument("--server-rate", type=float, default=0, help="the same for the server's model")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/glue_distillation")
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    parser.add_argument("--set", nargs="*", default=[], help="more settings for every run")
    parser.add_argument("--alphas", nargs="+", type=float, default=[100, 1], help="of tables 1 and 2")
    parser.add_argument("--methods", nargs="+", default=[], help="only these rows of the tables")
    parser.add_argument("--epochs", type=int, default=0, help="of distillation")
    parser.add_argument("--local-epochs", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--threads", type=int, default=2, help="of each run")
    parser.add_argument("--minutes", type=float, default=0, help="no run begins after that time; 0: no limit")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus", help="the program")
    options = parser.parse_args()
    options.begun = time.monotonic()
    options.tuned = {}
    for task in options.tasks if options.tune and not options.list else []:
        tune(options, task)
    results = []
    chosen = [cell for cell in cells(options) if not options.methods or cell[3] in options.methods]
    if not options.list:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            waiting = [pool.submit(run, options, folder_of(options, cell, seed), overrides_of(options, cell, seed))
                       for seed in seeds(options) for cell in chosen]
            for one in waiting:
                one.result()
    for table, task, alpha, method, how in chosen:
        scores = {name: [] for name in TASKS[task][3]}
        for seed in seeds(options):
            cell = (table, task, alpha, method, how)
            folder = folder_of(options, cell, seed)
            if options.list:
                run(options, folder, overrides_of(options, cell, seed))
                continue
            if not whole(folder):
                continue
            last = json.loads((folder / "summary.json").read_text())["last"]
            for name in scores:
                if last.get(name) is not None:
                    scores[name].append(100 * last[name])
        scores = {name: values for name, values in scores.items() if values}
        if options.list or not scores:
            continue
        row = {"table": table, "task": task, "alpha": alpha, "method": method,
               "seeds": max(len(values) for values in scores.values())}
        for name, values in scores.items():
            row[name] = [statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0]
        results.append(row)
        text = "  ".join(f"{name} {mean:.1f} +- {deviation:.1f}" for name, (mean, deviation) in
                         ((n, row[n]) for n in scores))
        print(f"table {table}  {task:6} alpha {alpha:<4g} {method:22} {text}  ({row['seeds']} seeds)", flush=True)
    if not options.list:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "results.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
