#!/usr/bin/env python3
"""Kills a run of every registered algorithm and resumes it: the model must be that of an uninterrupted run, and so must
what clients keep (own models, private parts, control variates) and the scores of their own models.

    tests/gpu/kill_resume.py --chorus build/gpu/chorus --device cuda

Equal to the bit on a CPU. A GPU may choose other kernels after a resume, so there |a - b| <= 3e-4 |a|, or 2e-2 |a| with
an adaptive optimizer or bfloat16, which turn rounding into whole steps. Of a method whose server has no model, the newest
states of the clients are compared in the same way.
Exits with 1 when a run or one of its clients fails, a run cannot be resumed, comes to another model, or leaves nothing
to compare.
"""
import argparse
import array
import concurrent.futures
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
kind: experiment
name: kill
seed: 5
device: {device}
data: {{format: synthetic, train: ["formulation=text_classification,examples=240,test_examples=60,labels=4,seed=7"]}}
encoding: {{cache: none}}
task: {{name: text_classification, max_length: 32}}
model:
  fresh: {{model_type: bert, hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 64,
           max_position_embeddings: 40, hidden_dropout_prob: 0.1, attention_probs_dropout_prob: 0.1}}
  tokenizer: models/chorus-mini
clients: {{count: 12, partition: {{name: label_dirichlet, alpha: 0.5}}}}
algorithm: {{name: fedavg}}
rounds: {rounds}
clients_per_round: 4
trainer: {{batch_size: 8, optimizer: sgd, learning_rate: 0.2, clip: 0}}
evaluation: {{every: 4}}
checkpoint: {{every: 1}}
"""

ADAPTERS = "tuning={name: pfeiffer, width: 16, unit: 4}"
# What an algorithm needs beside its name. One that is not here runs with the configuration above.
CASES = {
    "adafl": [["algorithm={name: adafl, width: 4, width_step: 4, interval: 0.15}", ADAPTERS,
               "emulation={scale_depth: true}", "clients_per_round=6"]],
    "fedavg": [[], ["compression.up=[{name: top_k, k: 0.05}, {name: uniform, bits: 4}]",
                    "compression.down=[{name: ecq, bits: 4}]"],
               ["trainer={optimizer: adamw, learning_rate: 1e-3}", "trainer.precision=bfloat16"]],
    "fedbuff": [["algorithm={name: fedbuff, buffer: 2}", "emulation={scale_depth: true}"]],
    "fedlora": [["tuning={name: lora, rank: 4}"]],
    "local_parts": [["algorithm={name: local_parts, private: [0, norms]}"],
                    ["algorithm={name: local_parts, private: ['*lora_B*']}", "tuning={name: lora, rank: 4}"]],
    "fedopt": [["algorithm={name: fedopt, server: " + kind + "}", "trainer.learning_rate=0.05"]
               for kind in ("adam", "yogi", "adagrad")] +
              [["algorithm={name: fedopt, momentum: 0.9}", "trainer.learning_rate=0.05"]],
    "per_fedavg": [[], ["algorithm={name: per_fedavg, hessian: exact, local_steps: 2}"]],
    "splitfed": [[], ["algorithm={name: splitfed, layers: 0, labels: client, version: 2}"]],
    # Distillation learns from predictions on a public set.
    **{name: [["public={}"], ["public={}", "trainer.precision=bfloat16"]] for name in ("calibrated", "cronus", "ds_fl", "feddf", "feded", "fedid", "fedkd", "fedmd", "mhat")},
}


class Failure(Exception):
    pass


def tensors(path):
    """Name to (raw bytes, type) of a safetensors file."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]], entry["dtype"])
            for name, entry in header.items()}


def distance(pairs):
    """|a - b| / |a| over all float32 tensors of pairs of files; 0.0 only when every byte is the same."""
    if not pairs:
        raise Failure("there is nothing to compare: neither a model nor states of clients")
    same, difference, norm = True, 0.0, 0.0
    for file, other in pairs:
        a, b = tensors(file), tensors(other)
        if a.keys() != b.keys():
            raise Failure(f"{file}: other tensors")
        for name, (left, kind) in a.items():
            right = b[name][0]
            same = same and left == right
            if kind != "F32" or len(left) != len(right):
                if left != right:
                    raise Failure(f"{file}: {name} differs")
                continue
            for x, y in zip(array.array("f", left), array.array("f", right)):
                if not (math.isfinite(x) and math.isfinite(y)):
                    raise Failure(f"{file}: {name} is not finite")
                difference += (x - y) ** 2
                norm += x * x
    return 0.0 if same else max(math.sqrt(difference / max(norm, 1e-300)), 1e-300)


def kept_by_clients(run):
    """Client to the round and the path of its newest state."""
    newest = {}
    for path in (run / "clients").rglob("*@*.safetensors"):
        client, at = (int(word) for word in path.stem.split("@"))
        if client not in newest or at > newest[client][0]:
            newest[client] = (at, path)
    return newest


def files_to_compare(one, other):
    """Pairs of weights of two runs: of the server's model, or of the clients' newest states if it has none."""
    model = one / "model"
    if model.exists():
        return [(path, other / path.relative_to(one)) for path in sorted(model.rglob("*.safetensors"))]
    mine, theirs = kept_by_clients(one), kept_by_clients(other)
    if {client: at for client, (at, _) in mine.items()} != {client: at for client, (at, _) in theirs.items()}:
        raise Failure("other clients keep states, or of other rounds")
    return [(path, theirs[client][1]) for client, (_, path) in sorted(mine.items())]


class Case:
    def __init__(self, options, algorithm, overrides, index):
        self.options, self.name = options, algorithm + (f"/{index}" if index else "")
        self.folder = pathlib.Path(options.work) / self.name.replace("/", "_")
        self.folder.mkdir()
        words = [] if any(word.startswith("algorithm=") for word in overrides) else [f"algorithm={{name: {algorithm}}}"]
        self.overrides = words + overrides + options.set
        coarse = any(word in text for text in overrides for word in ("adamw", "bfloat16", "server:"))
        self.tolerance = 0.0 if options.exact else 2e-2 if coarse else 3e-4

    def start(self, name, rounds):
        config = self.folder / f"{name}.yaml"
        config.write_text(CONFIG.format(device=self.options.device, rounds=rounds))
        return self.command(name, ["run", str(config), "--run-folder", str(self.folder / name)] + self.overrides)

    def command(self, name, words):
        log = open(self.folder / f"{name}.log", "a")
        return subprocess.Popen([self.options.chorus] + words, stdout=log, stderr=subprocess.STDOUT)

    def finish(self, name, process):
        status = process.wait(timeout=self.options.timeout)
        if status != 0:
            tail = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()[-3:]
            raise Failure(f"{name} ended with {status}: " + " | ".join(tail))
        events = [json.loads(line) for line in (self.folder / name / "metrics.jsonl").read_text().splitlines()]
        if any(event.get("failed") for event in events if event["kind"] == "round"):
            log = (self.folder / f"{name}.log").read_text(errors="replace")
            why = next((line for line in log.splitlines() if "left out" in line), "see its log")
            raise Failure(f"clients failed in {name}: {why}")

    def newest_round(self, name):
        folder = self.folder / name / "checkpoints"
        try:
            rounds = [int(entry[6:]) for entry in os.listdir(folder) if entry.startswith("round_")]
        except FileNotFoundError:
            return 0
        return max(rounds, default=0)

    def killed_at(self, name, rounds):
        """Kills a run after three checkpoints; 0 when it was faster."""
        process = self.start(name, rounds)
        limit = time.monotonic() + self.options.timeout
        while process.poll() is None and self.newest_round(name) < 3:
            if time.monotonic() > limit:
                process.kill()
                raise Failure(f"{name} came to no third round")
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            return self.newest_round(name)
        self.finish(name, process)  # it ended by itself: in good order?
        return 0

    def run(self):
        begin = time.monotonic()
        for rounds in (12, 48):
            name = f"killed{rounds}"
            at = self.killed_at(name, rounds)
            if at > 0:
                break
        else:
            raise Failure("48 rounds were over before they could be interrupted")
        self.finish(name, self.command(name, ["resume", str(self.folder / name)]))
        if "resumed" not in (self.folder / name / "metrics.jsonl").read_text():
            raise Failure("it began anew instead of going on")
        self.finish("whole", self.start("whole", rounds))
        whole, resumed = self.folder / "whole", self.folder / name
        apart = distance(files_to_compare(whole, resumed))
        if apart > self.tolerance:
            raise Failure(f"killed in round {at + 1} of {rounds}: models differ by {apart:.2g} of their norm")
        if self.options.exact:
            mine, theirs = ({client: (at, path.read_bytes()) for client, (at, path) in kept_by_clients(run).items()}
                            for run in (resumed, whole))
            if mine != theirs:
                raise Failure(f"killed in round {at + 1} of {rounds}: clients keep something else")
            scores = [self.folder / run / "own_scores.json" for run in (name, "whole")]
            if scores[1].exists() and scores[0].read_text() != scores[1].read_text():
                raise Failure(f"killed in round {at + 1} of {rounds}: own models have other scores")
        shutil.rmtree(self.folder)
        return at, rounds, apart, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", required=True, help="the program")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--only", nargs="*", help="these algorithms")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 4), help="cases at a time")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one run")
    parser.add_argument("--set", nargs="*", default=[], help="more overrides, key=value")
    options = parser.parse_args()
    options.chorus = str(pathlib.Path(options.chorus).resolve())
    os.chdir(pathlib.Path(__file__).resolve().parents[2])  # models/chorus-mini

    options.exact = options.device == "cpu"
    listed = json.loads(subprocess.run([options.chorus, "list", "algorithm", "--json"], capture_output=True, text=True,
                                       check=True).stdout)
    names = [entry["name"] for entry in listed if entry.get("available", True)]
    if options.only:
        names = [name for name in names if name in options.only]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="chorus_kill_") as options.work, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        cases = [Case(options, name, list(overrides), index)
                 for name in names for index, overrides in enumerate(CASES.get(name, [[]]))]
        futures = [(case, pool.submit(case.run)) for case in cases]
        for case, future in futures:
            try:
                at, rounds, apart, seconds = future.result()
                verdict = "same bits" if apart == 0 else f"{apart:.1e} apart"
                print(f"{case.name:14} killed after round {at:2} of {rounds}: {verdict:14} {seconds:6.1f} s", flush=True)
            except (Failure, subprocess.TimeoutExpired, OSError, ValueError) as error:
                failed += 1
                print(f"{case.name:14} FAILED: {error}", flush=True)
    print(f"{len(futures) - failed} of {len(futures)} cases passed")
    return 1 if failed or not futures else 0


if __name__ == "__main__":
    sys.exit(main())
