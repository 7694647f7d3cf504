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
algorithm: fedavg
rounds: 4
clients_per_round: 7
trainer: {batch_size: 8, optimizer: sgd, learning_rate: 0.1, clip: 0}
federation: {cohort_batch: 1, workers: 1}
END
number=0
compare() {  # compare PROCESSES OVERRIDE...
  number=$((number + 1))
  local processes=$1 one="$work/one$number" all="$work/all$number"
  shift
  "$chorus" run "$work/run.yaml" "$@" --run-folder "$one" >"$one.log" 2>&1 || { cat "$one.log"; exit 1; }
  "$mpirun" -np "$processes" --allow-run-as-root --oversubscribe "$chorus" run "$work/run.yaml" "$@" \
    federation.transport=mpi --run-folder "$all" >"$all.log" 2>&1 || { cat "$all.log"; exit 1; }
  cmp "$one/model/model.safetensors" "$all/model/model.safetensors"
}
compare 3 algorithm=scaffold                                             # clients with state stay in their process
compare 2 algorithm=fedavg clients.count=40 clients_per_round=36 rounds=2  # sums of eight, and single updates
# Activations and gradients within a session: a server part per client, and quantised with the head at the client.
compare 3 'algorithm={name: splitfed, layers: 1}' rounds=2
compare 3 'algorithm={name: splitnn, layers: 0, labels: client, noise: 0.01}' rounds=2 \
  'compression={up: [{name: uniform, bits: 8}], down: [{name: uniform, bits: 8}]}'
