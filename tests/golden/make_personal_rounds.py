#!/usr/bin/env python3
"""Rounds of personalized and fair methods on quadratics, with numpy in float64: tests/golden/personal_rounds.json.

    python3 tests/golden/make_personal_rounds.py > tests/golden/personal_rounds.json

Client k has F_k(w) = a/2 |w - b|^2 (b = target + coordinate / 10). "model" is the server's after each of three rounds,
"own" the clients' models after the third. Step by step as the papers write it: Li et al. 2021 (Ditto), T Dinh et al.
2020 (pFedMe), Fallah et al. 2020 (Per-FedAvg; the Hessian of a quadratic is a), Arivazhagan et al. 2019 (FedPer),
Liang et al. 2020 (LG-FedAvg), Collins et al. 2021 (FedRep), Deng et al. 2020 (APFL), Li et al. 2020 (q-FedAvg), Mohri
et al. 2019 (AFL), Kirkpatrick et al. 2017 (EWC, online), Ghosh et al. 2020 (IFCA). Needs numpy.
"""
import json

import numpy as np

A = np.array([0.5, 1.0, 2.0])[:, None]
B = np.array([-1.0, 0.5, 2.0])[:, None] + np.arange(4)[None, :] / 10
STEPS = [1, 3, 5]
N = np.array([10.0, 20.0, 70.0])
SHARE = (N / N.sum())[:, None]
LR = 0.1
W0 = np.linspace(-1, 1, 4)
HEAD = np.array([False, False, True, True])


def grad(k, w):
    return A[k] * (w - B[k])


def loss(k, w):
    return float((A[k] / 2 * (w - B[k]) ** 2).sum())


def descend(k, w, steps, pull=0.0, centre=None, moving=np.ones(4)):
    w = w.copy()
    for _ in range(steps):
        g = grad(k, w)
        if centre is not None:
            g = g + pull * (w - centre)
        w = w - LR * g * moving
    return w


def rounds(step, own):
    w, out = W0.copy(), []
    for _ in range(3):
        w = step(w)
        out.append(w.tolist())
    return {"model": out, "own": [own(k, w).tolist() for k in range(3)]}


def fedavg(w):
    return w + sum(SHARE[k] * (descend(k, w, STEPS[k]) - w) for k in range(3))


def fine_tuning():
    return rounds(fedavg, lambda k, w: descend(k, w, 2 * STEPS[k]))


def ditto(lam=0.5):
    v = [None] * 3

    def step(w):
        for k in range(3):
            v[k] = descend(k, w if v[k] is None else v[k], STEPS[k], lam, w)
        return fedavg(w)

    return rounds(step, lambda k, w: v[k])


def pfedme(lam=2.0, eta=0.05, beta=0.8, outer=3, inner=4):
    theta = [None] * 3

    def step(w):
        new = []
        for k in range(3):
            local, th = w.copy(), w.copy()
            for _ in range(outer):
                for _ in range(inner):
                    th = th - LR * (grad(k, th) + lam * (th - local))
                local = local - eta * lam * (local - th)
            theta[k] = th
            new.append(local)
        return (1 - beta) * w + beta * sum(SHARE[k] * new[k] for k in range(3))

    return rounds(step, lambda k, w: theta[k])


def per_fedavg(free, alpha=0.2, steps=3, adaptation=2):
    def step(w):
        new = []
        for k in range(3):
            x = w.copy()
            for _ in range(steps):
                g = grad(k, x - alpha * grad(k, x))
                x = x - LR * ((1 - alpha * A[k]) * g if free else g)
            new.append(x)
        return sum(SHARE[k] * new[k] for k in range(3))

    def own(k, w):
        for _ in range(adaptation):
            w = w - alpha * grad(k, w)
        return w

    return rounds(step, own)


def local_parts(own):
    """`own`: which elements are private."""
    private = [W0[own].copy() for _ in range(3)]

    def joined(k, w):
        x = w.copy()
        x[own] = private[k]
        return x

    def step(w):
        shared = np.zeros(4)
        for k in range(3):
            x = descend(k, joined(k, w), STEPS[k])
            private[k] = x[own]
            shared += SHARE[k] * x
        return np.where(own, w, shared)  # the server never sees the private part

    return rounds(step, joined)


def ifca():
    """After the warm-up, from two models: "models" after each round."""
    models = np.stack([W0 - 1, W0 + 1])
    out = []
    for _ in range(3):
        chosen = [min((0, 1), key=lambda m, k=k: loss(k, models[m])) for k in range(3)]
        new = models.copy()
        for m in (0, 1):
            mine = [k for k in range(3) if chosen[k] == m]
            if mine:
                new[m] = sum(N[k] * descend(k, models[m], STEPS[k]) for k in mine) / sum(N[k] for k in mine)
        models = new
        out.append(models.tolist())
    return {"models": out}


def fedrep(passes=2):
    private = [W0[HEAD].copy() for _ in range(3)]

    def joined(k, w):
        x = w.copy()
        x[HEAD] = private[k]
        return x

    def step(w):
        shared = np.zeros(4)
        for k in range(3):
            x = descend(k, joined(k, w), passes * STEPS[k], moving=HEAD)
            x = descend(k, x, STEPS[k], moving=~HEAD)
            private[k] = x[HEAD]
            shared += SHARE[k] * x
        return np.where(HEAD, w, shared)

    return rounds(step, joined)


def apfl(alpha=0.25, steps=4):
    v, al = [None] * 3, [alpha] * 3

    def step(w):
        new = []
        for k in range(3):
            x = w.copy()
            own = w.copy() if v[k] is None else v[k]
            a = al[k]
            for _ in range(steps):
                g = grad(k, a * own + (1 - a) * x)
                own, a, x = own - LR * a * g, min(max(a - LR * float(g @ (own - x)), 0.0), 1.0), x - LR * grad(k, x)
            v[k], al[k] = own, a
            new.append(x)
        return sum(SHARE[k] * new[k] for k in range(3))

    return rounds(step, lambda k, w: al[k] * v[k] + (1 - al[k]) * w)


def q_fedavg(q=2.0):
    def step(w):
        top, bottom = np.zeros(4), 0.0
        for k in range(3):
            d = (w - descend(k, w, STEPS[k])) / LR
            f = loss(k, w)
            top += f**q * d
            bottom += q * f ** (q - 1) * float(d @ d) + f**q / LR
        return w - top / bottom

    return rounds(step, lambda k, w: w)


def simplex(y):
    """By bisection on the shift, not by sorting."""
    low, high = min(y) - 1, max(y)
    for _ in range(200):
        shift = (low + high) / 2
        low, high = (shift, high) if np.maximum(y - shift, 0).sum() > 1 else (low, shift)
    return np.maximum(y - high, 0)


def afl(rate=0.1):
    weights = np.full(3, 1 / 3)

    def step(w):
        nonlocal weights
        losses = np.array([loss(k, w) for k in range(3)])
        new = sum(weights[k] * descend(k, w, STEPS[k]) for k in range(3)) / weights.sum()
        weights = simplex(weights + rate * losses)
        return new

    return rounds(step, lambda k, w: w)


def ewc(lam=0.1, decay=0.5):
    """Three segments of two rounds; the targets move by 1 with each."""
    important, anchor, now, end = [np.zeros(4)] * 3, [W0] * 3, [None] * 3, [None] * 3
    w, out = W0.copy(), []
    for segment in range(3):
        if segment > 0:
            for k in range(3):
                important[k], anchor[k] = decay * important[k] + now[k], end[k]
        for _ in range(2):
            new = []
            for k in range(3):
                x, squares = w.copy(), np.zeros(4)
                for _ in range(STEPS[k]):
                    g = A[k] * (x - B[k] - segment)
                    squares += g**2
                    x = x - LR * (g + lam * important[k] * (x - anchor[k]))
                now[k], end[k] = squares / STEPS[k], x
                new.append(x)
            w = sum(SHARE[k] * new[k] for k in range(3))
            out.append(w.tolist())
    return {"model": out, "own": []}


print(
    json.dumps(
        {
            "fine_tuning": fine_tuning(),
            "ditto": ditto(),
            "pfedme": pfedme(),
            "per_fedavg first order": per_fedavg(False),
            "per_fedavg Hessian-free": per_fedavg(True),
            "fedper": local_parts(HEAD),
            "lg_fedavg": local_parts(~HEAD),
            "fedrep": fedrep(),
            "apfl": apfl(),
            "q_fedavg": q_fedavg(),
            "afl": afl(),
            "ewc": ewc(),
            "ifca": ifca(),
        },
        indent=1,
    )
)
