"""Several runs of one configuration."""

import json
from pathlib import Path

import pandas as pd

from chorus.program import call, settings, to_yaml
from chorus.runs import Run, compare


class Sweep:
    """The folder of a sweep."""

    def __init__(self, folder):
        self.folder = Path(folder)
        if not (self.folder / "sweep.json").exists():
            raise FileNotFoundError(f"{self.folder}: is not the folder of a sweep: it has no sweep.json")

    @property
    def raw(self):
        """sweep.json as it is."""
        return json.loads((self.folder / "sweep.json").read_text(encoding="utf-8"))

    @property
    def runs(self):
        """The runs that have a folder, as Run objects."""
        return [Run(path.parent) for path in sorted(self.folder.glob("*/run.json"))]

    @property
    def results(self):
        """One row per run: its settings, its seed, whether it finished, and the main score at best and at last."""
        rows = []
        for one in self.raw["runs"]:
            row = {**one["values"], "seed": one["seed"], "status": one["status"], "run": one["folder"]}
            row.update(best=one.get("best"), last=one.get("last"))
            rows.append(row)
        return pd.DataFrame(rows)

    @property
    def table(self):
        """One row per combination, best first: its settings, mean and deviation of the main score over seeds."""
        rows = []
        for point in self.raw["points"]:
            best, last = point["best"] or {}, point["last"] or {}
            rows.append({**point["values"], "seeds": best.get("count"), "best": best.get("mean"),
                         "best_deviation": best.get("deviation"), "last": last.get("mean"),
                         "last_deviation": last.get("deviation")})
        return pd.DataFrame(rows)

    def plot(self, metric=None, x="round"):
        """The curves of all runs."""
        return compare(self.runs, metric, x)


def sweep(config, grid, *, seeds=1, jobs=1, name=None, **overrides):
    """Every combination of the grid's values with several seeds: sweep("demo.yaml", {"algorithm": ["fedavg", "fedprox"]}).

    The runs are in runs/NAME. Repeating the call continues with what is missing.
    """
    name = name or Path(config).stem + "-sweep"
    keys = [f"{key}={','.join(to_yaml(value) for value in values)}" for key, values in grid.items()]
    call(["sweep", str(config), *keys, *settings(overrides), "--seeds", str(seeds), "--jobs", str(jobs), "--name", name])
    return Sweep(Path("runs") / name)


def load_sweep(folder):
    """A sweep that exists."""
    return Sweep(folder)
