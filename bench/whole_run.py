"""W8 of bench/engine.py: whole runs as a user starts them. bench/engine.py calls it.

`chorus run` and a PyTorch + Hugging Face script (bench/peers/torch_run.py) fine-tune the same pretrained model on the same
data with the same partition file: start-up, reading and tokenising, rounds of local training, an evaluation before the
first round and after each, a checkpoint after each, the final model. Both are separate processes, timed from start to
exit. Each side draws its own clients per round; the rate counts the examples that were trained.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import chorus_side
import workloads

TITLE = "whole run, 20 Newsgroups"
PARTS = ("setup", "train", "evaluation", "checkpoint", "save")
# max_length 256 and batches of 8 as in FedNLP; a CPU gets shorter texts, fewer rounds and a part of the test set.
SIZES = {"cuda": {"rounds": 30, "clients_per_round": 10, "max_length": 256, "test_examples": 0},
         "cpu": {"rounds": 2, "clients_per_round": 10, "max_length": 128, "test_examples": 1000},
         "quick": {"rounds": 2, "clients_per_round": 2, "max_length": 64, "test_examples": 100}}


def settings(device, threads):
    """One process with all threads (PyTorch) or workers (Chorus), in every precision of the device."""
    names = ["float32", "tf32", "bfloat16"] if device == "cuda" else workloads.cpu_precisions()
    return [{"precision": name, "threads": threads} for name in names]


def peer_settings(device, threads):
    """What a PyTorch user would try: all cores, every precision, and batches of texts of similar length."""
    return [{**setting, **more} for setting in settings(device, threads) for more in ({}, {"grouped": True})]


def find(options, size):
    """The inputs of both sides; a sentence when something is missing."""
    data = pathlib.Path(options.data) / "20news"
    data = data if data.is_dir() else pathlib.Path(options.data)
    model = pathlib.Path(options.model) if options.model else None
    for name in ("train.jsonl.gz", "test.jsonl.gz"):
        if not (data / name).is_file():
            raise RuntimeError(f"{data / name} is missing; name the folder of 20 Newsgroups with --data")
    if model is None or not (model / "model.safetensors").is_file():
        raise RuntimeError("name a Hugging Face folder (MiniLM-L6) with --model or CHORUS_BENCH_MODEL")
    return {"data": str(data.resolve()), "model": str(model.resolve()), "clients": 100, "batch_size": 8, "epochs": 1,
            "learning_rate": 5e-5, "seed": 1, **SIZES[size]}


def make_partition(chorus, spec, folder):
    """One file for both sides."""
    path = f"{folder}/partition.json"
    subprocess.run([chorus, "partition", "make", "--data", f"{spec['data']}/train.jsonl.gz", f"{spec['data']}/test.jsonl.gz",
                    "--clients", str(spec["clients"]), "--alpha", "1", "--seed", "1", "--out", path],
                   check=True, capture_output=True, env={**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"})
    return path


def report(wall, rounds, parts):
    """parts: seconds of the whole run; the rest is the start and exit of the process."""
    examples = sum(entry["examples"] for entry in rounds)
    parts = {**parts, "other": wall - sum(parts.values())}
    return {"value": examples / wall, "unit": "examples/s", "wall_seconds": wall, "examples": examples, "parts": parts,
            "rounds": rounds}


def chorus(program, spec, device, setting):
    with tempfile.TemporaryDirectory(prefix="chorus-bench-") as folder:
        partition = make_partition(program, spec, folder)
        config = {
            "kind": "experiment", "name": "bench", "seed": spec["seed"], "device": device,
            "data": {"train": [f"{spec['data']}/train.jsonl.gz"], "test": [f"{spec['data']}/test.jsonl.gz"]},
            "task": {"name": "text_classification", "max_length": spec["max_length"]},
            "model": {"from": spec["model"]}, "clients": {"file": partition}, "algorithm": "fedavg",
            "rounds": spec["rounds"], "clients_per_round": spec["clients_per_round"],
            "trainer": {"epochs": spec["epochs"], "batch_size": spec["batch_size"], "optimizer": "adamw", "clip": 0,
                        "learning_rate": spec["learning_rate"], "schedule": {"shape": "constant", "warmup": 0},
                        "precision": setting["precision"]},
            "evaluation": {"every": 1, "examples": spec["test_examples"]}, "checkpoint": {"every": 1},
            "federation": {"workers": setting["threads"]} if device == "cpu" else {}}
        path = pathlib.Path(folder, "config.yaml")
        path.write_text(json.dumps(config, indent=1))
        begin = time.perf_counter()
        events, peak = chorus_side.run(program, [str(path)], folder)
        wall = time.perf_counter() - begin
        summary = json.loads(pathlib.Path(folder, "run/summary.json").read_text())
    rounds = []
    for event in events:
        if event["kind"] == "round":
            rounds.append({"train": event["seconds"], "examples": event["examples"]})
        elif event["round"] > 0 and event["kind"] in ("evaluation", "checkpoint"):
            rounds[event["round"] - 1][event["kind"]] = event["seconds"]
    parts = {part: summary[f"{part}_seconds"] for part in PARTS}
    return {**report(wall, rounds, parts), "accuracy": summary["last"]["accuracy"], "peak_bytes": peak}


def torch(program, spec, device, setting):
    script = pathlib.Path(__file__).parent / "peers" / "torch_run.py"
    with tempfile.TemporaryDirectory(prefix="chorus-bench-") as folder:
        given = {**spec, "partition": make_partition(program, spec, folder), "device": device, "setting": setting,
                 "folder": folder}
        path = pathlib.Path(folder, "spec.json")
        path.write_text(json.dumps(given))
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, str(script), str(path)], capture_output=True, text=True)
        wall = time.perf_counter() - begin
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        found = json.loads(pathlib.Path(folder, "report.json").read_text())
    return {**report(wall, found["rounds"], found["parts"]), "accuracy": found["accuracy"]}


def breakdown(row):
    """One line: seconds of a round's parts (median of the rounds after the first) and of the whole run."""
    later = row["rounds"][1:] or row["rounds"]
    middle = {part: sorted(entry.get(part, 0) for entry in later)[len(later) // 2]
              for part in ("train", "evaluation", "checkpoint")}
    a_round = ", ".join(f"{part} {seconds:.3f}" for part, seconds in middle.items())
    whole = ", ".join(f"{part} {seconds:.2f}" for part, seconds in row["parts"].items())
    return f"a round: {a_round} s; the run: {whole} s; {row['examples'] / row['wall_seconds']:.4g} examples/s"
