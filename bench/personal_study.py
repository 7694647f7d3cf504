#!/usr/bin/env python3
"""Personalization on real data: runs the sweeps of configs/personal and prints their tables.

    bench/personal_study.py --data ../shared/data                          # everything, three seeds
    bench/personal_study.py --data build/data --device cuda --chorus build/gpu/chorus --jobs 3 --at-once
    bench/personal_study.py --data ../shared/data --only clinc --seeds 1 rounds=2 clients_per_round=4
    bench/personal_study.py --data ../shared/data --small                  # a fraction of the data, on one core

Sweeps go to runs/study-*; a sweep that was stopped continues. Arguments with = are settings for every run.
"""
import argparse
import concurrent.futures
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The runs of FedAvg also score fine-tuned models and clients that train alone, which no other run needs to repeat.
OWN = "evaluation.personal.fine_tuning=0; evaluation.personal.alone=false"
FEDAVG = "FedAvg:"
DITTO = f"Ditto: algorithm={{name: ditto, lambda: 0.01}}; {OWN}"
FEDPER, FEDREP = f"FedPer: algorithm=fedper; {OWN}", f"FedRep: algorithm=fedrep; {OWN}"
# With --small: a network that one core trains in seconds.
LSTM = ["model={fresh: {model_type: bilstm, embedding_size: 64, hidden_size: 64, num_layers: 1}, "
        "tokenizer: models/chorus-mini}", "trainer.learning_rate=5e-3"]
CLINC = {"train": ["clinc150/data_full.json"]}
# Name: configuration, data files by key, cases, settings, and settings with --small.
STUDIES = {
    "20news": ("20news", {"train": ["20news/train.jsonl.gz"], "test": ["20news/test.jsonl.gz"]},
               [FEDAVG, DITTO, FEDPER, FEDREP], [],
               [*LSTM, "data.limit=3000", "task.max_length=48", "clients.count=20", "clients_per_round=5"]),
    "clinc": ("clinc", CLINC, [FEDAVG, DITTO, FEDPER, FEDREP], [],
              [*LSTM, "clients_per_round=8", "rounds=20"]),
    "snips": ("snips", {"train": ["snips/snips_train.iob"], "test": ["snips/snips_test.iob"]},
              [FEDAVG, DITTO, FEDPER, FEDREP], [],
              [*LSTM, "data.limit=3000", "clients.count=20", "clients_per_round=5"]),
    "shakespeare": ("shakespeare", {"train": ["shakespeare/speeches.jsonl.gz"]}, [FEDAVG, DITTO, FEDPER], [],
                    ["rounds=12", "clients_per_round=12", "evaluation.clients=40"]),
    # The two upper layers of chorus-mini are 0.2875 of its parameters with CLINC's head: 84 rounds send what FedAvg
    # sends in 24.
    "equal-bytes": ("clinc", CLINC,
                    [f"all shared: rounds=24; {OWN}",
                     f"upper layers shared: algorithm={{name: local_parts, shared: [2, 3]}}; rounds=84; {OWN}"], [],
                    [*LSTM, "clients_per_round=8"]),
    "devices": ("unequal_devices", {"train": ["agnews/train_merged.csv"], "test": ["agnews/test.csv"]},
                ["drop weak devices: algorithm=fedavg",
                 "HeteroFL by width: algorithm={name: heterofl, widths: [1, 0.5, 0.25], depths: [1, 0.5]}",
                 "FjORD: algorithm={name: heterofl, widths: [1, 0.5, 0.25], depths: [1, 0.5], ordered: true}",
                 "by depth: algorithm={name: heterofl, widths: [1], depths: [1, 0.75, 0.5, 0.25]}"],
                ["data.format=auto", "data.limit=1500", "clients.partition.alpha=0.5", "evaluation.examples=500"], []),
}


def sweep(name, arguments):
    config, files, cases, settings, small = STUDIES[name]
    command = [str(arguments.chorus), "sweep", str(ROOT / f"configs/personal/{config}.yaml")]
    for key, paths in files.items():
        command.append(f"data.{key}=[{', '.join(str(arguments.data / path) for path in paths)}]")
    command += [f"device={arguments.device}", *settings, *(small if arguments.small else []), *arguments.settings]
    for case in cases:
        command += ["--case", case]
    command += ["--seeds", str(arguments.seeds), "--jobs", str(arguments.jobs), "--name", f"study-{name}"]
    print("$", " ".join(command), flush=True)
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode


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
    folder = pathlib.Path("runs") / f"study-{name}"
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
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, per study")
    parser.add_argument("--at-once", action="store_true", help="all studies at the same time")
    parser.add_argument("--tables", action="store_true", help="only show what finished runs have measured")
    parser.add_argument("--small", action="store_true", help="a fraction of the data")
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for SVG files")
    arguments = parser.parse_args()
    status = dict.fromkeys(arguments.only, 0)
    if not arguments.tables:
        with concurrent.futures.ThreadPoolExecutor(len(arguments.only) if arguments.at_once else 1) as pool:
            status = dict(zip(arguments.only, pool.map(lambda name: sweep(name, arguments), arguments.only)))
    for name in arguments.only:
        if status[name] == 0:
            show(name, arguments)
    if failed := [name for name in arguments.only if status[name] != 0]:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
