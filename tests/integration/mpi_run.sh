#!/usr/bin/env bash
# mpi_run.sh CHORUS MPIRUN: a run spread over three MPI processes has the bits of the same run in one process.
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
number=0
compare() {  # compare OVERRIDE...
  number=$((number + 1))
  local one="$work/one$number" three="$work/three$number"
  "$chorus" run "$work/run.yaml" "$@" --run-folder "$one" >"$one.log" 2>&1 || { cat "$one.log"; exit 1; }
  "$mpirun" -np 3 --allow-run-as-root --oversubscribe "$chorus" run "$work/run.yaml" "$@" federation.transport=mpi \
    --run-folder "$three" >"$three.log" 2>&1 || { cat "$three.log"; exit 1; }
  cmp "$one/model/model.safetensors" "$three/model/model.safetensors"
}
compare algorithm=scaffold
# Activations and gradients within a session: a server part per client, and quantised with the head at the client.
compare 'algorithm={name: splitfed, layers: 1}' rounds=2
compare 'algorithm={name: splitnn, layers: 0, labels: client, noise: 0.01}' rounds=2 \
  'compression={up: [{name: uniform, bits: 8}], down: [{name: uniform, bits: 8}]}'
