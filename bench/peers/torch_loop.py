"""The baseline: PyTorch and Hugging Face in a loop over the clients. bench/engine.py calls it.

A round: for each client copy the global weights, create an optimizer, train an epoch, add the weights to a sum; then
divide. It tries what a user can tune, and the best counts: padding to the longest of the batch, batches of similar length
(`grouped`), threads or processes on a CPU, bfloat16 autocast, TF32 on a GPU, the fused AdamW and SDPA attention where
these versions have them. Works with PyTorch 1.13 and transformers 4.30 up to PyTorch 2.11 and transformers 5.
"""
import inspect
import math
import random
import time

import numpy as np
import torch
import torch.multiprocessing as multiprocessing
from torch import nn

import workloads

NAME = "PyTorch + Hugging Face"
IGNORE = -100  # label without a loss


def settings(work, device, threads, quick):
    if work.key == "W7":  # overhead is measured in one process
        return [{"precision": "float32", "processes": 1, "threads": 1}]
    if device == "cuda":
        shapes = [{"precision": precision, "processes": 1, "threads": threads} for precision in ("float32", "tf32", "bfloat16")]
    else:
        counts = [(1, threads), (threads, 1)] if threads > 1 else [(1, 1)]
        shapes = [{"precision": precision, "processes": many, "threads": each} for precision in workloads.cpu_precisions()
                  for many, each in counts]
    return shapes + ([{**shape, "grouped": True} for shape in shapes] if work.ragged and not quick else [])


class LanguageLstm(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.embedding = nn.Embedding(network["vocab_size"], network["embedding_size"])
        self.lstm = nn.LSTM(network["embedding_size"], network["hidden_size"], network["num_layers"], batch_first=True,
                            dropout=network["dropout"])
        self.output = nn.Linear(network["hidden_size"], network["vocab_size"])

    def forward(self, input_ids, labels):
        logits = self.output(self.lstm(self.embedding(input_ids))[0])
        return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())


class Lora(nn.Module):
    """W x + (alpha / rank) B A x, as PEFT does it."""

    def __init__(self, linear, rank=8, alpha=16):
        super().__init__()
        self.linear, self.scale = linear, alpha / rank
        self.a = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.b = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        linear = nn.functional.linear
        return self.linear(x) + linear(linear(x, self.a), self.b) * self.scale


class AdapterOutput(nn.Module):
    """BertOutput with a bottleneck after the feed-forward part (Pfeiffer et al. 2021)."""

    def __init__(self, output, width=32):
        super().__init__()
        size = output.dense.out_features
        self.output, self.down, self.up = output, nn.Linear(size, width), nn.Linear(width, size)
        nn.init.zeros_(self.up.weight)

    def forward(self, hidden, residual):
        x = self.output.dropout(self.output.dense(hidden))
        y = self.output.LayerNorm(x + residual)
        return self.output.LayerNorm(x + self.up(torch.relu(self.down(y))) + residual)


def make_model(work):
    """The network; only trainable parameters require gradients, so autograd skips frozen layers below."""
    torch.manual_seed(1)
    if work.network["model_type"] == "lstm":
        return LanguageLstm(work.network)
    import transformers
    transformers.logging.set_verbosity_error()
    from workloads import LABELS
    classified = work.task == "text_classification"
    more = {"num_labels": LABELS} if classified else {}
    config = transformers.AutoConfig.for_model(**work.network, **more)
    kind = transformers.AutoModelForSequenceClassification if classified else transformers.AutoModelForCausalLM
    try:
        model = kind.from_config(config, attn_implementation="sdpa")
    except (TypeError, ValueError):  # before transformers 4.36, or not for this model
        model = kind.from_config(config)
    if work.tuning == "full":
        return model
    model.requires_grad_(False)
    model.classifier.requires_grad_(True)
    for layer in model.bert.encoder.layer if work.tuning == "lora" else model.bert.encoder.layer[-2:]:
        if work.tuning == "lora":
            attention = layer.attention.self
            attention.query, attention.value = Lora(attention.query), Lora(attention.value)
        else:
            layer.output = AdapterOutput(layer.output)
    return model


def make_optimizer(work, parameters):
    if work.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=work.learning_rate)
    more = {}
    if "fused" in inspect.signature(torch.optim.AdamW).parameters and parameters[0].is_cuda:
        more["fused"] = True
    elif "foreach" in inspect.signature(torch.optim.AdamW).parameters:
        more["foreach"] = True
    return torch.optim.AdamW(parameters, lr=work.learning_rate, weight_decay=0, **more)


class Trainer:
    """One model that trains clients sequentially."""

    def __init__(self, work, device, setting, model=None):
        torch.set_num_threads(setting["threads"])
        if device == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = setting["precision"] == "tf32"
        self.work, self.device, self.setting = work, device, setting
        self.model = (model or make_model(work)).to(device).train()
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.clients = [[(np.asarray(ids, dtype=np.int64), label) for ids, label in rows] for rows in work.clients]
        self.draw = random.Random(1)

    def batches(self, client):
        rows, size = list(self.clients[client]), self.work.batch_size
        self.draw.shuffle(rows)
        if self.setting.get("grouped"):
            rows.sort(key=lambda row: len(row[0]))
        batches = [rows[at:at + size] for at in range(0, len(rows), size)]
        if self.setting.get("grouped"):
            self.draw.shuffle(batches)
        return batches

    def inputs(self, rows):
        """A padded batch in the form that the model takes."""
        longest = max(len(ids) for ids, _ in rows)
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for i, (row, _) in enumerate(rows):
            ids[i, :len(row)], mask[i, :len(row)] = row, 1
        inputs = {"input_ids": self.tensor(ids)}
        if self.work.task == "text_classification":
            inputs.update(attention_mask=self.tensor(mask), labels=self.tensor(np.array([label for _, label in rows])))
        else:  # earlier tokens cannot attend to padding, so a causal language model needs no mask
            inputs["labels"] = self.tensor(np.where(mask, ids, IGNORE))
        return inputs

    def autocast(self):
        return torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.setting["precision"] == "bfloat16")

    def loss(self, rows):
        inputs = self.inputs(rows)
        with self.autocast():
            output = self.model(**inputs)
        return output if torch.is_tensor(output) else output.loss

    def tensor(self, array):
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device == "cuda" else tensor

    def train(self, client):
        optimizer = make_optimizer(self.work, self.parameters)
        for rows in self.batches(client):
            self.loss(rows).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def train_some(self, start, clients, total):
        """Trains from `start`, adds weight x result to `total`; returns the seconds of training alone."""
        seconds = 0.0
        for client in clients:
            with torch.no_grad():
                for parameter, value in zip(self.parameters, start):
                    parameter.copy_(value)
            if self.work.key == "W7":
                self.synchronize()
            begin = time.perf_counter()
            self.train(client)
            if self.work.key == "W7":
                self.synchronize()
            seconds += time.perf_counter() - begin
            weight = len(self.clients[client]) / self.work.examples
            with torch.no_grad():
                for parameter, value in zip(self.parameters, total):
                    value.add_(parameter, alpha=weight)
        return seconds


def one_process(work, device, setting):
    trainer = Trainer(work, device, setting)
    start = [p.detach().clone() for p in trainer.parameters]
    total = [torch.zeros_like(p) for p in start]
    measured = []
    for _ in range(work.rounds):
        trainer.synchronize()
        begin = time.perf_counter()
        training = trainer.train_some(start, range(len(work.clients)), total)
        start, total = total, start
        for value in total:
            value.zero_()
        trainer.synchronize()
        measured.append({"seconds": time.perf_counter() - begin, "training_seconds": training})
    assert all(bool(torch.isfinite(value).all()) for value in start), "the peer's weights are not finite"
    return measured


def work_for(pipe, work, setting, clients, start, total):
    """A process of `several_processes`: trains its clients on request."""
    trainer = Trainer(work, "cpu", setting)
    pipe.send([tuple(p.shape) for p in trainer.parameters])
    while pipe.recv():
        pipe.send(trainer.train_some(start, clients, total))


def several_processes(work, setting):
    """Each process has its own model and trains its share of the clients; weights travel through shared memory."""
    spawn = multiprocessing.get_context("spawn")
    model = make_model(work)
    start = [p.detach().clone().share_memory_() for p in model.parameters() if p.requires_grad]
    del model
    count = min(setting["processes"], len(work.clients))
    by_size = sorted(range(len(work.clients)), key=lambda client: -len(work.clients[client]))
    workers = []
    for i in range(count):
        total = [torch.zeros_like(p).share_memory_() for p in start]
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=work_for, args=(theirs, work, setting, by_size[i::count], start, total), daemon=True)
        process.start()
        workers.append((process, ours, total))
    for _, pipe, _ in workers:
        pipe.recv()
    measured = []
    for _ in range(work.rounds):
        begin = time.perf_counter()
        for _, pipe, _ in workers:
            pipe.send(True)
        training = sum(pipe.recv() for _, pipe, _ in workers)
        for i, value in enumerate(start):
            value.zero_()
            for _, _, total in workers:
                value.add_(total[i])
                total[i].zero_()
        measured.append({"seconds": time.perf_counter() - begin, "training_seconds": training})
    for process, pipe, _ in workers:
        pipe.send(False)
        process.join()
    return measured


def rounds(work, device, setting):
    """Seconds of each round after the first."""
    measured = one_process(work, device, setting) if setting["processes"] == 1 else several_processes(work, setting)
    if device == "cuda":
        torch.cuda.empty_cache()
    return measured[1:]
