#!/usr/bin/env python3
"""Flower as a peer of build/exchange: SuperLink and SuperNodes on loopback, no training, no encryption.

    python3 -m venv build/peers/flower && build/peers/flower/bin/pip install flwr==1.41.0 numpy
    build/peers/flower/bin/python bench/peers/flower_exchange.py --clients 3 --parameters 110e6 --rounds 3

Every client returns random floats of the model's size (Flower sends equal chunks once), which FedAvg of Flower
averages. Prints one JSON object: seconds of each round, from the first message's making to the average, and the most
memory of the SuperLink and the server's app.
"""
import argparse
import json

from flower_fleet import run_app

CLIENT = """import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    config = context.run_config
    seed = context.node_config["partition-id"] + 100 * message.content["config"]["server-round"]
    update = np.random.default_rng(seed).random(int(config["parameters"]), np.float32)
    content = RecordDict({"arrays": ArrayRecord({"model": Array(update)}),
                          "metrics": MetricRecord({"num-examples": 1})})
    return Message(content=content, reply_to=message)
"""

SERVER = """import json
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Timed(FedAvg):
    seconds = []

    def configure_train(self, *words):
        self.begin = time.perf_counter()
        return super().configure_train(*words)

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        assert all(reply.has_content() for reply in replies), "a client failed"
        result = super().aggregate_train(server_round, replies)
        self.seconds.append(time.perf_counter() - self.begin)
        return result


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["clients"]:
        time.sleep(0.2)
    start = np.random.default_rng(0).standard_normal(int(config["parameters"]), np.float32)
    strategy = Timed(fraction_train=1, fraction_evaluate=0, min_train_nodes=config["clients"],
                     min_available_nodes=config["clients"])
    strategy.start(grid=grid, initial_arrays=ArrayRecord({"model": Array(start)}), num_rounds=config["rounds"])
    with open(config["report"], "w") as file:
        json.dump({"seconds": strategy.seconds}, file)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--parameters", type=float, default=110e6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=900, help="seconds for everything")
    options = parser.parse_args()
    config = {"clients": options.clients, "parameters": options.parameters, "rounds": options.rounds}
    print(json.dumps(run_app(SERVER, CLIENT, config, options.limit)))


if __name__ == "__main__":
    main()
