#!/usr/bin/env python3
"""Efficiency of MPI: the same run by one process with one thread, and by several of them.

    bench/mpi.py --ranks 2

The efficiency is seconds of one / (ranks x seconds of all), by the training rounds of the runs' metrics (a round's
`seconds`), without start-up and evaluation. Both models must have the same bits.
"""
import argparse
import filecmp
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

CONFIG = """kind: experiment
name: ranks
seed: 3
encoding: {cache: none}
data: {format: synthetic, train: ["formulation=text_classification,examples=4800,test_examples=400,labels=4,seed=7"]}
clients: {count: 96}
model:
  fresh: {model_type: bert, hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 512,
          max_position_embeddings: 64}
  tokenizer: models/chorus-mini
task: {name: text_classification, max_length: 48}
algorithm: fedavg
rounds: 8
clients_per_round: 32
evaluation: {every: 8}
trainer: {batch_size: 8, optimizer: sgd, learning_rate: 0.05, clip: 0}
federation: {cohort_batch: 1, workers: 1, threads: 1}
"""


def seconds_of(folder):
    """Of the rounds after the first."""
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return sum([event["seconds"] for event in events if event["kind"] == "round"][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--chorus", default=str(pathlib.Path(__file__).resolve().parent.parent / "build" / "chorus"))
    options = parser.parse_args()
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    many = ["mpirun", "-np", str(options.ranks), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
    efficiencies = []
    for _ in range(options.repeat):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "run.yaml").write_text(CONFIG)
            words = [options.chorus, "run", str(folder / "run.yaml")]
            for command in ([*words, "--run-folder", str(folder / "one")],
                            [*many, *words, "federation.transport=mpi", "--run-folder", str(folder / "all")]):
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(done.stdout + done.stderr)
            if not filecmp.cmp(*[folder / name / "model" / "model.safetensors" for name in ("one", "all")], shallow=False):
                sys.exit("the models differ")
            one, every = seconds_of(folder / "one"), seconds_of(folder / "all")
        efficiencies.append(one / every / options.ranks)
        print(f"one process {one:.2f} s, {options.ranks} ranks {every:.2f} s: efficiency {efficiencies[-1]:.2f}", flush=True)
    print(f"median {statistics.median(efficiencies):.2f}; the models have the same bits")


if __name__ == "__main__":
    main()
