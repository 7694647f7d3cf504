#!/usr/bin/env python3
"""Personalization on real data: runs the sweeps of configs/personal and prints their tables.

    bench/personal_study.py --data ../shared/data                          # everything, three seeds
    bench/personal_study.py --data build/data --device cuda --chorus build/gpu/chorus --jobs 4
    bench/personal_study.py --data ../shared/data --only clinc --seeds 1 rounds=2 clients_per_round=4

Sweeps go to runs/study-*; a sweep that was stopped continues. Arguments with = are settings for every run.
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FEDAVG, DITTO = "FedAvg:", "Ditto: algorithm={name: ditto, lambda: 0.01}"
FEDPER, FEDREP = "FedPer: algorithm=fedper", "FedRep: algorithm=fedrep"
# Name: configuration, data files by key, cases, settings.
STUDIES = {
    "20news": ("20news", {"train": ["20news/train.jsonl.gz"], "test": ["20news/test.jsonl.gz"]},
               [FEDAVG, DITTO, FEDPER, FEDREP], []),
    "clinc": ("clinc", {"train": ["clinc150/data_full.json"]}, [FEDAVG, DITTO, FEDPER, FEDREP], []),
    "snips": ("snips", {"train": ["snips/snips_train.iob"], "test": ["snips/snips_test.iob"]},
              [FEDAVG, DITTO, FEDPER, FEDREP], []),
    "shakespeare": ("shakespeare", {"train": ["shakespeare/speeches.jsonl.gz"]}, [FEDAVG, DITTO, FEDPER], []),
    # The two upper layers of chorus-mini are 0.2875 of its parameters with CLINC's head: 42 rounds send what FedAvg
    # sends in 12.
    "equal-bytes": ("clinc", {"train": ["clinc150/data_full.json"]},
                    ["all shared: rounds=12",
                     "upper layers shared: algorithm={name: local_parts, shared: [2, 3]}; rounds=42"], []),
    "devices": ("unequal_devices", {},
                ["drop weak devices: algorithm=fedavg",
                 "HeteroFL: algorithm={name: heterofl, widths: [1, 0.5, 0.25], depths: [1, 0.5]}",
                 "FjORD: algorithm={name: heterofl, widths: [1, 0.5, 0.25], depths: [1, 0.5], ordered: true}"], []),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="key=value for every run")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with 20news, clinc150, ...")
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=sorted(STUDIES), nargs="+", default=list(STUDIES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for SVG files")
    arguments = parser.parse_args()
    failed = []
    for name in arguments.only:
        config, files, cases, settings = STUDIES[name]
        command = [str(arguments.chorus), "sweep", str(ROOT / f"configs/personal/{config}.yaml")]
        for key, paths in files.items():
            command.append(f"data.{key}=[{', '.join(str(arguments.data / path) for path in paths)}]")
        for case in cases:
            command += ["--case", case]
        command += [f"device={arguments.device}", *settings, *arguments.settings, "--seeds", str(arguments.seeds),
                    "--jobs", str(arguments.jobs), "--name", f"study-{name}"]
        print("$", " ".join(command), flush=True)
        if subprocess.run(command, check=False).returncode != 0:
            failed.append(name)
            continue
        folder = pathlib.Path("runs") / f"study-{name}"
        if name == "devices":
            runs = sorted(str(path) for path in folder.iterdir() if (path / "summary.json").exists())
            subprocess.run([str(arguments.chorus), "compare", *runs, "--x", "emulated", "--target", "0.6"], check=False)
            continue
        table = [sys.executable, str(ROOT / "bench/personal_table.py"), str(folder)]
        if arguments.pictures:
            arguments.pictures.mkdir(parents=True, exist_ok=True)
            table += ["--svg", str(arguments.pictures / f"{name}.svg")]
        subprocess.run(table, check=False)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
