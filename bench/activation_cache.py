"""Measures the speed-up of the activation cache: adapters in the top 2 of 12 layers of a BERT-base-shaped network with
random weights, one client, one epoch per round, the same texts with and without the cache.

    python3 bench/activation_cache.py --chorus build/chorus

The first round of the cached run fills the cache; the ratio is of the medians of all later rounds.
"""
import argparse
import json
import random
import statistics
import subprocess
import tempfile

CONFIG = """
kind: experiment
name: activation-cache
data: {train: [FOLDER/train.jsonl], test: [FOLDER/test.jsonl]}
task: {name: text_classification, max_length: 128}
model:
  fresh: {model_type: bert, hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, intermediate_size: 3072}
  tokenizer: models/chorus-mini
clients: {count: 1, partition: uniform}
tuning: {name: pfeiffer, width: 32, depth: 2}
rounds: 4
clients_per_round: 1
trainer: {batch_size: 4, learning_rate: 1e-3}
evaluation: {every: 0}
federation: {threads: 2, workers: 1}
"""


def write_texts(path, count):
    """Distinct texts of more than 128 tokens."""
    words = "the house of time a man who came from another town and said nothing but went on to see".split()
    draw = random.Random(path[-10:])
    with open(path, "w") as file:
        for i in range(count):
            text = " ".join(draw.choice(words) for _ in range(150))
            file.write(json.dumps({"text": text, "label": "yes" if i % 2 else "no"}) + "\n")


def rounds(chorus, folder, name, mode):
    run = f"{folder}/{name}"
    subprocess.run([chorus, "run", f"{folder}/config.yaml", f"trainer.cache.mode={mode}", "--run-folder", run],
                   check=True, capture_output=True)
    events = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
    return [event["training_seconds"] for event in events if event["kind"] == "round"], [
        event["loss"] for event in events if event["kind"] == "round"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chorus", default="build/chorus")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, count in (("train", 64), ("test", 4)):
            write_texts(f"{folder}/{name}.jsonl", count)
        open(f"{folder}/config.yaml", "w").write(CONFIG.replace("FOLDER", folder))
        plain, _ = rounds(arguments.chorus, folder, "off", "off")
        anew, anew_losses = rounds(arguments.chorus, folder, "recompute", "recompute")
        kept, kept_losses = rounds(arguments.chorus, folder, "keep", "keep")
    assert kept_losses == anew_losses, "a cached run must give the same losses"
    print(f"{'seconds per epoch':32}" + "".join(f"{i + 1:>9}" for i in range(len(plain))))
    for name, seconds in (("batched, no cache", plain), ("one by one, nothing kept", anew), ("kept", kept)):
        print(f"{name:32}" + "".join(f"{value:9.2f}" for value in seconds))
    later = statistics.median(kept[1:])
    print(f"after the first epoch: {statistics.median(plain[1:]) / later:.2f} times as fast as without a cache, "
          f"{statistics.median(anew[1:]) / later:.2f} times as fast as computing the same anew; the same losses")


if __name__ == "__main__":
    main()
