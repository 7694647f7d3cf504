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
MOMENTUM = 0.5
# The rows of the public set in the order of PublicOrder, by round and epoch; the test compares them.
ORDERS = [
    [[0, 4, 5, 7, 1, 3, 6, 2], [4, 2, 0, 3, 7, 6, 5, 1]],
    [[2, 1, 6, 7, 4, 5, 0, 3], [4, 0, 7, 3, 2, 6, 1, 5]],
]
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


def calibrated(server, own, tau, beta, gamma=0.0):
    own = [local(k, w) for k, w in enumerate(own)]
    p = [softmax(X0 @ w.T) for w in own]
    taught = softmax(X0 @ cross(server, XQ, onehot(YQ)).T)
    loss = np.array([-(taught * np.log(one)).sum(-1).mean() for one in p])
    weights = np.array(SHARE) * np.exp(-gamma * (loss - loss.min()))
    weights /= weights.sum()
    prior = sum(weight * one.mean(0) for weight, one in zip(weights, p))
    top = bottom = 0
    for share, one in zip(weights, p):
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


def fedmd(server, own, first, transfer=False):
    if first and transfer:
        own = [times(lambda v: cross(v, X0, onehot(labels(100, PUBLIC))), w) for w in own]
    if first:
        own = [local(k, w) for k, w in enumerate(own)]
    z = mean([X0 @ w.T for w in own])
    return server, [local(k, times(lambda v: mse(v, X0, z), w)) for k, w in enumerate(own)]


def cronus(server, own, rule):
    own = [local(k, w) for k, w in enumerate(own)]
    p = rule([softmax(X0 @ w.T) for w in own])
    p /= p.sum(-1, keepdims=True)  # rows of a median do not sum to 1
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


def fedid_scores(server, own, distillation):
    """FedID on the scores sin(2 + 5 i + 11 s): f(x) = w . x, the mean squared error, feedback by equation 14."""
    lr, w0 = 0.2, np.linspace(-0.3, 0.3, D)
    scores = lambda s, n: np.sin(2 + 5 * np.arange(n) + 11.0 * s).astype(np.float32).astype(np.float64)
    slope = lambda w, x, y: 2 * (x @ w - y) @ x / len(x)
    if server is W0:
        server, own = w0, [w0] * 3
    trained = []
    for k, w in enumerate(own):
        x, y = features(k, SIZES[k]), scores(k, SIZES[k])
        for _ in range(STEPS[k]):
            w = w - lr * slope(w, x, y)
        trained.append(w)
    own = trained
    for _ in range(EPOCHS):
        z = [X0 @ w for w in own]
        y = mean(z)
        server = server - lr * slope(server, X0, y)
        # theta' = theta - lr (2/n) sum_i (f_i - y_i) x_i, so dL/dy_i = lr (2/n) <v, x_i>
        s = lr * 2 / PUBLIC * X0 @ slope(server, XQ, scores(101, QUERIES))
        feed = [SHARE[k] * s @ X0 for k in range(3)]
        own = [w - lr * ((slope(w, X0, y) if distillation else 0) + feed[k]) for k, w in enumerate(own)]
    return server, own


class Net:
    """A model with momentum, whose rate falls linearly to 0 over `steps` steps."""

    def __init__(self, w, steps):
        self.w, self.v, self.steps, self.done = w.copy(), np.zeros_like(w), steps, 0

    def renew(self, steps):
        self.v, self.steps, self.done = np.zeros_like(self.w), steps, 0

    def down(self, x, slope):
        """Returns the learning rate of the step."""
        rate = LR * (1 - self.done / self.steps)
        self.v = MOMENTUM * self.v + slope.T @ x / len(x)
        self.w = self.w - rate * self.v
        self.done += 1
        return rate

    def cross(self, x, t):
        return self.down(x, t.sum(-1, keepdims=True) * softmax(x @ self.w.T) - t)


def local_with_momentum(k, w):
    x, y, v = features(k, SIZES[k]), onehot(labels(k, SIZES[k])), 0
    for _ in range(STEPS[k]):
        v = MOMENTUM * v + (softmax(x @ w.T) - y).T @ x / len(x)
        w = w - LR * v
    return w


def dropped(x):
    """What is seen with dropout."""
    return x * np.array([0.0, 1.0, 1.0])


def query_slope(w, seen):
    return (softmax(seen(XQ) @ w.T) - onehot(YQ)).T @ seen(XQ) / QUERIES


def fedid_switches(server, own, number, written, renew, dropout, batch=3):
    """FedID with momentum, a falling rate and dropout: as_published or as_written, with either of two switches."""
    seen = dropped if dropout else lambda x: x
    shards = -(-PUBLIC // batch)
    steps = EPOCHS * shards
    nets = [Net(local_with_momentum(k, w), 1 if renew else steps) for k, w in enumerate(own)]
    net = Net(server, 1 if renew else steps)
    vote = softmax if written else hard
    for step in range(steps):
        if written:
            at = step % shards * batch
            x = X0[ORDERS[number][step // shards][at : at + batch]]
        else:
            x = X0[step % shards :: shards]
        z = [seen(x) @ one.w.T for one in nets]
        if renew:
            for one in [net] + nets:
                one.renew(1)
        before = net.w
        old = -np.log(softmax(seen(XQ) @ net.w.T)[np.arange(QUERIES), YQ]).mean()
        rate = net.cross(x, mean([vote(one) for one in z]))
        delta = old + np.log(softmax(seen(XQ) @ net.w.T)[np.arange(QUERIES), YQ]).mean()
        target = mean([softmax(one) for one in z]) if written else hard(mean(z))
        if written:
            along, q = x @ query_slope(net.w, seen).T, softmax(x @ before.T)
            s = rate / len(x) * (along - (q * along).sum(-1, keepdims=True))
        for k, one in enumerate(nets):
            if written:
                p = softmax(x @ one.w.T)
                feed = SHARE[k] * p * (s - (s * p).sum(-1, keepdims=True)) * len(x)
                one.down(x, p - target + feed)
            else:
                one.cross(x, target + SHARE[k] * delta * hard(z[k]))
    return net.w, [one.w for one in nets]


def run(method, rounds=2, **options):
    server, own, out = W0, [W0.copy()] * 3, []
    for r in range(rounds):
        if method is fedmd:
            options["first"] = r == 0
        if method is fedid_switches:
            options["number"] = r
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
            "fedmd transfer": run(fedmd, transfer=True),
            "cronus": run(cronus, rule=mean),
            "cronus median": run(cronus, rule=lambda p: np.median(p, axis=0)),
            "calibrated": run(calibrated, tau=0.5, beta=2.0),
            "calibrated trust": run(calibrated, tau=0.5, beta=2.0, gamma=3.0),
            "fedid as_published": run(fedid_published, feedback=True, distillation=True, batch=3),
            "fedid no feedback": run(fedid_published, feedback=False, distillation=True, batch=3),
            "fedid no distillation": run(fedid_published, feedback=True, distillation=False, batch=3),
            "fedid as_written": run(fedid_written),
            "fedid scores": run(fedid_scores, distillation=True),
            "fedid scores, no distillation": run(fedid_scores, distillation=False),
            "published switches": run(fedid_switches, written=False, renew=True, dropout=True),
            "published, one optimizer": run(fedid_switches, written=False, renew=False, dropout=True),
            "published, no dropout": run(fedid_switches, written=False, renew=True, dropout=False),
            "written switches": run(fedid_switches, written=True, renew=False, dropout=False),
            "written, new optimizers": run(fedid_switches, written=True, renew=True, dropout=False),
            "written, dropout": run(fedid_switches, written=True, renew=False, dropout=True),
            "orders": ORDERS,
        },
        indent=1,
    )
)
