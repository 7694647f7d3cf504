#!/usr/bin/env bash
# mpi_run.sh CHORUS MPIRUN: a run spread over MPI processes has the bits of the same run in one process.
set -euo pipefail
chorus=$1 mpirun=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/run.yaml" <<'END'
kind: experiment
name: ranks
seed: 3
encoding: {cache: none}
data: {format: synthetic, train: ["formulation=text_classification,examples=240,test_examples=60,labels=4,seed=7"]}
clients: {count: 12}
model:
  fresh: {model_type: bert, hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 32,
          max_position_embeddings: 40}
  tokenizer: models/chorus-mini
task: {name: text_classification, max_length: 32}
algorithm: scaffold
rounds: 4
clients_per_round: 7
trainer: {batch_size: 8, optimizer: sgd, learning_rate: 0.1, clip: 0}
federation: {cohort_batch: 1, workers: 1}
END
# compare NAME PROCESSES OVERRIDE...
compare() {
  local name=$1 processes=$2
  shift 2
  "$chorus" run "$work/run.yaml" "$@" --run-folder "$work/$name-one" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  "$mpirun" -np "$processes" --allow-run-as-root --oversubscribe "$chorus" run "$work/run.yaml" "$@" \
    federation.transport=mpi --run-folder "$work/$name-all" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  cmp "$work/$name-one/model/model.safetensors" "$work/$name-all/model/model.safetensors"
}
compare scaffold 3                                                       # clients with state stay in their process
compare sums 2 algorithm=fedavg clients.count=40 clients_per_round=36    # sums of eight, and single updates
