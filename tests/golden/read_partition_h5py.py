#!/usr/bin/python3
"""Reads a partition file of Chorus like FedNLP does (h5py) and checks it.

    chorus partition make --data DATA --method label_dirichlet --clients 10 --out p.h5
    chorus partition make --data DATA --method label_dirichlet --clients 10 --out p.json
    /usr/bin/python3 tests/golden/read_partition_h5py.py p.h5 p.json

Exits with 1 when the layout is not FedNLP's, an example occurs twice, or the JSON file differs.
Needs h5py (Debian: python3-h5py); neither the build nor the tests need this script.
"""
import json
import sys

import h5py
import numpy


def read(path):
    groups = {}
    with h5py.File(path, "r") as file:
        for name, group in file.items():
            n_clients = group["n_clients"][()]
            assert group["n_clients"].shape == () and numpy.issubdtype(group["n_clients"].dtype, numpy.integer)
            for scalar in ("alpha", "beta"):
                if scalar in group:
                    assert group[scalar].shape == () and group[scalar].dtype == numpy.float64, scalar
            clients = []
            assert sorted(group["partition_data"], key=int) == [str(i) for i in range(n_clients)]
            for client in range(n_clients):
                # The same expressions as FedNLP's data manager.
                train = group["partition_data"][str(client)]["train"][()]
                test = group["partition_data"][str(client)]["test"][()]
                assert train.ndim == 1 and test.ndim == 1
                clients.append({"train": [int(i) for i in train], "test": [int(i) for i in test]})
            ids = [i for c in clients for part in ("train", "test") for i in c[part]]
            assert len(ids) == len(set(ids)), f"{name}: an example is held twice"
            groups[name] = clients
            info = json.loads(group["chorus"][()].decode() if isinstance(group["chorus"][()], bytes) else group["chorus"][()])
            print(f"{name}: {n_clients} clients, {len(ids)} examples, made by {info['method']}")
    return groups


def main():
    groups = read(sys.argv[1])
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8") as file:
            other = json.load(file)["partitions"]
        for name in other:
            assert other[name]["clients"] == groups[name], f"{name}: {sys.argv[1]} and {sys.argv[2]} differ"
        print(f"{len(other)} partitions are the same in {sys.argv[2]}")


if __name__ == "__main__":
    main()
