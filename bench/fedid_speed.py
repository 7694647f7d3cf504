#!/usr/bin/env python3
"""The seconds of a FedID round with ten clients of BERT-base's size, part by part, beside PyTorch + Hugging Face.

    python3 bench/fedid_speed.py --chorus build/gpu/chorus --device cuda --peer
    python3 bench/fedid_speed.py --chorus build/chorus --device cpu --hidden 64 --layers 2 --heads 2 --length 32 --steps 4

Writes the texts (bench/peers/torch_fedid.py --write), runs configs/distillation/fedid_speed.yaml and prints, for every
round after the first, the seconds of its parts:

    local     the clients' training on their own data, and the first predictions
    server    the server's steps and its losses on the query set
    clients   the clients' steps and predictions, batch by batch
    last      the last step, and keeping the clients' models
    other     the rest of the round; of a method that does not time its parts, all of it

--set adds settings to the run; --peer also runs the peer with the same sizes and prints the ratio of the means. The CPU
time of all threads includes the start and the warm-up round; it depends less than seconds on other work of the machine.
"""
import argparse
import json
import pathlib
import re
import resource
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ["local", "server", "clients", "last"]


def sizes(options):
    return ["--clients", str(options.clients), "--local-steps", str(options.local_steps or options.steps),
            "--steps", str(options.steps), "--batch", str(options.batch), "--length", str(options.length),
            "--lengths", options.lengths]


def chorus_rounds(options):
    peer = [sys.executable, str(ROOT / "bench/peers/torch_fedid.py"), *sizes(options), "--write", str(options.texts)]
    share = re.search(r"public.share=([\d.]+)", subprocess.run(peer, check=True, capture_output=True, text=True).stdout)[1]
    shutil.rmtree(options.out, ignore_errors=True)
    command = [
        str(options.chorus), "run", "configs/distillation/fedid_speed.yaml", "--run-folder", str(options.out),
        f"device={options.device}", f"rounds={options.rounds + 1}", f"clients.count={options.clients}",
        f"clients_per_round={options.clients}", f"public.share={float(share) - 1e-5}", f"trainer.steps={options.local_steps or options.steps}",
        f"trainer.batch_size={options.batch}", f"algorithm.batch_size={options.batch}",
        f"data={{train: [{options.texts}/train.jsonl], test: [{options.texts}/test.jsonl]}}",
        f"model.fresh={{model_type: bert, hidden_size: {options.hidden}, num_hidden_layers: {options.layers}, "
        f"num_attention_heads: {options.heads}, intermediate_size: {4 * options.hidden}, max_position_embeddings: 512}}",
        f"trainer.precision={'bfloat16' if options.device == 'cuda' else 'float32'}", *options.set]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    events = [json.loads(line) for line in (options.out / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if event["kind"] == "round"][1:]


def peer_seconds(options):
    command = [sys.executable, str(ROOT / "bench/peers/torch_fedid.py"), *sizes(options), "--device", options.device,
               "--hidden", str(options.hidden), "--layers", str(options.layers), "--heads", str(options.heads),
               "--precision", "bfloat16" if options.device == "cuda" else "float32", "--rounds", str(options.rounds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", type=pathlib.Path, default=ROOT / "build/chorus")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="public batches")
    parser.add_argument("--local-steps", type=int, default=0, help="local batches; 0: as many")
    parser.add_argument("--batch", type=int, default=32, help="texts per batch")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--lengths", default="fixed", choices=["fixed", "rte"], help="of texts, see the peer")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3, help="measured, after a warm-up round")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], help="more settings of the run")
    parser.add_argument("--texts", type=pathlib.Path, default=ROOT / "build/fedid_speed")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/fedid_speed/run")
    options = parser.parse_args()
    rounds = chorus_rounds(options)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed = [part for part in PARTS if f"seconds_{part}" in rounds[0]]
    print("round    total  " + "  ".join(f"{part:>7}" for part in [*timed, "other"]))
    for event in rounds:
        parts = [event[f"seconds_{part}"] for part in timed]
        numbers = [*parts, event["seconds"] - sum(parts)]
        print(f"{event['round']:5}  {event['seconds']:7.3f}  " + "  ".join(f"{number:7.3f}" for number in numbers))
    mean = statistics.mean(event["seconds"] for event in rounds)
    print(f"Chorus: {mean:.3f} s per round, the fastest {min(event['seconds'] for event in rounds):.3f} s, "
          f"{(used.ru_utime + used.ru_stime) / (len(rounds) + 1):.1f} s of CPU time")
    if options.peer:
        other = peer_seconds(options)
        print(f"PyTorch + Hugging Face: {other:.3f} s per round; ratio {other / mean:.2f}")


if __name__ == "__main__":
    main()
