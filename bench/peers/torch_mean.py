"""The peer of bench/aggregation.cpp: the weighted mean of many updates as a loop of PyTorch operations, and with
Flower's NumPy code if that is installed. bench/engine.py calls it.

A few update buffers are reused, as in bench/aggregation.cpp, to save memory. Only the bytes of updates read are counted.
"""
import importlib.util
import time

import torch

BUFFERS = 4


def ways(device):
    found = {"PyTorch, sum += w * x": plain, "PyTorch, sum.add_(x, alpha=w)": in_place}
    if device == "cpu" and importlib.util.find_spec("flwr"):
        found["Flower's aggregate"] = flower
    return found


def plain(updates, count):
    total = torch.zeros_like(updates[0])
    for i in range(count):
        total += (i + 1) * updates[i % len(updates)]
    return total / (count * (count + 1) / 2)


def in_place(updates, count):
    total = torch.zeros_like(updates[0])
    for i in range(count):
        total.add_(updates[i % len(updates)], alpha=i + 1)
    return total.div_(count * (count + 1) / 2)


def flower(updates, count):
    """Flower takes all updates at once and scales each; ten at a time, to limit memory."""
    from flwr.server.strategy.aggregate import aggregate
    arrays = [update.numpy() for update in updates]
    parts = []
    for at in range(0, count, 10):
        some = range(at, min(at + 10, count))
        parts.append(([aggregate([([arrays[i % len(arrays)]], i + 1) for i in some])[0]], sum(i + 1 for i in some)))
    return torch.from_numpy(aggregate(parts)[0])


def measure(device, threads, count, size, tries=3):
    """Bytes/s of each method, the best of several tries."""
    torch.set_num_threads(threads)
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    updates = [torch.full((size,), float(i), device=device) for i in range(BUFFERS)]
    expected = sum((i + 1) * (i % BUFFERS) for i in range(count)) / (count * (count + 1) / 2)
    rates = {}
    for name, way in ways(device).items():
        seconds = []
        for _ in range(tries):
            synchronize()
            begin = time.perf_counter()
            mean = way(updates, count)
            synchronize()
            seconds.append(time.perf_counter() - begin)
            assert abs(float(mean[0]) - expected) < 1e-3, f"{name}: {float(mean[0])} instead of {expected}"
            del mean
        rates[name] = 4 * size * count / min(seconds)
    return rates
