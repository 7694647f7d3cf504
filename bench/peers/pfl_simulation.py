"""Apple's pfl-research as a peer: FedAvg of its SimulatedBackend over the models of torch_loop.py, in one process.
bench/engine.py calls it; needs: pip install pfl.

Its batches are slices of a client's arrays, so texts are padded to the longest of a client.
"""
import contextlib
import io
import itertools
import time

NAME = "pfl-research"
WORKLOADS = ("W1", "W4", "W5", "W7")


def settings(work, device, threads, quick):
    if device == "cuda":
        return [{"precision": precision, "processes": 1, "threads": threads} for precision in ("float32", "bfloat16")]
    counts = [1] if work.key == "W7" or threads == 1 else [threads, 1]
    return [{"precision": "float32", "processes": 1, "threads": count} for count in counts]


def rounds(work, device, setting):
    import numpy as np
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel
    from peers.torch_loop import IGNORE, make_model, make_optimizer

    torch.set_num_threads(setting["threads"])
    classified = work.task == "text_classification"

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_model(work).train()

        def loss(self, ids, labels, mask=None):
            output = self.inner(input_ids=ids, attention_mask=mask, labels=labels) if classified else self.inner(
                input_ids=ids, labels=labels)
            return output if torch.is_tensor(output) else output.loss

        def metrics(self, *batch):
            return {}

    training = [0.0]

    class Model(PyTorchModel):
        def do_multiple_epochs_of(self, *arguments, **more):
            begin = time.perf_counter()
            result = super().do_multiple_epochs_of(*arguments, **more)
            if device == "cuda":
                torch.cuda.synchronize()
            training[0] += time.perf_counter() - begin
            return result

    measured = []

    class Clock(TrainingProcessCallback):
        begin = None

        def on_train_begin(self, *, model):
            self.begin = time.perf_counter()
            return Metrics()

        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            now = time.perf_counter()
            measured.append({"seconds": now - self.begin, "training_seconds": training[0]})
            self.begin, training[0] = now, 0.0
            return False, Metrics()

    def arrays(rows):
        longest = max(len(ids) for ids, _ in rows)
        ids = np.zeros((len(rows), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for i, (row, _) in enumerate(rows):
            ids[i, :len(row)], mask[i, :len(row)] = row, 1
        parts = [ids, np.array([label for _, label in rows]), mask] if classified else [ids, np.where(mask, ids, IGNORE)]
        return [torch.from_numpy(part).to(device) for part in parts]

    network = Network()
    parts = [arrays(rows) for rows in work.clients]
    order = itertools.cycle(range(len(parts)))
    trained = [p for p in network.parameters() if p.requires_grad]
    model = Model(network, local_optimizer_create=lambda parameters, lr: make_optimizer(work, trained),
                  central_optimizer=torch.optim.SGD(trained, lr=1.0),
                  amp_dtype=torch.bfloat16 if setting["precision"] == "bfloat16" else None)
    backend = SimulatedBackend(FederatedDataset(lambda client: Dataset(raw_data=parts[client]), lambda: next(order)), None)
    schedule = NNAlgorithmParams(central_num_iterations=work.rounds, evaluation_frequency=work.rounds + 1,
                                 train_cohort_size=len(parts), val_cohort_size=None)
    local = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=work.learning_rate, local_batch_size=work.batch_size)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints metrics after every round
        FederatedAveraging().run(schedule, backend, model, local, callbacks=[Clock()])
    return measured[1:]
