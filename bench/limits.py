"""Measures the limits of the machine: FLOP/s of a large matmul and bytes/s of a copy.

    python bench/limits.py --device cpu --threads 2

A matmul of n x n matrices is 2 n^3 FLOP; a copy reads and writes, so it moves twice its bytes. The best of several tries.
"""
import argparse
import json
import time

import workloads


def best(work, tries, synchronize):
    seconds = []
    for _ in range(tries + 1):  # the first is a warm-up
        begin = time.perf_counter()
        work()
        synchronize()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def measure(device, threads, quick=False):
    import torch
    torch.set_num_threads(threads)
    gpu = device == "cuda"
    synchronize = torch.cuda.synchronize if gpu else lambda: None
    size = 8192 if gpu else 1024 if quick else 3072
    limits = {}
    for precision in ["float32", "tf32", "bfloat16"] if gpu else workloads.cpu_precisions():
        if gpu:
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
        a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
        out = torch.empty_like(a)
        limits[f"GFLOP/s {precision}"] = 2e-9 * size**3 / best(lambda: torch.mm(a, b, out=out), 5, synchronize)
        del a, b, out
    if gpu:
        torch.backends.cuda.matmul.allow_tf32 = False
    source = torch.ones((2**31 if gpu else 2**28) // 4, device=device)
    target = torch.empty_like(source)
    limits["GB/s copied"] = 2e-9 * source.numel() * 4 / best(lambda: target.copy_(source), 5, synchronize)
    del source, target
    if gpu:
        torch.cuda.empty_cache()
    return limits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.device, arguments.threads), indent=1))
