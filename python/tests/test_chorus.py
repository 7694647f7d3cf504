"""The package against the program: needs pandas and a built chorus ($CHORUS or build/chorus)."""

import json
import os
from pathlib import Path

import pytest

pd = pytest.importorskip("pandas", reason="pandas is missing: apt-get install python3-pandas")

import chorus  # noqa: E402
from chorus.data import write_data  # noqa: E402
from chorus.program import settings, to_yaml  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TINY = {
    "rounds": 2,
    "clients_per_round": 2,
    "data.train": ["formulation=text_classification,examples=60,test_examples=20,labels=2,seed=3"],
    "clients.count": 3,
    "model": {"from": "models/chorus-mini"},
    "federation.workers": 1,
}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """One short run, and the events that were told while it trained."""
    os.chdir(ROOT)
    events = []
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    run = chorus.run("configs/demo.yaml", folder=folder, show=False, on_event=events.append, **TINY)
    return run, events


def test_values_are_written_as_the_command_line_reads_them():
    assert settings({"algorithm": "fedopt", "trainer": {"clip": 1.5, "schedule": None}}) == [
        "algorithm=fedopt",
        "trainer.clip=1.5",
        "trainer.schedule=null",
    ]
    assert to_yaml([1, "a, b", True]) == '[1, "a, b", true]'
    assert to_yaml({"name": "fedprox", "mu": 0.1}) == "{name: fedprox, mu: 0.1}"
    assert to_yaml("x: [1") == '"x: [1"'


def test_a_run_streams_events_and_becomes_a_frame(tiny):
    run, events = tiny
    assert [e["kind"] for e in events][0] == "run_started"
    assert [e["kind"] for e in events][-1] == "run_finished"
    assert list(run.metrics["round"]) == [0, 1, 2]
    assert run.metrics["accuracy"].between(0, 1).all()
    assert (run.metrics["bytes"].diff().dropna() > 0).all(), "costs add up"
    assert run.metrics["accuracy"].iloc[-1] == run.summary["last"]["accuracy"]
    assert len(run.rounds) == 2 and {"loss", "seconds"} <= set(run.rounds)
    assert "accuracy" in repr(run)
    assert run.config.startswith("kind: experiment") or "algorithm" in run.config


def test_a_perfect_score_is_shown(capsys):
    class Tail:
        def events(self):
            yield {"kind": "evaluation", "round": 3, "time": 1.5, "split": "test", "accuracy": 1, "eval_loss": 0.25, "examples": 30}

    chorus.runs._tell(Tail(), True, None)
    assert capsys.readouterr().out == "round 3: accuracy 1.0000  eval_loss 0.2500\n"


def test_clients_say_what_they_hold(tiny):
    run, _ = tiny
    clients = run.clients
    assert len(clients) == 3
    assert clients["train"].sum() == 60
    labels = [c for c in clients.columns if c not in ("client", "train", "test", "score")]
    assert len(labels) == 2 and clients[labels].sum(axis=1).equals(clients["train"])


def test_predictions_come_back_as_a_frame(tiny):
    run, _ = tiny
    answers = run.predict(["a boat in the harbour", "a film about\na sailor"])
    assert len(answers) == 2 and set(answers["label"]) <= set(run.clients.columns)
    frame = pd.DataFrame({"id": ["x", "y"], "text": ["one", "two"], "label": list(run.clients.columns[3:5])})
    assert list(run.predict(frame)["id"]) == ["x", "y"]


def test_a_picture_is_an_svg_document(tiny, tmp_path):
    run, _ = tiny
    picture = run.plot()
    assert picture._repr_svg_().startswith("<svg") and "accuracy" in picture.svg
    assert picture.save(tmp_path / "a.svg").read_text() == picture.svg


def test_data_frames_are_trained_on(tmp_path):
    os.chdir(ROOT)
    texts = [f"the {'sailor' if i % 2 else 'actor'} number {i} came" for i in range(40)]
    frame = pd.DataFrame({"title": texts, "topic": ["sea", "film"] * 20, "author": [f"u{i % 4}" for i in range(40)]})
    run = chorus.run(
        "configs/demo.yaml",
        data=frame,
        columns={"text": "title", "label": "topic", "client": "author"},
        folder=tmp_path / "own",
        show=False,
        **{**{k: v for k, v in TINY.items() if k != "data.train"}, "rounds": 1, "clients.partition": "natural",
           "clients.count": 0, "clients.test_share": 0.2},
    )
    assert set(run.clients["client"]) == {"u0", "u1", "u2", "u3"}
    assert len(run.metrics) == 2


class Label:
    def int2str(self, number):
        return ["no", "yes"][number]


class DatasetDict(dict):
    """As Hugging Face's datasets has it, as far as it is used."""


class Table(list):
    features = {"label": Label()}


def test_datasets_keep_their_label_names(tmp_path):
    data = DatasetDict(train=Table([{"text": "a", "label": 1}, {"text": "b", "label": 0}]), test=Table([{"text": "c", "label": 1}]))
    made = write_data(data, tmp_path)
    assert made["data.train"] == [str(tmp_path / "train.jsonl")]
    assert [json.loads(line)["label"] for line in (tmp_path / "train.jsonl").read_text().splitlines()] == ["yes", "no"]
    with pytest.raises(ValueError, match="use train, validation and test"):
        write_data({"dev": []}, tmp_path)
    with pytest.raises(ValueError, match="empty"):
        write_data({"train": []}, tmp_path)


def test_mistakes_are_the_programs_own_words(tmp_path):
    os.chdir(ROOT)
    with pytest.raises(chorus.ChorusError, match="did you mean 'fedopt'") as error:
        chorus.run("configs/demo.yaml", algorithm="fedopd", folder=tmp_path / "x", show=False)
    assert error.value.status == 2
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        chorus.load(tmp_path)


def test_a_sweep_has_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {**TINY, "rounds": 1, "model": {"from": str(ROOT / "models/chorus-mini")}}
    sweep = chorus.sweep(ROOT / "configs/demo.yaml", {"algorithm": ["fedavg", "fedprox"]}, seeds=1, name="two", **changes)
    assert set(sweep.table["algorithm"]) == {"fedavg", "fedprox"}
    assert sweep.table["best"].notna().all()
    assert len(sweep.results) == 2 and set(sweep.results["status"]) == {"finished"}
    assert len(sweep.runs) == 2


def test_the_cells_of_the_notebook_run(tmp_path, monkeypatch):
    """docs/notebook.ipynb with one round, one seed and little data."""
    monkeypatch.chdir(tmp_path)
    for name in ("configs", "models"):
        (tmp_path / name).symlink_to(ROOT / name)
    run, sweep = chorus.run, chorus.sweep
    little = {"rounds": 1, "data.train": TINY["data.train"], "federation.workers": 1}

    def short_run(config, **changes):
        changes.update({k: v for k, v in little.items() if k != "data.train" or "data" not in changes})
        return run(config, show=False, **changes)

    monkeypatch.setattr(chorus, "run", short_run)
    monkeypatch.setattr(chorus, "sweep", lambda config, grid, **changes: sweep(config, grid, **{**changes, **little, "seeds": 1}))
    notebook = json.loads((ROOT / "docs/notebook.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8 and sum(bool(cell["outputs"]) for cell in cells) >= 7, "it was executed"
    names = {}
    for cell in cells:
        exec("".join(cell["source"]), names)  # noqa: S102
    assert set(names["sweep"].table["algorithm"]) == {"fedavg", "fedopt"}
