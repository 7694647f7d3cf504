#!/usr/bin/env python3
"""Rounds of federated distillation on a linear classifier, with numpy in float64: tests/golden/distillation_rounds.json.

    python3 tests/golden/make_distillation_rounds.py > tests/golden/distillation_rounds.json

The world is that of tests/contract/linear_clients.h: f(x) = W x, gradient descent with a learning rate of 1 on the mean
cross-entropy; client s has examples x_ij = sin(1 + 3 i + 7 j + 11 s) with labels (i + s) mod 3. Every gradient is written
down here by hand. Equation 14 of FedID (Ma et al. 2023) is computed exactly, by the chain rule, not by differences. Needs
numpy.
"""
import json

import numpy as np

K = D = 3
SIZES, STEPS = [6, 9, 15], [2, 5, 9]
LR, PUBLIC, QUERIES, EPOCHS = 1.0, 8, 5, 2
W0 = np.linspace(-0.3, 0.3, K * D).reshape(K, D)
SHARE = np.array(SIZES) / sum(SIZES)


def features(s, n):
    i, j = np.arange(n)[:, None], np.arange(D)[None, :]
    return np.sin(1 + 3 * i + 7 * j + 11.0 * s).astype(np.float32).astype(np.float64)


def labels(s, n):
    return (np.arange(n) + s) % K


X0, XQ, YQ = features(100, PUBLIC), features(101, QUERIES), labels(101, QUERIES)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def onehot(y):
    return np.eye(K)[y]


def down(w, x, slope):
    """One step, where `slope` [n, K] is the derivative of the mean loss times n by the logits."""
    return w - LR * slope.T @ x / len(x)


def cross(w, x, t):
    """One step on - sum_c t_c log softmax_c, for targets of any sum."""
    return down(w, x, t.sum(-1, keepdims=True) * softmax(x @ w.T) - t)


def kl(w, x, z, heat):
    """One step on T^2 KL(softmax(z / T) || softmax(f / T))."""
    return down(w, x, heat * (softmax(x @ w.T / heat) - softmax(z / heat)))


def mse(w, x, z):
    """One step on the mean over rows and classes of (f - z)^2."""
    return down(w, x, 2 * (x @ w.T - z) / K)


def local(k, w):
    x, y = features(k, SIZES[k]), onehot(labels(k, SIZES[k]))
    for _ in range(STEPS[k]):
        w = cross(w, x, y)
    return w


def mean(z):
    return sum(share * one for share, one in zip(SHARE, z))


def times(step, w):
    for _ in range(EPOCHS):
        w = step(w)
    return w


def hard(z):
    return onehot(z.argmax(-1))


def ds_fl(server, own, soft, heat):
    own = [local(k, w) for k, w in enumerate(own)]
    z = mean([X0 @ w.T for w in own]) / heat
    target = softmax(z) if soft else hard(z)
    learn = lambda w: times(lambda v: cross(v, X0, target), w)
    return learn(server), [learn(w) for w in own]


def mhat(server, own, soft):
    vote = softmax if soft else hard
    own = [local(k, w) for k, w in enumerate(own)]
    votes = mean([vote(X0 @ w.T) for w in own])
    server = times(lambda v: cross(v, X0, votes), server)
    target = vote(X0 @ server.T)
    return server, [times(lambda v: cross(v, X0, target), w) for w in own]


def pate(server, own):
    """DS-FL with votes: the label with most weight."""
    own = [local(k, w) for k, w in enumerate(own)]
    target = hard(mean([hard(X0 @ w.T) for w in own]))
    learn = lambda w: times(lambda v: cross(v, X0, target), w)
    return learn(server), [learn(w) for w in own]


def calibrated(server, own, tau, beta):
    own = [local(k, w) for k, w in enumerate(own)]
    p = [softmax(X0 @ w.T) for w in own]
    prior = mean([one.mean(0) for one in p])
    top = bottom = 0
    for share, one in zip(SHARE, p):
        q = one * (prior / one.mean(0)) ** tau
        q /= q.sum(-1, keepdims=True)
        sure = (1 + (q * np.log(q)).sum(-1, keepdims=True) / np.log(K)) ** beta
        top, bottom = top + share * sure * q, bottom + share * sure
    server = times(lambda v: cross(v, X0, top / bottom), server)
    server = cross(server, XQ, onehot(YQ))  # one local step on the query set
    target = softmax(X0 @ server.T)
    return server, [times(lambda v: cross(v, X0, target), w) for w in own]


def fedkd(server, own):
    own = [local(k, w) for k, w in enumerate(own)]
    z = mean([X0 @ w.T for w in own])
    return times(lambda v: mse(v, X0, z), server), own


def feded(server, own, heat):
    z = mean([X0 @ local(k, server).T for k in range(3)])
    return times(lambda v: kl(v, X0, z, heat), server), own


def feddf(server, own, heat):
    trained = [local(k, server) for k in range(3)]
    z = mean([X0 @ w.T for w in trained])
    return times(lambda v: kl(v, X0, z, heat), mean(trained)), own


def fedmd(server, own, first):
    if first:
        own = [local(k, w) for k, w in enumerate(own)]
    z = mean([X0 @ w.T for w in own])
    return server, [local(k, times(lambda v: mse(v, X0, z), w)) for k, w in enumerate(own)]


def cronus(server, own):
    own = [local(k, w) for k, w in enumerate(own)]
    p = mean([softmax(X0 @ w.T) for w in own])
    return server, [times(lambda v: cross(v, X0, p), w) for w in own]


def query_loss(w):
    return -np.log(softmax(XQ @ w.T)[np.arange(QUERIES), YQ]).mean()


def fedid_published(server, own, feedback, distillation, batch):
    own = [local(k, w) for k, w in enumerate(own)]
    shards = -(-PUBLIC // batch)
    for step in range(EPOCHS * shards):
        x = X0[step % shards :: shards]
        z = [x @ w.T for w in own]
        old = query_loss(server)
        server = cross(server, x, mean([hard(one) for one in z]))
        delta = old - query_loss(server) if feedback else 0.0
        target = hard(mean(z)) if distillation else np.zeros_like(z[0])
        own = [cross(w, x, target + SHARE[k] * delta * hard(z[k])) for k, w in enumerate(own)]
    return server, own


def fedid_written(server, own):
    own = [local(k, w) for k, w in enumerate(own)]
    for _ in range(EPOCHS):
        p = [softmax(X0 @ w.T) for w in own]
        y = mean(p)
        before, server = server, cross(server, X0, y)
        # v = grad of the query loss at the new model; dL/dy_ic = (lr / n) <v, grad log softmax(f(x_i))_c at the old one>.
        v = (softmax(XQ @ server.T) - onehot(YQ)).T @ XQ / QUERIES
        along = X0 @ v.T  # [n, K]: derivative of the logits in direction v
        q = softmax(X0 @ before.T)
        s = LR / PUBLIC * (along - (q * along).sum(-1, keepdims=True))
        new = []
        for k, w in enumerate(own):
            distill = p[k] - y
            # gradient of w_k sum_ic s_ic p_ic by the logits; `down` divides by n
            feed = SHARE[k] * p[k] * (s - (s * p[k]).sum(-1, keepdims=True)) * PUBLIC
            new.append(down(w, X0, distill + feed))
        own = new
    return server, own


def run(method, rounds=2, **options):
    server, own, out = W0.copy(), [W0.copy()] * 3, []
    for r in range(rounds):
        if method is fedmd:
            options["first"] = r == 0
        server, own = method(server, own, **options)
        out.append({"server": server.flatten().tolist(), "clients": [w.flatten().tolist() for w in own]})
    return out


print(
    json.dumps(
        {
            "ds_fl hard": run(ds_fl, soft=False, heat=0.1),
            "ds_fl soft": run(ds_fl, soft=True, heat=0.5),
            "ds_fl votes": run(pate),
            "mhat hard": run(mhat, soft=False),
            "mhat soft": run(mhat, soft=True),
            "fedkd": run(fedkd),
            "feded": run(feded, heat=2.0),
            "feddf": run(feddf, heat=1.0),
            "fedmd": run(fedmd),
            "cronus": run(cronus),
            "calibrated": run(calibrated, tau=0.5, beta=2.0),
            "fedid as_published": run(fedid_published, feedback=True, distillation=True, batch=3),
            "fedid no feedback": run(fedid_published, feedback=False, distillation=True, batch=3),
            "fedid no distillation": run(fedid_published, feedback=True, distillation=False, batch=3),
            "fedid as_written": run(fedid_written),
        },
        indent=1,
    )
)
