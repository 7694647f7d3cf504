"""Run folders with made-up numbers, for tests of the page: as `chorus run` writes them, without training."""
import json
import math
import pathlib
import random


def make_run(folder, algorithm="fedavg", seed=1, rounds=40, clients=12, hostile=False, finished=True):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    draw = random.Random(f"{algorithm} {seed}")
    evil = "</script><script>document.title='HACKED'</script><img src=x onerror=document.title='HACKED'>"
    write = lambda name, value: (folder / name).write_text(json.dumps(value))
    write("run.json", {"format": 2, "name": folder.name, "chorus_version": "0", "torch_version": "1", "seed": seed,
                       "started": "2026-01-01T00:00:00Z", "command": "chorus run " + (evil if hostile else "a.yaml"),
                       "directory": "../.."})
    (folder / "config.yaml").write_text(
        f"kind: experiment\nname: {json.dumps(evil) if hostile else folder.name}\nseed: {seed}\n"
        f"algorithm:\n  name: {algorithm}\nrounds: {rounds}\n")
    (folder / "lock").touch()
    labels = ["film", "cooking", "sea", evil if hostile else "politics"]
    held = []
    for client in range(clients):
        counts = [draw.randint(0, 40) for _ in labels]
        held.append({"name": evil + str(client) if hostile else f"client {client}", "train": sum(counts),
                     "test": 9, "labels": counts})
    write("clients.json", {"format": 1, "method": "label_dirichlet", "labels": labels, "total": clients,
                           "clients": held})
    score = 0.0
    with (folder / "metrics.jsonl").open("w") as file:
        def tell(kind, number, **values):
            file.write(json.dumps({"kind": kind, "round": number, "time": number * 2.0, **values}) + "\n")

        tell("run_started", 0, name=folder.name, algorithm=algorithm, metric="accuracy", goal="max", rounds=rounds,
             clients=clients, parameters=5462784, trained_parameters=5462784, target=0.7)
        for number in range(1, rounds + 1):
            tell("round", number, clients=4, failed=0, examples=480, steps=30,
                 loss=1.4 * math.exp(-3 * number / rounds) + draw.random() * 0.1, seconds=1.9 + 0.1 * draw.random(),
                 training_seconds=1.7, bytes_up=43e6, bytes_down=43e6, emulated_seconds=600 + 90 * draw.random(),
                 emulated_joules=9000, client_joules=2200, client_bytes=2e7)
            score = 0.75 * (1 - math.exp(-5 * number / rounds)) + draw.gauss(0, 0.03)
            more = {evil: 0.5} if hostile else {}
            tell("evaluation", number, split="test", accuracy=score, eval_loss=1.3 - score, macro_f1=score - 0.05,
                 examples=300, seconds=0.3, **more)
        tell("client_failed", rounds, client=1, reason=evil if hostile else "no memory")
        tell("client_scores", rounds, **{"client/" + c["name"]: score + draw.gauss(0, 0.1) for c in held})
    if finished:
        scores = {"accuracy": score}
        zero = dict.fromkeys(("setup_seconds", "train_seconds", "evaluation_seconds", "checkpoint_seconds",
                              "checkpoint_background_seconds", "save_seconds"), 0)
        write("summary.json", {"format": 1, "status": "finished", "algorithm": algorithm, "metric": "accuracy",
                               "higher_is_better": True, "target": 0.7, "rounds": rounds, "best_round": rounds,
                               "last": scores, "best": scores, "examples": 480 * rounds, "bytes_up": 43e6 * rounds,
                               "bytes_down": 43e6 * rounds, "seconds": 1.9 * rounds, **zero})
    return folder
