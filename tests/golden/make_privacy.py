#!/usr/bin/env python3
"""Writes values of other privacy accountants to tests/golden/privacy.json, or compares a Chorus program with them.

    python3 -m venv /tmp/venv
    /tmp/venv/bin/pip install dp-accounting==0.6.0 mpmath==1.4.1
    /tmp/venv/bin/pip install --no-deps opacus==1.6.0 opt_einsum
    /tmp/venv/bin/python tests/golden/make_privacy.py golden                        # a few minutes
    /tmp/venv/bin/python tests/golden/make_privacy.py compare build/chorus [CASES [SEED]]  # random cases (100)

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


def exact_gaussian(q, s, delta):
    """One step: the larger epsilon of both directions, to 30 digits."""
    mp.mp.dps = 30
    q, s, delta = mp.mpf(q), mp.mpf(s), mp.mpf(delta)

    def hidden(epsilon, forward):
        # P = (1-q) N(0, s^2) + q N(1, s^2) exceeds e^epsilon Q (forward), or Q exceeds e^epsilon P, beyond one outcome z.
        ratio = mp.expm1(epsilon if forward else -epsilon) / q
        if ratio <= -1:
            return mp.mpf(0)
        z = s * s * mp.log1p(ratio) + mp.mpf(1) / 2
        p = (1 - q) * mp.ncdf(-z / s) + q * mp.ncdf((1 - z) / s), mp.ncdf(-z / s)
        below = (1 - q) * mp.ncdf(z / s) + q * mp.ncdf((z - 1) / s), mp.ncdf(z / s)
        return p[0] - mp.exp(epsilon) * p[1] if forward else below[1] - mp.exp(epsilon) * below[0]

    def solve(forward):
        low, high = mp.mpf(0), mp.mpf(1)
        if hidden(low, forward) <= delta:
            return low
        while hidden(high, forward) > delta:
            high *= 2
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if hidden(middle, forward) > delta else (low, middle)
        return low
    return float(max(solve(True), solve(False)))


def compare(program, count, seed):
    """Random cases. PLD lies between dp_accounting's bounds and Opacus' (both of them upper bounds with their own grids), is not below the
    exact value where that is known (one step), nor above RDP; RDP lies between Opacus (exact) and dp_accounting."""
    draw = random.Random(seed)
    failed, worst, kinds = 0, 0, ["gaussian"] * 6 + ["one step", "laplace", "discrete_gaussian", "discrete_laplace", "randomized_response", "group", "replace"]

    def ask(*options):
        answer = subprocess.run([program, "privacy", "account", *map(str, options), "--json"], capture_output=True, text=True)
        if answer.returncode != 0:
            raise RuntimeError(answer.stderr.strip())
        return json.loads(answer.stdout)

    for case in range(count):
        kind = kinds[case % len(kinds)]
        q, s, delta = draw.choice([1, 10 ** draw.uniform(-5, 0), 10 ** draw.uniform(-5, 0)]), 10 ** draw.uniform(-1, 2), 10 ** draw.uniform(-10, -3)
        steps = int(10 ** draw.uniform(0, 6))
        fail, lower, upper, more = [], None, None, ""
        common = ["--delta", delta, "--noise", s]
        if kind == "gaussian":
            ours = ask(*common, "--sampling-rate", q, "--steps", steps)
            reference, exact = dpa_rdp(q, s, steps, delta), opacus_rdp(q, s, steps, delta)
            more = f", rdp {ours['epsilon_rdp']:.6g} ({exact:.6g} .. {reference:.6g})"
            if not ours["epsilon_rdp"] <= reference * (1 + 1e-3) + 1e-12:
                fail.append("rdp above dp_accounting")
            if math.isfinite(exact) and ours["epsilon_rdp"] < exact * (1 - 1e-6) - 1e-12 and exact < 0.99 * reference:
                fail.append("rdp below Opacus")
            elif math.isfinite(exact) and ours["epsilon_rdp"] < exact * (1 - 1e-4) - 1e-9:
                fail.append("rdp below Opacus")
            if reference < 40:
                upper, lower, prv = gaussian_pld(q, s, steps, delta), gaussian_pld(q, s, steps, delta, upper=False), opacus_prv(q, s, steps, delta)
                more += f", Opacus PRV {prv}"
                if prv is not None and not prv - 0.03 <= ours["epsilon"] <= prv + 0.005:
                    fail.append("pld and Opacus PRV")
        elif kind == "one step":
            ours = ask(*common, "--sampling-rate", q)
            lower = exact_gaussian(q, s, delta)
            upper = lower * (1 + 1e-4) + 1e-4
            if ours["epsilon"] < lower * (1 - 1e-12):
                fail.append("below the exact value")
        elif kind == "group":
            steps, q, group = min(steps, 2000), min(q, 0.5), draw.randint(2, 6)
            s = max(s, 1.0)
            ours = ask("--delta", delta, "--noise", s, "--sampling-rate", q, "--steps", steps, "--group", group)
            upper = float(pldlib.from_mixture_gaussian_mechanism(s, list(range(group + 1)), list(binom.pmf(range(group + 1), group, q)))
                          .self_compose(steps).get_epsilon_for_delta(delta))
            more = f", group {group}"
        elif kind == "replace":
            ours = ask(*common, "--sampling-rate", q, "--steps", steps, "--adjacency", "replace")
            if ours["epsilon"] < 40:
                upper = gaussian_pld(q, s, steps, delta, REPLACE)
        else:
            steps = min(steps, 2000)
            if kind == "randomized_response":
                s, buckets = draw.uniform(0.05, 1), draw.randint(2, 20)
                ours = ask("--mechanism", kind, "--delta", delta, "--noise", s, "--steps", steps, "--buckets", buckets)
                step = pldlib.from_randomized_response(s, buckets)
            else:
                s = max(s, 0.5)
                ours = ask("--mechanism", kind, "--delta", delta, "--noise", s, "--steps", steps, *(["--sampling-rate", q] if kind == "laplace" else []))
                step = (pldlib.from_laplace_mechanism(s, sampling_prob=q) if kind == "laplace" else pldlib.from_discrete_gaussian_mechanism(s)
                        if kind == "discrete_gaussian" else pldlib.from_discrete_laplace_mechanism(1 / s))
            upper = float(step.self_compose(steps).get_epsilon_for_delta(delta))
        pld = ours["epsilon"]
        if "epsilon_rdp" in ours and pld > ours["epsilon_rdp"] * 1.001 + 1e-3:
            fail.append("pld above rdp")
        if upper is not None and math.isfinite(upper):
            worst = max(worst, pld - upper)
            if pld > upper + 0.005:
                fail.append("pld above dp_accounting")
        if lower is not None and pld < lower - 1e-3:
            fail.append("pld below the lower bound")
        failed += bool(fail)
        print(f"{kind}: q={q:.4g} s={s:.4g} T={steps} delta={delta:.2g}: pld {pld:.6g} ({lower} .. {upper}){more}",
              "FAILED: " + ", ".join(fail) if fail else "", flush=True)
    print(f"{count} cases, {failed} failed; largest PLD above its reference: {worst:.2g}")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) >= 2 and sys.argv[1] == "golden":
        golden()
    elif len(sys.argv) >= 3 and sys.argv[1] == "compare":
        sys.exit(compare(sys.argv[2], *(int(x) for x in (sys.argv[3:5] + ["100", "1"][len(sys.argv[3:5]):]))))
    else:
        sys.exit(__doc__)
