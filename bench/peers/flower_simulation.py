"""Flower's simulation (Ray actors) as a peer: the client training of torch_loop.py behind Flower's NumPyClient and FedAvg.
bench/engine.py calls it; needs: pip install 'flwr[simulation]'.

Each actor keeps one model between clients, which Flower does not require. A round is timed from the selection of the
clients to the end of the averaging.
"""
import os
import time

NAME = "Flower simulation"
WORKLOADS = ("W1", "W4", "W5", "W7")


def settings(work, device, threads, quick):
    if device == "cuda":
        return [{"precision": precision, "processes": 1, "threads": threads} for precision in ("float32", "bfloat16")]
    processes = 1 if work.key == "W7" else threads
    return [{"precision": "float32", "processes": processes, "threads": 1}]


TRAINER = []  # the one of this actor


def trainer_of(actor_work, device, setting):
    """Created when the actor trains its first client; `actor_work` fetches the workload."""
    from peers.torch_loop import Trainer
    if not TRAINER:
        TRAINER.append(Trainer(actor_work(), device, setting))
    return TRAINER[0]


def rounds(work, device, setting):
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
                      PYTHONPATH=os.path.dirname(os.path.dirname(__file__)))  # where actors find this module
    import logging
    import ray
    import torch
    from flwr.client import NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import start_simulation
    from peers.torch_loop import make_model
    logging.getLogger("flwr").setLevel(logging.ERROR)
    ray.init(num_cpus=setting["processes"], num_gpus=1 if device == "cuda" else 0, include_dashboard=False,
             log_to_driver=False, logging_level=logging.ERROR)
    shared = ray.put(work)  # once, not with every client

    class Client(NumPyClient):
        def __init__(self, client):
            self.client = client

        def fit(self, parameters, config):
            trainer = trainer_of(lambda: ray.get(shared), device, setting)
            with torch.no_grad():
                for parameter, value in zip(trainer.parameters, parameters):
                    parameter.copy_(torch.from_numpy(value))
            begin = time.perf_counter()
            trainer.train(self.client)
            trainer.synchronize()
            seconds = time.perf_counter() - begin
            result = [p.detach().cpu().numpy() for p in trainer.parameters]
            return result, len(trainer.clients[self.client]), {"seconds": seconds}

    measured = []

    class Timed(FedAvg):
        def configure_fit(self, server_round, parameters, client_manager):
            self.begin = time.perf_counter()
            return super().configure_fit(server_round, parameters, client_manager)

        def aggregate_fit(self, server_round, results, failures):
            if failures:
                raise RuntimeError(f"Flower: {failures[0]}")
            answer = super().aggregate_fit(server_round, results, failures)
            training = sum(result.metrics["seconds"] for _, result in results)
            measured.append({"seconds": time.perf_counter() - self.begin, "training_seconds": training})
            return answer

    clients = len(work.clients)
    first = [p.detach().numpy() for p in make_model(work).parameters() if p.requires_grad]
    strategy = Timed(fraction_fit=1.0, min_fit_clients=clients, min_available_clients=clients, fraction_evaluate=0.0,
                     initial_parameters=ndarrays_to_parameters(first))
    try:
        start_simulation(client_fn=lambda context: Client(int(context.node_config["partition-id"])).to_client(),
                         num_clients=clients, config=ServerConfig(num_rounds=work.rounds), strategy=strategy,
                         client_resources={"num_cpus": 1, "num_gpus": 1.0 if device == "cuda" else 0.0}, keep_initialised=True,
                         ray_init_args={"ignore_reinit_error": True, "logging_level": logging.ERROR})
    finally:
        ray.shutdown()
    if len(measured) != work.rounds:
        raise RuntimeError(f"Flower: {len(measured)} of {work.rounds} rounds came to an end")
    return measured[1:]
