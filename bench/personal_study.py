#!/usr/bin/env python3
"""Personalization on real data: runs the sweeps of configs/personal and prints their tables.

    bench/personal_study.py --data ../shared/data --model models/minilm            # everything, seeds 1 to 3
    bench/personal_study.py --data ../shared/data --model models/minilm --device cuda --chorus build/gpu/chorus --jobs 3 --at-once
    bench/personal_study.py --data ../shared/data --model models/minilm --development --chosen build/chosen.json
    bench/personal_study.py --data ../shared/data --small                          # small LSTMs, on one core

`--model` is a pretrained BERT with six layers (all-MiniLM-L6-v2): its two upper layers and the head train. With
--development FedAvg tries several learning rates on seed 11, which no table uses, and --chosen gets the best one for its
global model. A study reads it from that file, for all methods: the comparison is not in favour of the personal ones.
Sweeps go to runs/study-*; a sweep that was stopped continues. Arguments with = are settings for every run.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import gzip
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVELOPMENT_SEED = 11
# The runs of FedAvg also score fine-tuned models and clients that train alone, which no other run needs to repeat.
OWN = "evaluation.personal.fine_tuning=0; evaluation.personal.alone=false"
RATES = ("3e-4", "1e-3")
FEDAVG, DITTO = "FedAvg:", f"Ditto: algorithm={{name: ditto, lambda: 0.01}}; {OWN}"
FEDPER, FEDREP = f"FedPer: algorithm=fedper; {OWN}", f"FedRep: algorithm=fedrep; {OWN}"
BIASES = f"private biases: algorithm={{name: local_parts, private: [biases]}}; {OWN}"
# With --small: a network that one core trains in seconds.
LSTM = ["model={fresh: {model_type: bilstm, embedding_size: 64, hidden_size: 64, num_layers: 1}, "
        "tokenizer: models/chorus-mini}", "trainer.learning_rate=5e-3"]
CLINC = {"train": ["clinc150/data_full.json"]}


@dataclasses.dataclass
class Study:
    config: str
    files: dict  # by key of `data`
    cases: list
    settings: list = dataclasses.field(default_factory=list)
    pretrained: list = dataclasses.field(default_factory=list)  # more settings with --model
    small: list = dataclasses.field(default_factory=list)  # more settings with --small
    rates: tuple = RATES  # learning rates to choose from
    own_network: bool = False  # the network of the configuration, also with --model
    cpu: bool = False  # on the CPU, also with --device cuda: our LSTM is faster there


STUDIES = {
    "20news": Study("20news", {"train": ["20news/train.jsonl.gz"], "test": ["20news/test.jsonl.gz"]},
                    [FEDAVG, DITTO, FEDPER, FEDREP],
                    small=[*LSTM, "task.max_length=48", "clients.count=20", "clients_per_round=5"]),
    "clinc": Study("clinc", CLINC, [FEDAVG, DITTO, FEDPER, FEDREP],
                   small=[*LSTM, "clients_per_round=8", "rounds=20"]),
    "snips": Study("snips", {"train": ["snips/snips_train.iob"], "test": ["snips/snips_test.iob"]},
                   [FEDAVG, DITTO, FEDPER, FEDREP],
                   small=[*LSTM, "data.limit=3000", "clients.count=20", "clients_per_round=5"]),
    "shakespeare": Study("shakespeare", {"train": ["shakespeare/speeches.jsonl.gz"]}, [FEDAVG, DITTO, FEDPER, BIASES],
                         small=["rounds=12", "evaluation.clients=40"], rates=(), own_network=True, cpu=True),
    # Layer 5 is about half of what trains: twice the rounds send the same bytes.
    "equal-bytes": Study("clinc", CLINC,
                         [f"all shared: rounds=15; {OWN}", f"head private: algorithm=fedper; rounds=15; {OWN}",
                          f"layer 5 shared: algorithm={{name: local_parts, shared: [5]}}; rounds=32; {OWN}"], rates=()),
    # Two of three clients are too weak for the whole network: FedAvg asks three times as many, so that six train.
    "devices": Study("unequal_devices", {"train": ["agnews/train_merged.csv"], "test": ["agnews/test.csv"]},
                     ["weak devices left out: algorithm=fedavg; clients_per_round=18",
                      "HeteroFL: algorithm={name: heterofl, widths: [1, 0.5, 0.25], depths: [1, 0.5]}",
                      "FjORD: algorithm={name: heterofl, widths: [1, 0.5, 0.25], depths: [1, 0.5], ordered: true}",
                      "by depth: algorithm={name: heterofl, widths: [1], depths: [1, 0.75, 0.5, 0.25]}"],
                     ["data.format=auto", "data.limit=1500", "clients.partition.alpha=0.5", "rounds=40",
                      "evaluation={examples: 500, targets: [0.6, 0.7, 0.8]}"], rates=("2e-4", "5e-4"),
                     own_network=True),
}


def network(arguments):
    """Settings for the network of --model: its two upper layers and the head train."""
    precision = ["trainer.precision=bfloat16"] if arguments.device == "cuda" else []
    return [f"model={{from: {arguments.model}, freeze: [embeddings, 0, 1, 2, 3]}}", *precision]


def large_roles(source, folder, speeches=100):
    """The roles with at least so many speeches."""
    with gzip.open(source, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    roles = [json.loads(line)["client"] for line in lines]
    count = collections.Counter(roles)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "speeches.jsonl"
    target.write_text("".join(line for line, role in zip(lines, roles) if count[role] >= speeches), encoding="utf-8")
    return target


def sweep(name, arguments):
    study = STUDIES[name]
    command = [str(arguments.chorus), "sweep", str(ROOT / f"configs/personal/{study.config}.yaml")]
    for key, paths in study.files.items():
        paths = [arguments.data / path for path in paths]
        if name == "shakespeare":
            paths = [large_roles(path, pathlib.Path("build/shakespeare")) for path in paths]
        command.append(f"data.{key}=[{', '.join(map(str, paths))}]")
    command += [f"device={'cpu' if study.cpu else arguments.device}", *study.settings]
    if arguments.small:
        command += study.small
    elif arguments.model and not study.own_network:
        command += [*network(arguments), *study.pretrained]
    command += arguments.settings
    if arguments.development:
        quick = [] if study.own_network else OWN.split("; ")
        command += [f"trainer.learning_rate={','.join(study.rates)}", *quick, "--case", study.cases[0],
                    "--first-seed", str(DEVELOPMENT_SEED), "--seeds", "1"]
    else:
        if rate := chosen_rates(arguments).get(study.config):
            command.append(f"trainer.learning_rate={rate}")
        for case in study.cases:
            command += ["--case", case]
        command += ["--seeds", str(arguments.seeds)]
    command += ["--jobs", str(arguments.jobs), "--name", folder_of(name, arguments).name]
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode


def chosen_rates(arguments):
    return json.loads(arguments.chosen.read_text()) if arguments.chosen and arguments.chosen.exists() else {}


def best_rate(folder):
    """Of FedAvg's global model on the server's test set."""
    scores = {}
    for run in json.loads((folder / "sweep.json").read_text())["runs"]:
        summary = folder / run["folder"] / "summary.json"
        if summary.exists():
            summary = json.loads(summary.read_text())
            scores[run["values"]["trainer.learning_rate"]] = summary["last"][summary["metric"]]
    return max(scores, key=scores.get)  # all of these metrics are better when they are higher


def folder_of(name, arguments):
    return pathlib.Path("runs") / f"{'development' if arguments.development else 'study'}-{name}"


def time_table(folder):
    """Emulated hours to each target, by case: mean over the seeds that reached it."""
    rows = {}
    for run in json.loads((folder / "sweep.json").read_text())["runs"]:
        summary = folder / pathlib.Path(run["folder"]).name / "summary.json"
        if summary.exists():
            case = ", ".join(str(value) for value in run["values"].values())
            rows.setdefault(case, []).append(json.loads(summary.read_text()))
    targets = [target["target"] for target in next(iter(rows.values()))[0]["targets"]]
    print("| case | seeds | accuracy at the end | " + " | ".join(f"hours to {target}" for target in targets) + " |")
    print("|---|---|---|" + "---|" * len(targets))
    for case, seeds in rows.items():
        last = [seed["last"][seed["metric"]] for seed in seeds]
        cells = []
        for i in range(len(targets)):
            reached = [seed["targets"][i]["reached"] for seed in seeds]
            hours = [milestone["emulated_seconds"] / 3600 for milestone in reached if milestone]
            text = f"{statistics.fmean(hours):.2f}" if hours else "never"
            cells.append(text if len(hours) in (0, len(seeds)) else f"{text} ({len(hours)} of {len(seeds)})")
        spread = statistics.stdev(last) if len(last) > 1 else 0
        print(f"| {case} | {len(seeds)} | {statistics.fmean(last):.3f} ± {spread:.3f} | " + " | ".join(cells) + " |")


def show(name, arguments):
    folder = folder_of(name, arguments)
    if name == "devices":
        return time_table(folder)
    table = [sys.executable, str(ROOT / "bench/personal_table.py"), str(folder)]
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        table += ["--svg", str(arguments.pictures / f"{name}.svg")]
    return subprocess.run(table, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="key=value for every run")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with 20news, clinc150, ...")
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=sorted(STUDIES), nargs="+", default=list(STUDIES))
    parser.add_argument("--model", type=pathlib.Path, help="folder of a pretrained BERT with six layers")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--development", action="store_true", help=f"one run each, with seed {DEVELOPMENT_SEED}")
    parser.add_argument("--chosen", type=pathlib.Path, help="file with the settings that --development chose")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, per study")
    parser.add_argument("--at-once", action="store_true", help="all studies at the same time")
    parser.add_argument("--tables", action="store_true", help="only show what finished runs have measured")
    parser.add_argument("--small", action="store_true", help="a fraction of the data")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for SVG files")
    arguments = parser.parse_args()
    if arguments.development:
        arguments.only = [name for name in arguments.only if STUDIES[name].rates]
    status = dict.fromkeys(arguments.only, 0)
    if not arguments.tables:
        with concurrent.futures.ThreadPoolExecutor(len(arguments.only) if arguments.at_once else 1) as pool:
            status = dict(zip(arguments.only, pool.map(lambda name: sweep(name, arguments), arguments.only)))
    for name in arguments.only:
        if status[name] == 0:
            show(name, arguments)
    if arguments.development and arguments.chosen:
        chosen = chosen_rates(arguments)
        for name in arguments.only:
            if (folder_of(name, arguments) / "sweep.json").exists():
                chosen[STUDIES[name].config] = best_rate(folder_of(name, arguments))
        arguments.chosen.write_text(json.dumps(chosen, indent=1) + "\n")
    if failed := [name for name in arguments.only if status[name] != 0]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
