"""One run: started, followed, read."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from chorus.data import is_data, write_data
from chorus.plots import Picture
from chorus.program import ChorusError, _reason, call, find_program, settings

_NOT_SCORES = {"kind", "split"}
_COSTS = {"round", "time", "seconds", "examples", "emulated_seconds", "emulated_joules", "client_joules", "client_bytes"}


class Run:
    """A run folder. Everything is read when it is asked for, so a running run can be looked at."""

    def __init__(self, folder):
        self.folder = Path(folder)
        if not (self.folder / "run.json").exists():
            raise FileNotFoundError(f"{self.folder}: is not a run folder: it has no run.json")

    @property
    def name(self):
        return self.folder.name

    @property
    def info(self):
        """run.json: command, version, seed, start."""
        return json.loads((self.folder / "run.json").read_text(encoding="utf-8"))

    @property
    def config(self):
        """The resolved configuration as text."""
        return (self.folder / "config.yaml").read_text(encoding="utf-8")

    @property
    def summary(self):
        """summary.json, or None while the run is not finished."""
        path = self.folder / "summary.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    @property
    def model(self):
        """The folder of the final model, for transformers' from_pretrained."""
        return self.folder / "model"

    @property
    def events(self):
        """All events as a DataFrame, one row each; numbers that were not finite are NaN."""
        return pd.DataFrame(list(_read_events(self.folder / "metrics.jsonl")))

    @property
    def rounds(self):
        """One row per round: loss, examples, seconds, bytes, failures."""
        return self._kind("round")

    @property
    def metrics(self):
        """One row per evaluation of the test set: round, scores, and what it cost up to then."""
        rows = []
        sums = {"train_seconds": 0.0, "bytes": 0.0, "train_examples": 0.0}
        for event in _read_events(self.folder / "metrics.jsonl"):
            if event["kind"] == "round":
                sums["train_seconds"] += event.get("seconds") or 0
                sums["bytes"] += (event.get("bytes_up") or 0) + (event.get("bytes_down") or 0)
                sums["train_examples"] += event.get("examples") or 0
            elif event["kind"] == "evaluation" and event.get("split") == "test":
                rows.append({**{k: v for k, v in event.items() if k not in _NOT_SCORES}, **sums})
        return pd.DataFrame(rows)

    @property
    def clients(self):
        """One row per client: training and test examples, one column per label, and the newest score where clients are
        evaluated (evaluation.per_client)."""
        path = self.folder / "clients.json"
        if not path.exists():
            return pd.DataFrame()
        data = json.loads(path.read_text(encoding="utf-8"))
        scores = {}
        for event in _read_events(self.folder / "metrics.jsonl"):
            if event["kind"] == "client_scores":
                scores = {key[len("client/"):]: value for key, value in event.items() if key.startswith("client/")}
        rows = []
        for client in data["clients"]:
            row = {"client": client["name"], "train": client["train"], "test": client["test"]}
            row.update(zip(data["labels"], client.get("labels", [])))
            if scores:
                row["score"] = scores.get(client["name"])
            rows.append(row)
        return pd.DataFrame(rows)

    def predict(self, data, best=False):
        """Answers of the final (or best) model as a DataFrame: one row per text of a list, or per row of a DataFrame or
        dataset with the columns that the run was trained on."""
        model = self.folder / ("model_best" if best and (self.folder / "model_best").exists() else "model")
        if isinstance(data, str):
            data = [data]
        if isinstance(data, (list, tuple)) and all(isinstance(text, str) for text in data):
            lines = call(["predict", "--model", str(model)], "".join(t.replace("\n", " ") + "\n" for t in data))
        else:
            with tempfile.TemporaryDirectory() as folder:
                write_data(data, folder)
                lines = call(["predict", "--model", str(model), str(Path(folder) / "train.jsonl")])
        return pd.DataFrame([json.loads(line) for line in lines.splitlines()])

    def plot(self, metric=None, x="round"):
        """The learning curve; shown by a notebook."""
        return compare([self], metric, x)

    def report(self, path):
        """Writes the page of the run (chorus report) and returns its path."""
        call(["report", str(self.folder), "-o", str(path)])
        return Path(path)

    def resume(self, rounds=None, show=True):
        """Continues a run that was stopped, or makes it longer."""
        return _follow(["resume", str(self.folder), *([f"rounds={rounds}"] if rounds else [])], self.folder, show)

    def _kind(self, kind):
        rows = [e for e in _read_events(self.folder / "metrics.jsonl") if e["kind"] == kind]
        return pd.DataFrame(rows).drop(columns=["kind"], errors="ignore")

    def __repr__(self):
        summary = self.summary
        if summary is None:
            return f"<chorus run {self.folder}, not finished>"
        score = summary["last"].get(summary["metric"])
        return f"<chorus run {self.folder}: {summary['metric']} {score:.4f} after {summary['rounds']} rounds>"


def run(config, *, data=None, columns=None, folder=None, show=True, on_event=None, **overrides):
    """Trains as a configuration says, and returns the Run when it is done.

    `config`: a YAML file. Other keyword arguments override its keys: run("demo.yaml", algorithm="fedopt",
    trainer={"learning_rate": 1e-3}). `data`: a DataFrame, a Hugging Face dataset, or a dictionary of them by split, used
    instead of the data that the configuration names; `columns` says which column is what. `show` prints a line per
    evaluation, `on_event` is called with every event as a dictionary. Interrupting the kernel stops the run after its
    round; `Run.resume` continues it.
    """
    folder = Path(folder) if folder else _new_folder(config)
    changes = dict(overrides)
    if data is not None:
        if not is_data(data):
            raise TypeError("data is a DataFrame, a dataset or a dictionary of them; name files in the configuration")
        changes.update({"data.train": [], "data.validation": [], "data.test": []})
        changes.update(write_data(data, folder.parent / (folder.name + "_data"), columns))
    arguments = ["run", str(config), *settings(changes), "--run-folder", str(folder)]
    return _follow(arguments, folder, show, on_event)


def load(folder):
    """A run that exists."""
    return Run(folder)


def compare(runs, metric=None, x="round"):
    """The learning curves of several runs in one picture."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "curves.svg"
        more = ["--metric", metric] if metric else []
        call(["compare", *[str(r.folder) for r in runs], "--x", x, "--svg", str(path), *more])
        return Picture(path.read_text(encoding="utf-8"))


def _new_folder(config):
    parent, stem = Path("runs"), Path(config).stem
    number = 1
    while (parent / f"{stem}-{number:03}").exists():
        number += 1
    return parent / f"{stem}-{number:03}"


def _read_events(path):
    """Complete lines only: the last one may be being written."""
    if not path.exists():
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


class _Tail:
    """What was appended to a file since the last look."""

    def __init__(self, path):
        self.path, self.position = path, path.stat().st_size if path.exists() else 0

    def events(self):
        if not self.path.exists():
            return
        if self.path.stat().st_size < self.position:
            self.position = 0
        with open(self.path, "rb") as file:
            file.seek(self.position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.position += len(line)
                yield json.loads(line)


def _follow(arguments, folder, show, on_event=None):
    tail = _Tail(folder / "metrics.jsonl")
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        child = subprocess.Popen(
            [find_program(), *arguments], stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
        )
        try:
            while child.poll() is None:
                _tell(tail, show, on_event)
                time.sleep(0.1)
        except BaseException:
            # Also when a caller's on_event fails: the run must not stay behind.
            os.kill(child.pid, signal.SIGINT)
            child.wait()
            raise
        _tell(tail, show, on_event)
        if child.returncode != 0:
            errors.seek(0)
            raise ChorusError(_reason(errors.read()), child.returncode)
    return Run(folder)


def _tell(tail, show, on_event):
    for event in tail.events():
        if on_event:
            on_event(event)
        if show and event["kind"] == "evaluation" and event.get("split") == "test":
            # A score of 1 is a whole number in JSON.
            scores = {k: v for k, v in event.items() if type(v) in (int, float) and k not in _COSTS}
            text = "  ".join(f"{name} {value:.4f}" for name, value in list(scores.items())[:4])
            print(f"round {event['round']}: {text}", file=sys.stdout, flush=True)
