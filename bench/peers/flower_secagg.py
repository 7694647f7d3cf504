#!/usr/bin/env python3
"""Flower's SecAgg+ as a peer of build/exchange --aggregation secagg_plus: real processes, gRPC on loopback, no training.

    python3 -m venv build/peers/flower && build/peers/flower/bin/pip install flwr==1.41.0 numpy
    build/peers/flower/bin/python bench/peers/flower_secagg.py --exchange build/exchange

Starts flower-superlink and one flower-supernode per client, and runs an app whose clients return random floats; client
0 fails when it is asked for its masked vector, after it has shared its keys. Prints one JSON object: seconds of each
round, measured around the workflow of the round by the server's app. With --exchange it also runs ours with the same
clients and floats while a tenth of the clients vanish, and prints its seconds and how many times as fast it is, by the
medians.
"""
import argparse
import json
import statistics
import subprocess

from flower_fleet import run_app

CLIENT = """import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import Context


class Client(NumPyClient):
    def __init__(self, fails, floats):
        self.fails, self.floats = fails, floats

    def fit(self, parameters, config):
        if self.fails:
            raise RuntimeError("it vanishes")
        return [np.random.default_rng(1).standard_normal(self.floats).astype(np.float32) * 0.01], 1, {}


def client_fn(context: Context):
    return Client(context.node_config["partition-id"] == 0, context.run_config["floats"]).to_client()


app = ClientApp(client_fn=client_fn, mods=[secaggplus_mod])
"""

SERVER = """import json
import time

import numpy as np
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

app = ServerApp()


class Timed(SecAggPlusWorkflow):
    seconds = []

    def __call__(self, grid, context):
        begin = time.perf_counter()
        super().__call__(grid, context)
        self.seconds.append(time.perf_counter() - begin)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["clients"]:
        time.sleep(0.2)
    start = ndarrays_to_parameters([np.zeros(config["floats"], np.float32)])
    summed = []

    class Strategy(FedAvg):
        def aggregate_fit(self, server_round, results, failures):
            summed.append(len(results))
            return super().aggregate_fit(server_round, results, failures)

    strategy = Strategy(fraction_fit=1, fraction_evaluate=0, min_fit_clients=config["clients"],
                        min_available_clients=config["clients"], initial_parameters=start)
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=config["rounds"]), strategy=strategy)
    timed = Timed(num_shares=config["shares"], reconstruction_threshold=config["threshold"], timeout=600)
    DefaultWorkflow(fit_workflow=timed)(grid, legacy)
    with open(config["report"], "w") as file:
        json.dump({"seconds": timed.seconds, "summed": summed}, file)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--floats", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--exchange", help="our program; run beside Flower")
    parser.add_argument("--limit", type=float, default=900, help="seconds for everything")
    options = parser.parse_args()
    if options.clients < 5:
        parser.error("--clients: Flower's workflow wants a threshold below the number of shares; at least 5")
    config = {"clients": options.clients, "floats": options.floats, "rounds": options.rounds,
              "shares": options.clients - 1 if options.clients % 2 == 0 else options.clients,
              "threshold": options.clients // 2 + 1}
    report = run_app(SERVER, CLIENT, config, options.limit)
    if options.exchange:
        words = [options.exchange, "--clients", str(options.clients), "--parameters", str(options.floats), "--rounds", "10",
                 "--aggregation", "{name: secagg_plus, vanish: 0.1}"]
        ours = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
        report.update(ours=ours["seconds"], ours_summed=ours["summed"],
                      times=statistics.median(report["seconds"]) / statistics.median(ours["seconds"]))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
