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
trainer: {batch_size: 8, optimizer: sgd, learning_rate: 0.1}
federation: {cohort_batch: 1, workers: 1}
END
"$chorus" run "$work/run.yaml" --run-folder "$work/one" >"$work/one.log" 2>&1 || { cat "$work/one.log"; exit 1; }
"$mpirun" -np 3 --allow-run-as-root --oversubscribe "$chorus" run "$work/run.yaml" federation.transport=mpi \
  --run-folder "$work/three" >"$work/three.log" 2>&1 || { cat "$work/three.log"; exit 1; }
cmp "$work/one/model/model.safetensors" "$work/three/model/model.safetensors"
