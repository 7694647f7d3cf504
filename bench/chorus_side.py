"""Chorus's side of bench/engine.py: runs the program on files in a temporary folder. bench/engine.py calls it.

A workload becomes a folder (vocabulary, JSON lines, configuration); `chorus run` trains; the rounds are read from
metrics.jsonl (docs/reference/formats.md): `seconds` covers selecting, sending, training and averaging,
`training_seconds` the training.
"""
import json
import os
import pathlib
import subprocess
import tempfile

import workloads

ROOT = pathlib.Path(__file__).resolve().parents[1]
NAME = "Chorus"
TUNING = {"full": {"name": "full"}, "pfeiffer": {"name": "pfeiffer", "width": 32, "depth": 2},
          "lora": {"name": "lora", "rank": 8, "alpha": 16, "targets": ["query", "value"]}}


class ChorusFailed(Exception):
    pass


def settings(device, threads):
    """The settings to try; the best one counts."""
    if device == "cuda":
        return [{"precision": precision} for precision in ("float32", "tf32", "bfloat16")]
    shapes = [(1, threads), (threads, 1)] if threads > 1 else [(1, 1)]
    return [{"precision": precision, "workers": workers, "threads": each} for precision in workloads.cpu_precisions()
            for workers, each in shapes]


def write_texts(path, words, rows, classified):
    with open(path, "w") as file:
        for client, (ids, label) in rows:
            record = {"client": str(client), "text": " ".join(words[i] for i in (ids[1:-1] if classified else ids))}
            file.write(json.dumps({**record, "label": f"class {label}"} if classified else record) + "\n")


def write(folder, work, device, setting):
    """The folder's vocabulary, data and configuration (JSON is YAML)."""
    words = workloads.vocabulary(work.network["vocab_size"])
    classified = work.task == "text_classification"
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer/vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512, "unk_token": "[UNK]",
        "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}))
    rows = [(client, row) for client, rows in enumerate(work.clients) for row in rows]
    write_texts(folder / "train.jsonl", words, rows, classified)
    write_texts(folder / "test.jsonl", words, rows[:2], classified)
    longest = max(len(ids) for _, (ids, _) in rows)
    task = {"name": work.task, "max_length": max(longest, 4)}
    config = {
        "kind": "experiment", "name": "bench", "seed": 1, "device": device,
        "data": {"train": [f"{folder}/train.jsonl"], "test": [f"{folder}/test.jsonl"], "cache": "none",
                 "formulation": "text_classification" if classified else "language_model"},
        "encoding": {"cache": "none"},
        "task": task if classified else {**task, "add_eos": False},
        "model": {"fresh": work.network, "tokenizer": f"{folder}/tokenizer"},
        "clients": {"count": 0, "partition": "natural"},
        "tuning": TUNING[work.tuning], "algorithm": "fedavg",
        "rounds": work.rounds, "clients_per_round": len(work.clients),
        "trainer": {"epochs": 1, "batch_size": work.batch_size, "optimizer": work.optimizer, "clip": 0,
                    "learning_rate": work.learning_rate, "schedule": {"shape": "constant", "warmup": 0},
                    "precision": setting["precision"],
                    "cache": {"mode": "keep" if work.tuning == "pfeiffer" else "off"}},
        "evaluation": {"every": 0}, "checkpoint": {"every": 1000000},
        "federation": {key: setting[key] for key in ("workers", "threads", "cohort_batch", "deterministic") if key in setting}}
    (folder / "config.yaml").write_text(json.dumps(config, indent=1))
    return rows, words


def check_ids(chorus, folder, row, words, classified):
    """Both sides must read the same token ids."""
    ids = row[1][0]
    text = " ".join(words[i] for i in (ids[1:-1] if classified else ids))
    command = [chorus, "tokenize", "--tokenizer", f"{folder}/tokenizer", "--json"] + ([] if classified else ["--no-special"])
    done = subprocess.run(command, input=text + "\n", capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["ids"] == ids, "Chorus reads other token ids than its peers"


def run(chorus, arguments, folder):
    """Runs the program and returns the events of its run and its peak resident memory in bytes."""
    command = [chorus, "run", *arguments, "--run-folder", f"{folder}/run"]
    environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache", "TERM": "dumb"}
    peak = 0
    with open(f"{folder}/log", "w+") as log:
        child = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            while True:
                peak = max(peak, resident_peak(child.pid))
                try:
                    child.wait(timeout=0.05)
                    break
                except subprocess.TimeoutExpired:
                    pass
        finally:  # also when interrupted: remove its folder
            child.kill()
            child.wait()
        log.seek(0)
        if child.returncode != 0:
            lines = log.read().strip().splitlines()
            raise ChorusFailed(f"status {child.returncode}: {lines[-1] if lines else 'no message'}")
    with open(f"{folder}/run/metrics.jsonl") as events:
        return [json.loads(line) for line in events], peak


def resident_peak(process):
    """VmHWM, the kernel's own peak, so rare polling loses little."""
    try:
        with open(f"/proc/{process}/status") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)
    except OSError:  # it has just ended
        return 0


def rounds(chorus, work, device, setting):
    """Seconds and training seconds of each round after the first, and the memory it took."""
    with tempfile.TemporaryDirectory(prefix="chorus-bench-") as name:
        folder = pathlib.Path(name)
        rows, words = write(folder, work, device, setting)
        check_ids(chorus, folder, rows[0], words, work.task == "text_classification")
        events, peak = run(chorus, [f"{folder}/config.yaml"], folder)
    measured = [event for event in events if event["kind"] == "round"][1:]
    for event in measured:
        if event["examples"] != work.examples or event["failed"]:
            raise ChorusFailed(f"a round trained {event['examples']} examples instead of {work.examples}")
    return [{key: event[key] for key in ("seconds", "training_seconds", "steps", "loss")} for event in measured], peak


def scale(chorus, device, count):
    """configs/scale/100k_clients.yaml for some rounds. With one worker, everything but training is overhead."""
    with tempfile.TemporaryDirectory(prefix="chorus-bench-") as folder:
        overrides = [f"rounds={count}", f"device={device}", "evaluation.every=0", "federation.workers=1", "federation.threads=1",
                     "checkpoint.every=1000000"]
        events, peak = run(chorus, ["configs/scale/100k_clients.yaml", *overrides], folder)
    measured = [event for event in events if event["kind"] == "round"][1:]
    return [{key: event[key] for key in ("seconds", "training_seconds", "clients", "examples")} for event in measured], peak
