#!/usr/bin/env python3
"""Accuracy against epsilon for full tuning, LoRA and LoRA with frozen A: configs/privacy/epsilon.yaml.

    bench/epsilon_study.py OUT --device cuda [--model FOLDER] [--data ../shared/data/agnews] [--jobs 6] [KEY=VALUE ...]

First the server's learning rate is chosen for every tuning and epsilon with one seed and every second test example (a
search that is not charged: it would cost epsilon in a real federation), then three other seeds run with it and are scored
on the other test examples. Several runs share the GPU (--jobs). Nothing
is begun after --minutes. OUT gets results.jsonl, one line per run, which another call continues; the table and the
picture are those of bench/epsilon_table.py.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

RATES = {  # how to tune, learning rates of the server's Adam to choose from, clients that train together
    "full": ("tuning=full", (3e-4, 1e-3), 64),
    "LoRA": ("tuning=lora", (3e-3, 1e-2), 300),
    "frozen-A LoRA": ("tuning={name: lora, freeze_a: true}", (3e-3, 1e-2), 300),
}
SEARCH_SEED = 1


class Study:
    def __init__(self, args):
        self.args, self.lock = args, threading.Lock()
        self.file = args.out / "results.jsonl"
        self.results = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        self.noises = {}
        with open(f"{args.data}/test.csv", newline="") as file:
            rows = list(csv.reader(file))
        self.scored = tempfile.TemporaryDirectory()
        for part, name in enumerate(("search.csv", "test.csv")):
            with open(f"{self.scored.name}/{name}", "w", newline="") as file:
                csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows[part::2])
        self.end = time.monotonic() + 60 * args.minutes

    def done(self, tuning, epsilon, rate, seed):
        return [r for r in self.results if (r["tuning"], r["epsilon"], r["rate"], r["seed"]) == (tuning, epsilon, rate, seed)]

    def noise(self, epsilon):
        """Computed once: every run would compute the same."""
        with self.lock:
            if epsilon and epsilon not in self.noises:
                command = [self.args.chorus, "privacy", "calibrate", "--epsilon", str(epsilon), "--delta", str(self.args.delta), "--sampling-rate",
                           str(self.args.cohort / self.args.clients), "--steps", str(self.args.rounds), "--json"]
                self.noises[epsilon] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["noise"]
            return self.noises.get(epsilon)

    def run(self, tuning, epsilon, rate, seed):
        if self.done(tuning, epsilon, rate, seed) or time.monotonic() > self.end:
            return
        args = self.args
        setting, _, together = RATES[tuning]
        private = f"{{name: private_mean, noise: {self.noise(epsilon)}, delta: {args.delta}, clip: 0.1, copy: none}}"
        with tempfile.TemporaryDirectory() as folder:
            command = [args.chorus, "run", "configs/privacy/epsilon.yaml", f"device={args.device}", f"model.from={args.model}",
                       f"data.train=[{args.data}/train_merged.csv]", f"data.test=[{self.scored.name}/{'search' if seed == SEARCH_SEED else 'test'}.csv]", setting, f"seed={seed}",
                       f"algorithm.learning_rate={rate:g}", f"aggregation={private if epsilon else 'mean'}",
                       f"federation.cohort_batch={together}", f"clients.count={args.clients}", f"clients_per_round={args.cohort}",
                       f"rounds={args.rounds}", *(args.full if tuning == "full" else []), *args.settings, "--run-folder", f"{folder}/run"]
            begin = time.monotonic()
            environment = {**os.environ, "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // args.jobs))}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            seconds = time.monotonic() - begin
            if done.returncode != 0:
                print(f"{tuning}, epsilon {epsilon or 'none'}: status {done.returncode}\n{(done.stdout + done.stderr)[-1500:]}", flush=True)
                return
            summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
            rounds = [json.loads(line) for line in pathlib.Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
        clients = sum(event.get("clients", 0) for event in rounds if event.get("kind") == "round")
        privacy = summary.get("privacy", {})
        result = dict(tuning=tuning, epsilon=epsilon, rate=rate, seed=seed, metric=summary["metric"], score=summary["last"][summary["metric"]],
                      spent=privacy.get("epsilon"), noise=privacy.get("noise", 0), kilobytes=summary["bytes_up"] / max(clients, 1) / 1000,
                      clients=clients, seconds=round(seconds, 1), search=seed == SEARCH_SEED)
        with self.lock:
            self.results.append(result)
            with self.file.open("a") as out:
                out.write(json.dumps(result) + "\n")
            print(f"{tuning}, epsilon {epsilon or 'none'}, rate {rate:g}, seed {seed}: {100 * result['score']:.2f} % in {seconds:.0f} s", flush=True)

    def all(self, cases):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            list(pool.map(lambda case: self.run(*case), cases))

    def best_rate(self, tuning, epsilon):
        tried = [r for r in self.results if r["search"] and (r["tuning"], r["epsilon"]) == (tuning, epsilon)]
        return max(tried, key=lambda r: r["score"])["rate"] if tried else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--model", default="models/chorus-mini")
    parser.add_argument("--data", default="../shared/data/agnews")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1, 3, 8])
    parser.add_argument("--tunings", nargs="+", default=list(RATES), choices=list(RATES))
    parser.add_argument("--clients", type=int, default=3000)
    parser.add_argument("--cohort", type=int, default=300, help="clients of a round, on average")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--delta", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many minutes")
    parser.add_argument("--rates", nargs="+", default=[], metavar="TUNING=RATE", help="use these instead of searching")
    parser.add_argument("--full", nargs="+", default=[], metavar="KEY=VALUE", help="settings for full tuning only")
    args, args.settings = parser.parse_known_args()
    given = {tuning: float(rate) for tuning, rate in (pair.rsplit("=", 1) for pair in args.rates)}
    args.out.mkdir(parents=True, exist_ok=True)
    study = Study(args)
    # Runs beside each other should not all be of full tuning, which needs most memory.
    cells = [(tuning, epsilon) for epsilon in (*args.epsilons, None) for tuning in args.tunings]
    study.all([(tuning, epsilon, rate, SEARCH_SEED) for tuning, epsilon in cells if tuning not in given
               for rate in RATES[tuning][1]])
    best = {cell: given.get(cell[0]) or study.best_rate(*cell) for cell in cells}
    print("learning rates:", ", ".join(f"{tuning} {epsilon or 'none'}: {rate:g}" for (tuning, epsilon), rate in best.items() if rate), flush=True)
    # Seed by seed: if time runs out, all cells have about as many.
    study.all([(*cell, best[cell], SEARCH_SEED + 1 + seed) for seed in range(args.seeds) for cell in cells if best[cell]])
    if not study.results:
        sys.exit("no run finished")
    table = [sys.executable, str(pathlib.Path(__file__).with_name("epsilon_table.py")), str(args.out), "--svg", str(args.out / "epsilon.svg")]
    return subprocess.run(table).returncode


if __name__ == "__main__":
    sys.exit(main())
