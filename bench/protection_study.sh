#!/usr/bin/env bash
# Learning with secure sums and dropouts, and every attack against every rule: the tables of docs/how-to/hide_updates.md
# and docs/how-to/defend_against_attackers.md.
#
#     bench/protection_study.sh [CHORUS=build/chorus] [OUT=runs/protection] [JOBS=2]
#
# About an hour on two cores, two minutes on sixteen and a GPU (JOBS=16). Finished runs are not repeated. The LoRA run
# needs ../shared/data/agnews and is skipped without it.
set -euo pipefail
cd "$(dirname "$0")/.."
chorus=${1:-build/chorus} out=${2:-runs/protection} jobs=${3:-2}
export OMP_NUM_THREADS=1
mkdir -p "$out"

echo "## Attacks"
bench/attacks.py --chorus "$chorus" --out "$out/attacks" --seeds 1,2,3 --jobs "$jobs" --set device=cpu \
  --set federation.workers=1 --svg "$out/attacks.svg" | tee "$out/attacks.md"
echo "## The demo with all ten clients in a round"
bench/secure_learning.py --chorus "$chorus" --out "$out/demo" --config configs/demo.yaml --seeds 1,2,3,4,5 \
  --jobs "$jobs" --set clients_per_round=10 --set rounds=20 --set evaluation.every=20 --set device=cpu \
  --set federation.workers=1 | tee "$out/demo.md"
if [ -e ../shared/data/agnews/test.csv ]; then
  echo "## LoRA on AG News"
  bench/secure_learning.py --chorus "$chorus" --out "$out/agnews" --config configs/secure/agnews_lora.yaml \
    --seeds 1,2,3 --jobs "$((jobs < 4 ? jobs : 4))" | tee "$out/agnews.md"
fi
