#!/usr/bin/env python3
"""One round of FedID (Ma et al. 2023) with PyTorch and Hugging Face in a loop over the clients, to compare with Chorus.

    python3 bench/peers/torch_fedid.py --clients 10 --steps 20 --device cuda --precision bfloat16

Each of --clients BERT-sized classifiers trains on its own data, then --steps public batches are exchanged: every client
predicts (train mode), the server makes a step on the weighted pseudo-labels and measures its loss on a query batch before and
after it, and every client makes a step on distillation and feedback; optimizers are new for every batch, as in the published
code. Random tokens, a vocabulary of 8,192 as that of models/chorus-mini. All texts have --length tokens, or with
--lengths rte as many as the sentence pairs of GLUE's RTE, truncated to --length and padded to the longest of a batch.
--write FOLDER writes texts of such lengths instead, for the same work with Chorus:

    python3 bench/peers/torch_fedid.py --write build/fedid_speed
    build/chorus run configs/distillation/fedid_speed.yaml device=cuda

Prints the seconds per round: the mean of --rounds rounds after a warm-up round. Needs torch and transformers, except for
--write.
"""
import argparse
import json
import pathlib
import random
import time


def draw_length(options, draw):
    """Tokens of a text, [CLS] and [SEP] included. The logarithms of RTE's lengths in BERT's word pieces have these moments."""
    if options.lengths == "fixed":
        return options.length
    return max(8, min(options.length, round(draw.lognormvariate(4.107, 0.523))))


def write_texts(options):
    """Texts of words that are one token each of models/chorus-mini."""
    vocabulary = pathlib.Path(__file__).resolve().parents[2] / "models/chorus-mini/vocab.txt"
    words = [w for w in vocabulary.read_text(encoding="utf-8").split("\n") if w.isascii() and w.isalpha() and len(w) > 2]
    # Per client its local batches; then the public batches, and a tenth of the public texts for queries.
    train = options.clients * options.local_steps * options.batch
    public = options.steps * options.batch * 10 // 9
    draw = random.Random(1)
    options.write.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train + public), ("test", 32)):
        with open(options.write / f"{name}.jsonl", "w", encoding="utf-8") as out:
            for i in range(count):
                text = " ".join(draw.choice(words) for _ in range(draw_length(options, draw) - 2))
                out.write(json.dumps({"text": text, "label": f"class {i % options.classes}"}) + "\n")
    print(f"{train + public} texts; public.share={public / (train + public):.6f}")


def network(options):
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(vocab_size=8192, hidden_size=options.hidden, num_hidden_layers=options.layers, num_attention_heads=options.heads,
                        intermediate_size=4 * options.hidden, num_labels=options.classes)
    return BertForSequenceClassification(config).to(options.device).train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--local-steps", type=int, default=20, help="batches of each client's own data")
    parser.add_argument("--steps", type=int, default=20, help="public batches")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lengths", default="fixed", choices=["fixed", "rte"])
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bfloat16", choices=["float32", "tf32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=pathlib.Path, help="write texts for Chorus to this folder, and do nothing else")
    options = parser.parse_args()
    if options.write:
        return write_texts(options)
    import torch
    from torch.nn.functional import cross_entropy

    torch.backends.cuda.matmul.allow_tf32 = options.precision != "float32"
    half = torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bfloat16")
    fused = {"fused": True} if options.device == "cuda" else {}

    def optimizer(model):
        return torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0, **fused)

    draw = random.Random(2)

    def tokens():
        lengths = torch.tensor([draw_length(options, draw) for _ in range(options.batch)])
        ids = torch.randint(1000, 8000, (options.batch, int(lengths.max())), device=options.device)
        if options.lengths == "fixed":
            return {"input_ids": ids}
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long().to(options.device)
        return {"input_ids": ids * mask, "attention_mask": mask}

    def labels():
        return torch.randint(options.classes, (options.batch,), device=options.device)

    server, clients = network(options), [network(options) for _ in range(options.clients)]
    weight = 1 / options.clients

    def logits(model, x):
        with half:
            return model(**x).logits.float()

    def step(model, optimize, loss):
        optimize.zero_grad(set_to_none=True)
        loss.backward()
        optimize.step()

    def one_round():
        for model in clients:
            optimize = optimizer(model)
            for _ in range(options.local_steps):
                step(model, optimize, cross_entropy(logits(model, tokens()), labels()))
        for _ in range(options.steps):
            x, query, gold = tokens(), tokens(), labels()
            with torch.no_grad():
                old = cross_entropy(logits(server, query), gold)
                answers = [logits(model, x) for model in clients]
            predicted = logits(server, x)
            step(server, optimizer(server), sum(weight * cross_entropy(predicted, z.argmax(-1)) for z in answers))
            with torch.no_grad():
                delta = old - cross_entropy(logits(server, query), gold)
            ensemble = sum(weight * z for z in answers).argmax(-1)
            for model, z in zip(clients, answers):
                mine = logits(model, x)
                step(model, optimizer(model), weight * delta * cross_entropy(mine, z.argmax(-1)) + cross_entropy(mine, ensemble))
        if options.device == "cuda":
            torch.cuda.synchronize()

    one_round()
    begin = time.perf_counter()
    for _ in range(options.rounds):
        one_round()
    print(f"{(time.perf_counter() - begin) / options.rounds:.3f} s per round")


if __name__ == "__main__":
    main()
