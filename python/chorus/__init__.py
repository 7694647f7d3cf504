"""Chorus from Python: run federated experiments, and look at them as data frames.

    import chorus
    run = chorus.run("configs/demo.yaml", algorithm="fedopt")
    run.metrics.plot(x="round", y="accuracy")
"""

from chorus.data import write_data
from chorus.program import ChorusError, find_program
from chorus.runs import Run, load, run
from chorus.sweeps import Sweep, load_sweep, sweep

__all__ = ["ChorusError", "Run", "Sweep", "find_program", "load", "load_sweep", "run", "sweep", "write_data"]
