#!/usr/bin/env python3
"""Robust aggregation rules in numpy, float64: tests/golden/robust.json.

    python3 tests/golden/make_robust.py > tests/golden/robust.json

Written from the papers: Yin et al. 2018 (median, trimmed mean), Blanchard et al. 2017 (Krum), El Mhamdi et al. 2018
(Bulyan), Sun et al. 2019 (norm bounding), Karimireddy et al. 2021 (centred clipping), Cao et al. 2021 (FLTrust), Allouah et
al. 2023 (nearest-neighbour mixing). The spectral filter uses an SVD of the centred rows. The geometric median is found by Newton's method on
sum_i |v - x_i|, not by Weiszfeld's iteration. Inputs are multiples of 1/64, exact in float32. The inputs "ties" have many
equal values and equal rows. Needs numpy.
"""
import json

import numpy as np


def trimmed(x, f):
    return np.sort(x, axis=0)[f : len(x) - f].mean(0)


def scores(x, among, f):
    result = []
    for i in among:
        d = sorted(float(((x[i] - x[j]) ** 2).sum()) for j in among if j != i)
        result.append(sum(d[: max(1, len(among) - f - 2)]))
    return result


def krum(x, f, m):
    s = scores(x, range(len(x)), f)
    return x[np.argsort(s, kind="stable")[:m]].mean(0)


def bulyan(x, f):
    left, chosen = list(range(len(x))), []
    while len(chosen) < len(x) - 2 * f:
        best = left[int(np.argmin(scores(x, left, f)))]
        chosen.append(best)
        left.remove(best)
    beta = len(chosen) - 2 * f
    columns = []
    for column in x[chosen].T:
        values = np.sort(column)
        near = np.argsort(np.abs(values - np.median(values)), kind="stable")[:beta]
        columns.append(values[near].mean())
    return np.array(columns)


def spectral_filter(x, f):
    left = list(range(len(x)))
    for _ in range(f):
        centred = x[left] - x[left].mean(0)
        direction = np.linalg.svd(centred)[2][0]
        left.pop(int(np.argmax(np.abs(centred @ direction))))
    return x[left].mean(0)


def geometric_median(x):
    v = x.mean(0) + 1e-3
    objective = lambda p: np.linalg.norm(x - p, axis=1).sum()
    for _ in range(200):
        d = v - x
        r = np.linalg.norm(d, axis=1)
        u = d / r[:, None]
        gradient = u.sum(0)
        hessian = sum((np.eye(len(v)) - np.outer(a, a)) / b for a, b in zip(u, r))
        step, t = np.linalg.solve(hessian, gradient), 1.0
        while objective(v - t * step) > objective(v) and t > 1e-12:
            t /= 2
        v = v - t * step
        if np.linalg.norm(step) < 1e-13:
            break
    return v


def norm_bound(x, bound):
    norms = np.linalg.norm(x, axis=1)
    bound = bound or np.median(norms)
    return (x * np.minimum(1, bound / norms)[:, None]).mean(0)


def centred_clipping(rounds, radius, iterations):
    v = np.zeros(rounds[0].shape[1])
    for x in rounds:
        for _ in range(iterations):
            d = x - v
            r = np.linalg.norm(d, axis=1)
            tau = radius or np.median(r)
            v = v + (d * np.minimum(1, tau / np.maximum(r, 1e-300))[:, None]).mean(0)
    return v


def fltrust(x, trusted):
    reference = x[trusted]
    length = np.linalg.norm(reference)
    trust, total = 0.0, np.zeros(x.shape[1])
    for i, row in enumerate(x):
        norm = np.linalg.norm(row)
        if i == trusted or norm == 0:
            continue
        score = max(0.0, row @ reference / (norm * length))
        trust += score
        total += score * row * (length / norm)
    return total / trust


def mixed(x, f):
    return np.array([x[np.argsort(((x - row) ** 2).sum(1), kind="stable")[: len(x) - f]].mean(0) for row in x])


def main():
    random = np.random.default_rng(7)
    draw = lambda n, p: np.round(random.normal(size=(n, p)) * 64) / 64
    odd, even, second = draw(11, 6), draw(12, 5), draw(11, 6)
    odd[3] *= 40
    even[7] *= -25
    ties = random.integers(-1, 2, size=(12, 6)).astype(float)
    ties[4], ties[9] = ties[2], ties[2]
    inputs = {"odd": odd, "even": even, "ties": ties}
    cases = []
    for name, x in inputs.items():
        add = lambda rule, value: cases.append({"input": name, "rule": rule, "expected": value.tolist()})
        add({"name": "median"}, np.median(x, axis=0))
        for f in (0, 1, 3, 5):
            add({"name": "trimmed_mean", "attackers": f}, trimmed(x, f))
        for f, m in ((0, 1), (1, 1), (3, 1), (1, 4), (2, 7)):
            add({"name": "krum", "attackers": f, "keep": m}, krum(x, f, m))
        for f in (0, 1, 2):
            add({"name": "bulyan", "attackers": f}, bulyan(x, f))
        for bound in (0, 1.5):
            add({"name": "norm_bound", "bound": bound}, norm_bound(x, bound))
        for radius, iterations in ((0, 3), (0.75, 1), (0.75, 5)):
            rule = {"name": "centred_clipping", "radius": radius, "iterations": iterations}
            add(rule, centred_clipping([x], radius, iterations))
        for trusted in (0, 3, len(x) - 1):
            add({"name": "fltrust", "trusted": trusted}, fltrust(x, trusted))
        if name != "ties":
            for f in (0, 1, 3, 5):
                add({"name": "spectral_filter", "attackers": f}, spectral_filter(x, f))
            add({"name": "geometric_median", "tolerance": 0, "iterations": 2000}, geometric_median(x))
    for name, x in inputs.items():
        for f in (1, 3, 5):
            y = mixed(x, f)
            add = lambda rule, value: cases.append({"input": name, "rule": {**rule, "mixing": f}, "expected": value.tolist()})
            add({"name": "median"}, np.median(y, axis=0))
            add({"name": "trimmed_mean", "attackers": f}, trimmed(y, f))
            add({"name": "norm_bound", "bound": 0.75}, norm_bound(y, 0.75))
            add({"name": "centred_clipping", "radius": 0.75, "iterations": 5}, centred_clipping([y], 0.75, 5))
            if name != "ties":
                # Mixed rows can be equal, and Krum's scores equal up to rounding: f = 1 has neither here.
                if f == 1:
                    add({"name": "krum", "attackers": f, "keep": 1}, krum(y, f, 1))
                    add({"name": "krum", "attackers": f, "keep": 4}, krum(y, f, 4))
                    add({"name": "bulyan", "attackers": f}, bulyan(y, f))
                    add({"name": "spectral_filter", "attackers": f}, spectral_filter(y, f))
                add({"name": "geometric_median", "tolerance": 0, "iterations": 2000}, geometric_median(y))
    twice = {"input": "odd", "second": "second", "rule": {"name": "centred_clipping", "radius": 0.75, "iterations": 2}}
    twice["expected"] = centred_clipping([odd, second], 0.75, 2).tolist()
    cases.append(twice)
    inputs["second"] = second
    print(json.dumps({"inputs": {k: v.tolist() for k, v in inputs.items()}, "cases": cases}))


main()
