#!/usr/bin/env python3
"""DP-SGD on DistilBERT with LoRA: Chorus against Opacus, and each against its own training without privacy.

    python3 bench/peers/opacus_dp_sgd.py --chorus build/chorus --device cuda
    python3 bench/peers/opacus_dp_sgd.py --width 128 --layers 2 --batch 8 --length 32 --steps 3       # a quick trial on a CPU

One client, DistilBERT's size (6 layers of 768, random weights; --width and --layers make it smaller), LoRA of rank 8 on
queries and values, texts of exactly --length tokens, batches of --batch examples (Chorus: Poisson samples of that size on
average; Opacus: fixed, which favours it). Opacus runs with its gradients per sample and with its ghost clipping. Reports
milliseconds per optimizer step, the median of --repeats rounds after --warm of them, for all programs on the same device
in the same call, and the two ratios that matter: private / plain of Chorus, and the faster of Opacus / private of Chorus.
Needs torch, transformers and opacus, which is pure Python: for a machine without a network, carry a folder along:

    pip install --no-deps --target build/opacus opacus==1.6.0 opt_einsum && rm -r build/opacus/opacus/tests
    python3 bench/peers/opacus_dp_sgd.py --opacus build/opacus ...
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

RANK, LABELS = 8, 4


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", default="build/chorus")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--opacus", help="folder to import opacus from")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--repeats", type=int, default=3, help="rounds that are measured")
    parser.add_argument("--warm", type=int, default=1, help="rounds before them")
    parser.add_argument("--precision", nargs="+", default=["float32"], choices=["float32", "tf32", "bfloat16"])
    parser.add_argument("--width", type=int, default=768, help="of a layer; a multiple of 64")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--tuning", default="lora", choices=["lora", "full"])
    parser.add_argument("--json", help="write the numbers to this file")
    parser.add_argument("--only", choices=["chorus", "opacus"])
    return parser.parse_args()


def write_data(folder, examples, length):
    """Texts that are longer than any row, so that all rows have the same length."""
    words = [word.strip() for word in (pathlib.Path("models/chorus-mini") / "vocab.txt").read_text().splitlines()]
    words = [word for word in words if word.isalpha() and len(word) > 2]
    draw = random.Random(1)
    path = folder / "train.jsonl"
    with path.open("w") as out:
        for i in range(examples):
            text = " ".join(draw.choice(words) for _ in range(length + 8))
            out.write(json.dumps({"text": text, "label": f"topic{i % LABELS}"}) + "\n")
    return path


def chorus(args, precision, folder, private):
    data = write_data(folder, args.batch * 16, args.length)
    settings = {
        "kind": "experiment", "name": "bench", "seed": 1, "device": args.device,
        "data": {"train": [str(data)], "test": [str(data)]},
        "task": {"name": "text_classification", "max_length": args.length},
        "model": {"tokenizer": "models/chorus-mini",
                  "fresh": {"model_type": "distilbert", "dim": str(args.width), "n_layers": str(args.layers), "n_heads": str(args.width // 64),
                            "hidden_dim": str(4 * args.width), "max_position_embeddings": "512"}},
        "tuning": {"name": "lora", "rank": RANK} if args.tuning == "lora" else {"name": "full"},
        "clients": {"count": 1, "partition": {"name": "iid"}},
        "algorithm": "fedavg", "rounds": args.repeats + args.warm, "clients_per_round": 1,
        "trainer": {"steps": args.steps, "batch_size": args.batch, "optimizer": "adamw", "learning_rate": 1e-3, "clip": 0,
                    "precision": precision},
        "evaluation": {"every": 0, "examples": 8},
    }
    if private:
        settings["trainer"]["privacy"] = {"clip": 1, "noise": 1, "copy": "none"}
    name = f"{'private' if private else 'plain'}-{precision}"
    config = folder / f"{name}.yaml"
    config.write_text(json.dumps(settings))
    run = folder / name
    subprocess.run([args.chorus, "run", str(config), "--run-folder", str(run)], check=True, stdout=subprocess.DEVNULL)
    seconds = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "round":
            seconds.append(event["training_seconds"] / event["steps"])
    return 1000 * statistics.median(seconds[args.warm:])


def without_accountants():
    """Opacus' package imports its accountants, which need scipy; the training does not."""
    import importlib.util
    import types
    if "opacus" not in sys.modules:
        package = types.ModuleType("opacus")
        package.__path__ = list(importlib.util.find_spec("opacus").submodule_search_locations)
        sys.modules["opacus"] = package


def opacus(args, precision, mode):
    """mode: plain (no privacy), samples (a gradient per sample) or ghost (norms first, then a weighted backward pass)."""
    if args.opacus:
        sys.path.insert(0, args.opacus)
    import torch
    import transformers
    from torch import nn
    transformers.logging.set_verbosity_error()
    warnings.filterwarnings("ignore")

    class Lora(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear, self.scale = linear, 16 / RANK
            self.a, self.b = nn.Linear(linear.in_features, RANK, bias=False), nn.Linear(RANK, linear.out_features, bias=False)
            nn.init.zeros_(self.b.weight)

        def forward(self, x):
            return self.linear(x) + self.b(self.a(x)) * self.scale

    torch.manual_seed(1)
    config = transformers.DistilBertConfig(vocab_size=8000, dim=args.width, n_layers=args.layers, n_heads=args.width // 64,
                                           hidden_dim=4 * args.width, max_position_embeddings=512,
                                           num_labels=LABELS)
    model = transformers.DistilBertForSequenceClassification(config)
    lora = args.tuning == "lora"
    model.requires_grad_(not lora)
    model.classifier.requires_grad_(True)
    for layer in model.distilbert.transformer.layer if lora else []:
        layer.attention.q_lin, layer.attention.v_lin = Lora(layer.attention.q_lin), Lora(layer.attention.v_lin)
        for part in (layer.attention.q_lin, layer.attention.v_lin):
            part.a.requires_grad_(True)
            part.b.requires_grad_(True)
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    model = model.to(device).train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    wrapped = model
    if mode != "plain":
        without_accountants()
        from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping
        promise = dict(noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=args.batch)
        if mode == "samples":
            wrapped, optimizer = GradSampleModule(model), DPOptimizer(optimizer, **promise)
        else:
            wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True)
            optimizer = DPOptimizerFastGradientClipping(optimizer, **promise)
    ids = torch.randint(5, 8000, (args.batch, args.length), device=device)
    labels = torch.randint(0, LABELS, (args.batch,), device=device)
    mask = torch.ones_like(ids)

    def step():
        with torch.autocast(args.device, dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            logits = wrapped(input_ids=ids, attention_mask=mask).logits
        if mode == "ghost":
            each = nn.functional.cross_entropy(logits.float(), labels, reduction="none")
            DPTensorFastGradientClipping(wrapped, optimizer, each).backward()
        else:
            nn.functional.cross_entropy(logits.float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times = []
    for _ in range(args.repeats + args.warm):
        if args.device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(args.steps):
            step()
        if args.device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / args.steps)
    return 1000 * statistics.median(times[args.warm:])


def measure(args, precision, folder):
    rows = {}
    work = []
    if args.only != "opacus":
        work += [("chorus plain", lambda: chorus(args, precision, folder, False)),
                 ("chorus private", lambda: chorus(args, precision, folder, True))]
    if args.only != "chorus":
        work += [("torch plain", lambda: opacus(args, precision, "plain")), ("opacus", lambda: opacus(args, precision, "samples")),
                 ("opacus ghost", lambda: opacus(args, precision, "ghost"))]
    for name, run in work:
        try:
            rows[name] = run()
        except Exception as error:  # one that fails does not cost the others their numbers
            print(f"{name} ({precision}) failed: {error}", file=sys.stderr, flush=True)
    return rows


def main():
    args = options()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision in args.precision:
            results[precision] = rows = measure(args, precision, pathlib.Path(folder))
            for name, milliseconds in rows.items():
                print(f"{name:16} {milliseconds:10.2f} ms per step of {args.batch} x {args.length} tokens ({args.device}, {precision})")
            if {"chorus private", "chorus plain"} <= set(rows):
                print(f"chorus private / chorus plain   {rows['chorus private'] / rows['chorus plain']:.2f} (wanted: at most 3)")
            peers = [rows[name] for name in ("opacus", "opacus ghost") if name in rows]
            if peers and "chorus private" in rows:
                print(f"opacus / chorus private         {min(peers) / rows['chorus private']:.2f} (wanted: at least 3)")
            sys.stdout.flush()
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps({"arguments": vars(args), "milliseconds": results}, indent=1) + "\n")
    return 0 if all(rows for rows in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
