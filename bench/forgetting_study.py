#!/usr/bin/env python3
"""Forgetting on a stream that changes: CLINC150 domain by domain, with and without replay, EWC and LwF.

    bench/forgetting_study.py --data ../shared/data                        # three seeds
    bench/forgetting_study.py --data build/data --device cuda --chorus build/gpu/chorus --jobs 6
    bench/forgetting_study.py --data ../shared/data --seeds 1 rounds=2     # a try

Writes the stream to build/forgetting, sweeps configs/personal/forgetting.yaml into runs/study-forgetting
(a sweep that was stopped continues) and prints, per method, as mean and standard deviation over seeds: the accuracy on
all segments at the end, on the first segment when it was learnt and at the end, and backward and forward transfer
(docs/how-to/learn_over_time.md). Arguments with = are settings for every run.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Six intents of four of the ten domains of Larson et al. 2019, in the order of the stream.
DOMAINS = {
    "banking": "transfer transactions freeze_account bill_balance interest_rate routing",
    "kitchen": "recipe calories restaurant_suggestion ingredients_list cook_time how_busy",
    "cars": "traffic directions gas oil_change_when jump_start tire_pressure",
    "travel": "book_flight book_hotel carry_on timezone translate lost_luggage",
}
CASES = ["FedAvg:", "replay of 30 examples: continual.replay=30",
         "EWC: algorithm={name: ewc, lambda: 100000}", "LwF: algorithm={name: lwf, weight: 1}"]


def write_stream(source, folder):
    segment = {intent: number for number, words in enumerate(DOMAINS.values()) for intent in words.split()}
    data = json.loads(source.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("stream", data["train"] + data["val"]), ("test", data["test"])):
        with (folder / f"{name}.jsonl").open("w") as out:
            for text, intent in rows:
                if intent in segment:
                    out.write(json.dumps({"text": text, "label": intent, "time": segment[intent]}) + "\n")


def measures(summary):
    """Of the scores R[i][j] on segment j after segment i, see docs/how-to/learn_over_time.md."""
    last = [phase["last"] for phase in summary["phases"]]
    count = len(last)
    score = [[after[f"segment {j + 1}"] for j in range(count)] for after in last]
    before = [last[0][f"segment {j + 1} before"] for j in range(count)]
    return {"all segments at the end": statistics.fmean(score[-1]),
            "first segment, when learnt": score[0][0],
            "first segment, at the end": score[-1][0],
            "newest segment": statistics.fmean(score[j][j] for j in range(count)),
            "backward transfer": statistics.fmean(score[-1][j] - score[j][j] for j in range(count - 1)),
            "forward transfer": statistics.fmean(score[j - 1][j] - before[j] for j in range(1, count))}


def table(sweep):
    rows = {}
    for run in json.loads((sweep / "sweep.json").read_text())["runs"]:
        summary = sweep / pathlib.Path(run["folder"]).name / "summary.json"
        if summary.exists():
            case = ", ".join(str(value) for value in run["values"].values())
            rows.setdefault(case, []).append(measures(json.loads(summary.read_text())))
    names = list(next(iter(rows.values()))[0])
    print("\n| method | seeds | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 2))
    for case, seeds in rows.items():
        cells = []
        for name in names:
            values = [seed[name] for seed in seeds]
            cells.append(f"{statistics.fmean(values):.3f} ± {statistics.stdev(values) if len(values) > 1 else 0:.3f}")
        print(f"| {case} | {len(seeds)} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="key=value for every run")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with clinc150/data_full.json")
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tables", action="store_true", help="only show what finished runs have measured")
    arguments = parser.parse_args()
    if arguments.tables:
        return table(pathlib.Path("runs/study-forgetting"))
    folder = ROOT / "build/forgetting"
    write_stream(arguments.data / "clinc150/data_full.json", folder)
    command = [str(arguments.chorus), "sweep", str(ROOT / "configs/personal/forgetting.yaml"),
               f"data.train=[{folder / 'stream.jsonl'}]", f"data.test=[{folder / 'test.jsonl'}]", f"device={arguments.device}", *arguments.settings]
    for case in CASES:
        command += ["--case", case]
    command += ["--seeds", str(arguments.seeds), "--jobs", str(arguments.jobs), "--name", "study-forgetting"]
    print("$", " ".join(command), flush=True)
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit("the sweep failed")
    return table(pathlib.Path("runs/study-forgetting"))


if __name__ == "__main__":
    main()
