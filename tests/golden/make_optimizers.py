#!/usr/bin/env python3
"""Steps of PyTorch's and Hugging Face's optimizers and schedules: tests/golden/optimizers.json.

    python3 tests/golden/make_optimizers.py > tests/golden/optimizers.json

A matrix [3, 4] and a vector [5] start at known values; the gradient of step t is sin(k + t) for the k-th element, matrix
first. Needs torch and transformers.
"""
import json
import math

import torch

from transformers.optimization import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

try:
    from transformers.optimization import Adafactor
except ImportError:
    from transformers import Adafactor


def start():
    matrix = torch.tensor([[0.1 * (i * 4 + j) - 0.5 for j in range(4)] for i in range(3)], requires_grad=True)
    vector = torch.tensor([0.3 - 0.2 * i for i in range(5)], requires_grad=True)
    return matrix, vector


def steps(make, count=6):
    matrix, vector = start()
    optimizer = make([matrix, vector])
    out = []
    for t in range(count):
        flat = torch.tensor([math.sin(k + t) for k in range(17)])
        matrix.grad, vector.grad = flat[:12].reshape(3, 4).clone(), flat[12:].clone()
        optimizer.step()
        out.append([float(x) for x in torch.cat([matrix.detach().flatten(), vector.detach()])])
    return out


def schedule(make, count):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimizer)
    out = []
    for _ in range(count):
        out.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return out


print(
    json.dumps(
        {
            "sgd": steps(lambda p: torch.optim.SGD(p, lr=0.05)),
            "sgd momentum decay": steps(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1)),
            "sgd nesterov": steps(lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True)),
            "adamw": steps(lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1)),
            "adafactor": steps(lambda p: Adafactor(p, lr=0.05, relative_step=False, scale_parameter=False)),
            "adafactor scaled decay": steps(
                lambda p: Adafactor(p, lr=0.05, relative_step=False, scale_parameter=True, weight_decay=0.1)
            ),
            "linear": schedule(lambda o: get_linear_schedule_with_warmup(o, 0, 10), 10),
            "cosine": schedule(lambda o: get_cosine_schedule_with_warmup(o, 0, 10), 10),
        },
        indent=1,
    )
)
