"""A whole federated run as a PyTorch + Hugging Face user writes it: bench/whole_run.py starts it, with a JSON of settings.

The same data, partition file, batch size, optimizer, evaluation and checkpoint of every round as `chorus run` in W8. It
does what a PyTorch user can do: a fast tokenizer in batches, training as in torch_loop.py (fused AdamW, SDPA attention,
autocast or TF32 on request), evaluation in large batches of texts of similar length without gradients, one read of the
GPU's counters per evaluation.
"""
import gzip
import json
import pathlib
import random
import sys
import time

BEGIN = time.perf_counter()
sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1])]

import torch  # noqa: E402
import transformers  # noqa: E402

import torch_loop  # noqa: E402
import workloads  # noqa: E402


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return [record["text"] for record in records], [record["label"] for record in records]


def read_clients(path):
    """Every client's training examples: indices into the training file."""
    partitions = json.loads(pathlib.Path(path).read_text())["partitions"]
    return [client["train"] for client in next(iter(partitions.values()))["clients"]]


class Run:
    def __init__(self, spec):
        self.spec, self.device, self.setting = spec, spec["device"], spec["setting"]
        transformers.logging.set_verbosity_error()
        torch.manual_seed(spec["seed"])
        texts, labels = read(f"{spec['data']}/train.jsonl.gz")
        test_texts, test_labels = read(f"{spec['data']}/test.jsonl.gz")
        number = {name: i for i, name in enumerate(sorted(set(labels)))}
        tokenizer = transformers.AutoTokenizer.from_pretrained(spec["model"])
        rows = self.encode(tokenizer, texts, [number[label] for label in labels])
        self.test = self.encode(tokenizer, test_texts, [number[label] for label in test_labels])
        if spec["test_examples"]:
            self.test = random.Random(spec["seed"]).sample(self.test, spec["test_examples"])
        self.test.sort(key=lambda row: -len(row[0]))
        clients = [[rows[i] for i in members] for members in read_clients(spec["partition"])]
        work = workloads.Workload("W8", "whole run", {}, "text_classification", clients, spec["batch_size"], "adamw",
                                  spec["learning_rate"], spec["rounds"])
        model = transformers.AutoModelForSequenceClassification.from_pretrained(spec["model"], num_labels=len(number)).float()
        self.trainer = torch_loop.Trainer(work, self.device, self.setting, model)
        self.draw = random.Random(spec["seed"])

    def encode(self, tokenizer, texts, labels):
        ids = tokenizer(texts, truncation=True, max_length=self.spec["max_length"])["input_ids"]
        return list(zip(ids, labels))

    def train(self):
        """Runs a round; returns the number of examples trained."""
        trainer, start = self.trainer, [p.detach().clone() for p in self.trainer.parameters]
        cohort = self.draw.sample([c for c in range(len(trainer.clients)) if trainer.clients[c]],
                                  self.spec["clients_per_round"])
        examples = sum(len(trainer.clients[client]) for client in cohort)
        total = [torch.zeros_like(p) for p in start]
        trainer.model.train()
        for client in cohort:
            self.put(start)
            for _ in range(self.spec["epochs"]):
                trainer.train(client)
            with torch.no_grad():
                for sum_, parameter in zip(total, trainer.parameters):
                    sum_.add_(parameter, alpha=len(trainer.clients[client]) / examples)
        self.put(total)
        trainer.synchronize()
        return examples

    @torch.no_grad()
    def put(self, values):
        for parameter, value in zip(self.trainer.parameters, values):
            parameter.copy_(value)

    @torch.inference_mode()
    def evaluate(self):
        """Accuracy and mean loss on the test examples."""
        trainer = self.trainer
        trainer.model.eval()
        size = 256 if self.device == "cuda" else 32
        right, loss = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        for at in range(0, len(self.test), size):
            rows = self.test[at:at + size]
            inputs = trainer.inputs(rows)
            with trainer.autocast():
                output = trainer.model(**inputs)
            right += (output.logits.argmax(-1) == inputs["labels"]).sum()
            loss += output.loss.float() * len(rows)
        return right.item() / len(self.test), loss.item() / len(self.test)

    def checkpoint(self, number):
        folder = pathlib.Path(self.spec["folder"])
        torch.save({"round": number, "model": self.trainer.model.state_dict(), "draw": self.draw.getstate()},
                   folder / "checkpoint.new")
        (folder / "checkpoint.new").replace(folder / "checkpoint.pt")


def timed(work, *arguments):
    begin = time.perf_counter()
    result = work(*arguments)
    return result, time.perf_counter() - begin


def main():
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    run = Run(spec)
    run.trainer.synchronize()
    parts = {"setup": time.perf_counter() - BEGIN}
    (accuracy, loss), parts["evaluation"] = timed(run.evaluate)
    parts["train"] = parts["checkpoint"] = 0.0
    rounds = []
    for number in range(1, spec["rounds"] + 1):
        entry = {}
        entry["examples"], entry["train"] = timed(run.train)
        (accuracy, loss), entry["evaluation"] = timed(run.evaluate)
        _, entry["checkpoint"] = timed(run.checkpoint, number)
        rounds.append(entry)
        for part in ("train", "evaluation", "checkpoint"):
            parts[part] += entry[part]
        print(f"round {number}: accuracy {accuracy:.4f}, loss {loss:.4f}", flush=True)
    _, parts["save"] = timed(run.trainer.model.save_pretrained, f"{spec['folder']}/model")
    pathlib.Path(spec["folder"], "report.json").write_text(
        json.dumps({"rounds": rounds, "parts": parts, "accuracy": accuracy, "loss": loss}))


if __name__ == "__main__":
    main()
