#!/usr/bin/env python3
"""Writes values of other privacy accountants to tests/golden/privacy.json, or compares a Chorus program with them.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install dp-accounting==0.6.0 mpmath==1.4.1
    /tmp/venv/bin/pip install --no-deps opacus==1.6.0 opt_einsum
    /tmp/venv/bin/python tests/golden/make_privacy.py golden                        # a few minutes
    /tmp/venv/bin/python tests/golden/make_privacy.py compare build/chorus [CASES]  # random cases (100)

References: dp_accounting (RDP; PLD, pessimistic and optimistic), Opacus (RDP with signed series; PRV, an upper bound with
an error of at most 0.01), mpmath quadrature for Rényi divergences, brute force over all participation patterns for
matrix mechanisms. Opacus is loaded without torch, which its accountants do not need.
"""
import importlib.machinery
import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
import types
import warnings

import dp_accounting as dpa
import mpmath as mp
import numpy as np
from absl import logging
from dp_accounting.pld import privacy_loss_distribution as pldlib
from scipy.stats import binom

warnings.filterwarnings("ignore")
logging.set_verbosity(logging.ERROR)
OUT = pathlib.Path(__file__).with_suffix("").parent / "privacy.json"
ORDERS = [1 + x / 10 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512, 1024]
REPLACE = dpa.NeighboringRelation.REPLACE_ONE


def opacus_module(name):
    import importlib
    import importlib.util
    folder = pathlib.Path(importlib.util.find_spec("opt_einsum").origin).parents[1] / "opacus"
    for package in ("opacus", "opacus.accountants", "opacus.accountants.analysis"):
        if package not in sys.modules:
            module = types.ModuleType(package)
            module.__path__ = [str(folder.joinpath(*package.split(".")[1:]))]
            module.__spec__ = importlib.machinery.ModuleSpec(package, None, is_package=True)
            sys.modules[package] = module
    if "opacus.optimizers" not in sys.modules:  # only named in a signature there
        sys.modules["opacus.optimizers"] = types.ModuleType("opacus.optimizers")
        sys.modules["opacus.optimizers"].DPOptimizer = object
    return importlib.import_module(name)


def dpa_rdp(q, s, steps, delta):
    accountant = dpa.rdp.RdpAccountant(ORDERS)
    accountant.compose(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(s)), steps)
    return float(accountant.get_epsilon(delta))


def opacus_rdp(q, s, steps, delta):
    rdp = opacus_module("opacus.accountants.analysis.rdp")
    values = rdp.compute_rdp(q=q, noise_multiplier=s, steps=steps, orders=ORDERS)
    return float(max(rdp.get_privacy_spent(orders=ORDERS, rdp=values, delta=delta)[0], 0))


def opacus_prv(q, s, steps, delta):
    accountant = opacus_module("opacus.accountants.prv").PRVAccountant()
    accountant.history = [(s, q, steps)]
    try:
        return float(accountant.get_epsilon(delta))
    except (ValueError, RuntimeError, MemoryError):  # it fails on some cases
        return None


def gaussian_pld(q, s, steps, delta, relation=dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, upper=True):
    step = pldlib.from_gaussian_mechanism(s, sampling_prob=q, neighboring_relation=relation, pessimistic_estimate=upper,
                                          use_connect_dots=upper)
    return float(step.self_compose(steps).get_epsilon_for_delta(delta))


def exact_rdp(q, s, a):
    mp.mp.dps = 40
    q, s, a = mp.mpf(q), mp.mpf(s), mp.mpf(a)

    def excess(z):
        u = q * mp.expm1((2 * z - 1) / (2 * s * s))
        return mp.npdf(z, 0, s) * ((1 + u) ** a - 1 - a * u)

    near = [x * s for x in range(-28, 29, 4)]
    points = near + [a / 2] + [a + x for x in near]
    return float(mp.log1p(mp.quad(excess, sorted(set(points)))) / (a - 1))


def brute(matrix, most, separation):
    """Largest norm of a sum of columns, over all allowed participations."""
    steps, best = matrix.shape[1], 0
    for count in range(1, most + 1):
        for chosen in itertools.combinations(range(steps), count):
            if all(b - a >= separation for a, b in zip(chosen, chosen[1:])):
                best = max(best, float(np.linalg.norm(matrix[:, list(chosen)].sum(axis=1))))
    return best


def tree_matrix(steps):
    rows, size = [], 1
    while size <= steps:
        for begin in range(0, steps - size + 1, size):
            rows.append([1.0 if begin <= i < begin + size else 0.0 for i in range(steps)])
        size *= 2
    return np.array(rows)


def toeplitz(coefficients, steps):
    return np.array([[coefficients[i - j] if 0 <= i - j < len(coefficients) else 0 for j in range(steps)] for i in range(steps)])


def golden():
    cases = {}
    cases["renyi"] = [dict(q=q, noise=s, order=a, value=exact_rdp(q, s, a)) for q, s, a in
                      [(1e-5, 100, 1.1), (1e-5, 100, 63), (1e-5, 0.5, 1.7), (0.01, 2.5, 1.5), (0.01, 0.7, 2.5), (0.01, 0.7, 8),
                       (0.1, 0.1, 1.3), (0.1, 0.3, 10.9), (0.5, 1, 4.4), (0.5, 1, 32), (0.9, 0.2, 3.1), (0.999, 5, 1.2)]]
    rdp = []
    for q, s, steps, delta in itertools.product([1e-5, 1e-3, 0.01, 0.2, 1], [0.1, 0.7, 2, 100], [1, 1000, 10**6], [1e-10, 1e-4]):
        rdp.append(dict(q=q, noise=s, steps=steps, delta=delta, opacus=opacus_rdp(q, s, steps, delta), dp_accounting=dpa_rdp(q, s, steps, delta)))
    cases["rdp"] = rdp
    pld = []
    for q, s, steps, delta in [(0.01, 0.7, 120, 1e-5), (0.05, 0.8, 100, 1e-5), (1e-3, 0.5, 10**5, 1e-6), (0.3, 5, 50, 1e-3), (0.9, 0.5, 3, 1e-5),
                               (1e-4, 1, 100, 1e-8), (0.1, 100, 1000, 1e-3), (1, 1, 1, 1e-5), (1, 10, 500, 1e-6), (0.004, 1.1, 14000, 1e-5),
                               (1e-3, 1, 10**6, 1e-6), (1e-5, 0.8, 10**6, 1e-7), (0.01, 2, 10**4, 1e-9), (0.5, 20, 1000, 1e-5)]:
        print("pld", q, s, steps, delta, flush=True)
        pld.append(dict(q=q, noise=s, steps=steps, delta=delta, upper=gaussian_pld(q, s, steps, delta),
                        lower=gaussian_pld(q, s, steps, delta, upper=False), prv=opacus_prv(q, s, steps, delta)))
    cases["pld"] = pld
    cases["replace"] = [dict(q=q, noise=s, steps=t, delta=d, upper=gaussian_pld(q, s, t, d, REPLACE)) for q, s, t, d in
                        [(0.05, 0.8, 100, 1e-5), (1, 2, 1, 1e-6), (0.01, 1, 1000, 1e-6)]]
    cases["group"] = [dict(q=q, noise=s, steps=t, delta=d, group=g,
                           upper=float(pldlib.from_mixture_gaussian_mechanism(s, list(range(g + 1)), list(binom.pmf(range(g + 1), g, q)))
                                       .self_compose(t).get_epsilon_for_delta(d)))
                      for q, s, t, d, g in [(0.05, 0.8, 100, 1e-5, 3), (0.01, 2, 1000, 1e-6, 8)]]
    cases["laplace"] = [dict(q=q, noise=b, steps=t, delta=d,
                             upper=float(pldlib.from_laplace_mechanism(b, sampling_prob=q).self_compose(t).get_epsilon_for_delta(d)))
                        for q, b, t, d in [(1, 1, 1, 1e-5), (1, 3, 20, 1e-6), (0.1, 0.5, 100, 1e-5), (0.01, 1, 1000, 1e-8)]]
    cases["discrete_gaussian"] = [dict(noise=s, steps=t, delta=d,
                                       upper=float(pldlib.from_discrete_gaussian_mechanism(s).self_compose(t).get_epsilon_for_delta(d)))
                                  for s, t, d in [(1, 1, 1e-5), (0.5, 3, 1e-5), (20, 100, 1e-6)]]
    cases["discrete_laplace"] = [dict(noise=b, steps=t, delta=d,
                                      upper=float(pldlib.from_discrete_laplace_mechanism(1 / b).self_compose(t).get_epsilon_for_delta(d)))
                                 for b, t, d in [(1, 1, 1e-5), (4, 30, 1e-6)]]
    cases["randomized_response"] = [dict(noise=p, buckets=k, steps=t, delta=d,
                                         upper=float(pldlib.from_randomized_response(p, k).self_compose(t).get_epsilon_for_delta(d)))
                                    for p, k, t, d in [(0.5, 2, 1, 1e-5), (0.2, 10, 1, 0.05), (0.9, 4, 50, 1e-6)]]
    mixed = pldlib.from_gaussian_mechanism(1.5, sampling_prob=0.02).self_compose(500).compose(pldlib.from_laplace_mechanism(4).self_compose(10))
    cases["mixed"] = dict(delta=1e-6, upper=float(mixed.get_epsilon_for_delta(1e-6)))
    roots = [1.0]
    for i in range(1, 16):
        roots.append(roots[-1] * (2 * i - 1) / (2 * i))
    blt = [1.0] + [0.3 * 0.9**i + 0.2 * 0.4**i for i in range(15)]
    cases["toeplitz"] = [dict(steps=n, most=k, separation=b, coefficients=c, value=brute(toeplitz(c, n), k, b)) for n, k, b, c in
                         [(12, 1, 1, roots[:4]), (12, 3, 4, roots[:4]), (12, 3, 2, roots[:5]), (14, 4, 3, roots[:14]), (13, 2, 5, blt[:13])]]
    cases["tree"] = [dict(steps=n, most=k, separation=b, value=brute(tree_matrix(n), k, b)) for n, k, b in
                     [(1, 1, 1), (3, 1, 1), (8, 1, 1), (13, 1, 1), (8, 2, 4), (13, 3, 4), (16, 4, 4), (12, 3, 3), (16, 3, 5)]]
    OUT.write_text("{\n" + ",\n".join(
        f' "{name}": ' + (json.dumps(value) if isinstance(value, dict) else "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]")
        for name, value in cases.items()) + "\n}\n")


def compare(program, count):
    draw = random.Random(1)
    worst = 0
    for _ in range(count):
        q = draw.choice([1, 10 ** draw.uniform(-5, 0)])
        s = 10 ** draw.uniform(-1, 2)
        steps = int(10 ** draw.uniform(0, 6))
        delta = 10 ** draw.uniform(-10, -3)
        question = [program, "privacy", "account", "--mechanism", "gaussian", "--sampling-rate", str(q), "--noise", str(s), "--steps", str(steps),
                    "--delta", str(delta), "--json", "--accountant"]
        ours = {kind: json.loads(subprocess.run(question + [kind], capture_output=True, text=True, check=True).stdout)["epsilon"] for kind in ("rdp", "pld")}
        reference = dpa_rdp(q, s, steps, delta)
        fail = [] if ours["rdp"] <= reference * (1 + 1e-3) + 1e-12 else ["rdp above dp_accounting"]
        if ours["pld"] > ours["rdp"] * 1.001 + 1e-3:
            fail.append("pld above rdp")
        upper = lower = None
        if reference < 40:
            upper, lower = gaussian_pld(q, s, steps, delta), gaussian_pld(q, s, steps, delta, upper=False)
            worst = max(worst, ours["pld"] - upper)
            if not lower - 1e-3 <= ours["pld"] <= upper + 0.005:
                fail.append("pld")
        print(f"q={q:.4g} s={s:.4g} T={steps} delta={delta:.2g}: rdp {ours['rdp']:.6g} ({reference:.6g}), pld {ours['pld']:.6g} ({lower} .. {upper})",
              "FAILED: " + ", ".join(fail) if fail else "", flush=True)
    print("largest PLD above dp_accounting:", worst)


if __name__ == "__main__":
    if len(sys.argv) >= 2 and sys.argv[1] == "golden":
        golden()
    elif len(sys.argv) >= 3 and sys.argv[1] == "compare":
        compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
    else:
        sys.exit(__doc__)
