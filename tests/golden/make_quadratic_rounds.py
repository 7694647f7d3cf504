#!/usr/bin/env python3
"""Rounds of federated methods on quadratics, computed with numpy in float64: tests/golden/quadratic_rounds.json.

    python3 tests/golden/make_quadratic_rounds.py > tests/golden/quadratic_rounds.json

Client k minimises a/2 |w - b|^2 (b = target + coordinate / 10) by gradient descent from the global model, which gives
w_k = b + (1 - lr a)^steps (w - b) in closed form. The server rules are those of the papers: McMahan et al. 2017 (FedAvg),
Li et al. 2020 (FedProx, whose step contracts towards (a b + mu w) / (a + mu)), Reddi et al. 2021, algorithm 2 (Adagrad,
Adam, Yogi, v starting at tau^2), Karimireddy et al. 2020 (SCAFFOLD, option II), Wang et al. 2020 (FedNova). Needs numpy.
"""
import json

import numpy as np

A = np.array([0.5, 1.0, 2.0])
TARGET = np.array([-1.0, 0.5, 2.0])
STEPS = np.array([1, 3, 5])
N = np.array([10.0, 20.0, 70.0])
LR = 0.1
P = 4
B = TARGET[:, None] + np.arange(P)[None, :] / 10
W0 = np.linspace(-1, 1, P)
SHARE = (N / N.sum())[:, None]


def local(w, mu=0.0):
    a = A[:, None] + mu
    centre = (A[:, None] * B + mu * w) / a
    return centre + (1 - LR * a) ** STEPS[:, None] * (w - centre)


def run(server, rounds=3, mu=0.0):
    w, state, out = W0.copy(), {}, []
    for _ in range(rounds):
        delta = local(w, mu) - w
        w = server(w, delta, state)
        out.append(w.tolist())
    return out


def mean(w, delta, state):
    return w + (SHARE * delta).sum(0)


def momentum(w, delta, state):
    state["b"] = 0.9 * state.get("b", 0) + (SHARE * delta).sum(0)
    return w + state["b"]


def adaptive(kind):
    def server(w, delta, state, lr=0.1, b1=0.9, b2=0.99, tau=1e-3):
        d = (SHARE * delta).sum(0)
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * d
        v = state.get("v", np.full(P, tau**2))
        if kind == "adagrad":
            v = v + d**2
        elif kind == "adam":
            v = b2 * v + (1 - b2) * d**2
        else:
            v = v - (1 - b2) * d**2 * np.sign(v - d**2)
        state["v"] = v
        return w + lr * m / (np.sqrt(v) + tau)

    return server


def nova(w, delta, state):
    steps = STEPS[:, None]
    return w + (SHARE * steps).sum() * (SHARE * delta / steps).sum(0)


def scaffold(rounds=3):
    w, c, own, out = W0.copy(), np.zeros(P), np.zeros((3, P)), []
    for _ in range(rounds):
        y = np.tile(w, (3, 1))
        for k in range(3):
            for _ in range(STEPS[k]):
                y[k] -= LR * (A[k] * (y[k] - B[k]) + c - own[k])
        new = own - c + (w - y) / (LR * STEPS[:, None])
        w = w + (SHARE * (y - w)).sum(0)
        c = c + (new - own).mean(0)  # every client counts once: c stays the mean of the clients' own
        own = new
        out.append(w.tolist())
    return out


def sgd(rounds=3):
    w, out = W0.copy(), []
    for _ in range(rounds):
        w = w - 0.1 * (SHARE * A[:, None] * (w - B)).sum(0)
        out.append(w.tolist())
    return out


print(
    json.dumps(
        {
            "fedavg": run(mean),
            "fedprox": run(mean, mu=0.5),
            "fedopt sgd": run(momentum),
            "fedopt adagrad": run(adaptive("adagrad")),
            "fedopt adam": run(adaptive("adam")),
            "fedopt yogi": run(adaptive("yogi")),
            "fednova": run(nova),
            "scaffold": scaffold(),
            "fedsgd": sgd(),
        },
        indent=1,
    )
)
