#!/usr/bin/env python3
"""NVFlare as a peer of build/exchange: its POC mode (server and clients as processes, mutual TLS), no training.

    python3 -m venv build/peers/nvflare && build/peers/nvflare/bin/pip install nvflare==2.9.0 numpy
    build/peers/nvflare/bin/python bench/peers/nvflare_exchange.py --clients 3 --parameters 110e6 --rounds 3

Every client returns random floats of the model's size, which NVFlare's FedAvg averages. Prints one JSON object:
seconds of each round, from "Round n started" to the last aggregated result in the server's log (without the file that
NVFlare writes then), and the most memory of the server's processes.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import sys
import tempfile

from processes import PeakMemory, tree

CLIENT = """import sys

import numpy as np
import nvflare.client as flare

flare.init()
size = int(sys.argv[1])
random = np.random.default_rng(sum(map(ord, flare.get_site_name())))
while flare.is_running():
    model = flare.receive()
    update = random.random(size, np.float32)
    flare.send(flare.FLModel(params={"numpy_key": update}, params_type=model.params_type,
                             meta={"NUM_STEPS_CURRENT_ROUND": 1}))
"""


def server_processes():
    """The server of this POC and its job: processes whose command line names the server's start-up folder."""
    found = set()
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if re.search(r"/server/?(startup/.*)?(\0|$)", command.read_bytes().decode(errors="replace")):
                found.update(tree(int(command.parent.name)))
        except OSError:
            continue
    return found


def seconds_of_rounds(log):
    begin = now = None
    seconds = []
    for line in log.splitlines():
        if stamp := re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", line):
            now = datetime.datetime.strptime(stamp[0], "%Y-%m-%d %H:%M:%S,%f")
        if re.search(r"^\s*Round \d+ started", line):  # a line of its own in a message
            begin = now
        elif (found := re.search(r"Aggregated (\d+)/(\d+) results", line)) and found[1] == found[2]:
            seconds.append((now - begin).total_seconds())
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--parameters", type=float, default=110e6)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        os.environ["NVFLARE_POC_WORKSPACE"] = str(folder / "poc")
        os.environ["HOME"] = temporary  # NVFlare keeps the POC's place there
        os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        os.environ["OMP_NUM_THREADS"] = "1"

        import numpy as np
        from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
        from nvflare.recipe import PocEnv

        (folder / "client.py").write_text(CLIENT)
        np.save(folder / "start.npy", np.random.default_rng(0).standard_normal(int(options.parameters), np.float32))
        recipe = NumpyFedAvgRecipe(name="exchange", initial_ckpt=str(folder / "start.npy"),
                                   min_clients=options.clients, num_rounds=options.rounds,
                                   train_script=str(folder / "client.py"), train_args=str(int(options.parameters)))
        environment = PocEnv(num_clients=options.clients)
        said = os.dup(1)
        os.dup2(2, 1)  # NVFlare prints; the report alone goes to standard output
        try:
            with PeakMemory(server_processes) as memory:
                run = recipe.execute(environment)
                result = pathlib.Path(run.get_result(clean_up=False))
            log = "".join(path.read_text(errors="replace") for path in result.rglob("log.txt"))
        finally:
            environment.stop(clean_up=False)
        os.dup2(said, 1)
        seconds = seconds_of_rounds(log)
        if len(seconds) < options.rounds:
            sys.exit("NVFlare did not finish:\n" + log[-3000:])
        print(json.dumps({"clients": options.clients, "parameters": options.parameters, "rounds": options.rounds,
                          "seconds": seconds, "server_bytes": memory.peak}))


if __name__ == "__main__":
    main()
