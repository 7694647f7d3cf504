#!/usr/bin/env bash
# demo_processes.sh CHORUS [MPIRUN]: the demo's network and texts with four client processes over gRPC, MQTT and MPI. Each
# gives the model of `chorus run` with cohort_batch: 1, byte for byte. What is not installed is skipped and named.
# CHORUS_DEMO_ROUNDS=10 CHORUS_DEMO_EXAMPLES=1200 trains as long as `make demo`.
set -euo pipefail
chorus=$(realpath "$1") mpirun=${2:-}
cd "$(dirname "$0")/../.."
rounds=${CHORUS_DEMO_ROUNDS:-1}
work=$(mktemp -d)
port=$((41000 + 4 * ($$ % 5000)))
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; wait || true; rm -rf "$work"' EXIT
fail() {
  echo "demo_processes: $*" >&2
  tail -n 20 "$work"/*.log >&2 || true
  exit 1
}

# The texts of configs/demo.yaml, as four people have them.
make_texts() {
  "$chorus" data make -f text_classification --labels 4 --overlap 0.4 --seed 7 --clients 4 "$@" >"$work/data.log" 2>&1 ||
    fail "data make"
}
make_texts --examples "${CHORUS_DEMO_EXAMPLES:-240}" --out "$work/{client}.jsonl"
make_texts --examples 100 --split test --out "$work/test.jsonl"
files=("$work"/u*.jsonl)
[ ${#files[@]} -eq 4 ] || fail "there are not four files"
# In one order for all: else each side takes the order of its own texts.
labels=$(sed -nE 's/.*"label": ?"([^"]*)".*/\1/p' "$work/test.jsonl" | sort -u | paste -sd,)
common=("data.labels=[$labels]" "data.test=[$work/test.jsonl]" "data.format=auto" "rounds=$rounds" "federation.cohort_batch=1"
  "federation.workers=1" "encoding.cache=none")
pooled=("${common[@]}" "data.train=[$(IFS=,; echo "${files[*]}")]" "data.client_files=true"
  "clients={count: 0, partition: natural}")

"$chorus" run configs/demo.yaml "${pooled[@]}" --run-folder "$work/one" >"$work/one.log" 2>&1 || fail "chorus run"
same() {
  cmp "$work/one/model/model.safetensors" "$work/$1/model/model.safetensors" || fail "$1 gives another model"
  echo "$1: the same model after $rounds rounds"
}

served() { # NAME TRANSPORT
  local name=$1 transport=$2 fleet=$work/fleet_$1 file serving
  "$chorus" fleet init "$fleet" --address "127.0.0.1:$port" >"$work/fleet_$name.log" 2>&1 || fail "fleet init"
  "$chorus" fleet invite -q --fleet "$fleet" a b c d >"$work/tokens_$name" 2>>"$work/fleet_$name.log" || fail "fleet invite"
  if [ "$transport" = mqtt ]; then
    /usr/sbin/mosquitto -c "$fleet/broker/mosquitto.conf" >"$work/broker.log" 2>&1 &
    children+=("$!")
  fi
  "$chorus" serve configs/demo.yaml --fleet "$fleet" --run-folder "$work/$name" "${common[@]}" "data.train=[]" \
    "serving={clients: 4, min_clients: 4, transport: $transport}" >"$work/serve_$name.log" 2>&1 &
  serving=$!
  children+=("$serving")
  for i in 0 1 2 3; do
    token=$(sed -nE 's/.*--token (.*)/\1/p' "$work/tokens_$name" | sed -n "$((i + 1))p")
    file=${files[$i]}
    "$chorus" join "127.0.0.1:$((port + 1))" --token "$token" --identity "$work/${name}_$i" --data "$file" --once \
      --transport "$transport" >"$work/${name}_$i.log" 2>&1 &
    children+=("$!")
  done
  wait "$serving" || fail "the server of $name"
  same "$name"
  port=$((port + 2))
}

served grpc grpc
if [ -x /usr/sbin/mosquitto ]; then served mqtt mqtt; else echo "mqtt: skipped, there is no mosquitto"; fi
if [ -n "$mpirun" ]; then
  "$mpirun" -np 5 --allow-run-as-root --oversubscribe "$chorus" run configs/demo.yaml "${pooled[@]}" \
    federation.transport=mpi --run-folder "$work/mpi" >"$work/mpi.log" 2>&1 || fail "mpirun"
  same mpi
else
  echo "mpi: skipped, there is no mpirun"
fi
