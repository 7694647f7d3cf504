#!/usr/bin/env python3
"""Rounds of personalized and fair methods on quadratics, with numpy in float64: tests/golden/personal_rounds.json.

    python3 tests/golden/make_personal_rounds.py > tests/golden/personal_rounds.json

Client k has F_k(w) = a/2 |w - b|^2 (b = target + coordinate / 10). "model" is the server's after each of three rounds,
"own" the clients' models after the third. Step by step as the papers write it: Li et al. 2021 (Ditto), T Dinh et al.
2020 (pFedMe), Fallah et al. 2020 (Per-FedAvg; the Hessian of a quadratic is a), Arivazhagan et al. 2019 (FedPer),
Liang et al. 2020 (LG-FedAvg), Collins et al. 2021 (FedRep), Deng et al. 2020 (APFL), Li et al. 2020 (q-FedAvg), Mohri
et al. 2019 (AFL), Kirkpatrick et al. 2017 (EWC, online), Ghosh et al. 2020 (IFCA), Sattler et al. 2020 (clusters by
the direction of updates), Diao et al. 2021 (HeteroFL), Horvath et al. 2021 (FjORD's ordered dropout). LwF (Li and Hoiem 2016) needs predictions: its clients are the
linear classifiers of tests/contract/linear_clients.h. Needs numpy.
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


def clustered(warm_up=2):
    """Two rounds of FedAvg, two groups by the cosine of the clients' second updates, three rounds within the groups."""
    w = W0.copy()
    for _ in range(warm_up):
        updates = np.stack([descend(k, w, STEPS[k]) - w for k in range(3)])
        w = w + (SHARE * updates).sum(0)
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    cosines = unit @ unit.T
    # Of three clients the two with the largest cosine become one group, whatever the linkage.
    a, b = max(((0, 1), (0, 2), (1, 2)), key=lambda pair: cosines[pair])
    groups = sorted([[a, b], [3 - a - b]])
    models, out = [w.copy(), w.copy()], []
    for _ in range(3):
        models = [sum(N[k] * descend(k, model, STEPS[k]) for k in group) / sum(N[k] for k in group)
                  for model, group in zip(models, groups)]
        out.append([model.tolist() for model in models])
    return {"models": out, "members": [next(g for g in (0, 1) if k in groups[g]) for k in range(3)]}


def heterofl(sizes=(2, 4, 3)):
    """Client k trains the first sizes[k] elements; an element is the mean over the clients that have it."""
    def step(w):
        top, bottom = np.zeros(4), np.zeros(4)
        for k, size in enumerate(sizes):
            has = np.arange(4) < size
            top += N[k] * has * descend(k, w, STEPS[k], moving=has)
            bottom += N[k] * has
        return top / bottom

    return rounds(step, lambda k, w: w)


def mean_of_parts(w, parts):
    """One round in which client k trains the elements parts[k]; one that nobody has stays."""
    top, bottom = np.zeros(4), np.zeros(4)
    for k, part in enumerate(parts):
        has = np.isin(np.arange(4), part)
        top += N[k] * has * descend(k, w, STEPS[k], moving=has)
        bottom += N[k] * has
    return np.where(bottom > 0, top / np.maximum(bottom, 1), w)


def fjord():
    """One round from W0 for whatever the three clients draw: the first 2; 2 or 3; 2, 3 or 4 elements."""
    draws = [(2, b, c) for b in (2, 3) for c in (2, 3, 4)]
    return {"sizes": draws, "model": [mean_of_parts(W0, [range(size) for size in draw]).tolist() for draw in draws]}


def by_depth(parts):
    """Two layers of two elements."""
    return rounds(lambda w: mean_of_parts(w, parts), lambda k, w: w)


def replay(kept=3):
    """Two segments of two rounds. Client k has 4, 6 and 10 examples of target b in the first segment, as many of target
    b + 1 in the second, and trains there on `kept` of the first ones, too."""
    fresh = np.array([4.0, 6.0, 10.0])
    w, out = W0.copy(), []
    for segment in range(2):
        old = np.full(3, kept * segment)
        centre = B + segment * (fresh / (fresh + old))[:, None]
        weights = fresh + old
        for _ in range(2):
            new = np.zeros(4)
            for k in range(3):
                x = w.copy()
                for _ in range(STEPS[k]):
                    x = x - LR * A[k] * (x - centre[k])
                new += weights[k] * x
            w = new / weights.sum()
            out.append(w.tolist())
    return {"model": out}


def lwf(weight=0.7, heat=2.0, rate=1.0):
    """Two segments of two rounds; the teacher is where a client's training of the first one ended."""
    sizes, steps = np.array([6, 9, 15]), [2, 5, 9]
    i, j = np.arange(15)[:, None], np.arange(3)[None, :]
    x = [np.sin(1 + 3 * i[:n] + 7 * j + 11.0 * k).astype(np.float32).astype(np.float64) for k, n in enumerate(sizes)]
    y = [np.eye(3)[(np.arange(n) + k) % 3] for k, n in enumerate(sizes)]

    def softmax(z):
        e = np.exp(z - z.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    w, out, teachers = np.linspace(-0.3, 0.3, 9).reshape(3, 3), [], None
    for segment in range(2):
        for _ in range(2):
            ends = []
            for k in range(3):
                v = w.copy()
                for _ in range(steps[k]):
                    slope = softmax(x[k] @ v.T) - y[k]
                    if teachers is not None:  # of T^2 KL by the logits
                        slope += weight * heat * (softmax(x[k] @ v.T / heat) - softmax(x[k] @ teachers[k].T / heat))
                    v = v - rate * slope.T @ x[k] / sizes[k]
                ends.append(v)
            w = sum(n * v for n, v in zip(sizes, ends)) / sizes.sum()
            out.append(w.flatten().tolist())
        teachers = ends
    return {"model": out}


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
            "fedbn": local_parts(~HEAD),
            "local_parts": local_parts(~HEAD),
            "clustered": clustered(),
            "heterofl": heterofl(),
            "fjord": fjord(),
            "depth": by_depth([[0, 1], [0, 1, 2, 3], [0, 1]]),
            "depth and width": by_depth([[0], [0, 1, 2, 3], [0, 2]]),
            "replay": replay(),
            "lwf": lwf(),
        },
        indent=1,
    )
)
