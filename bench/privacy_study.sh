#!/bin/bash
# The measurements of docs/explanation/privacy.md and docs/how-to/audit_privacy.md, in one go:
#
#   bench/privacy_study.sh OUT [chorus] [cpu|cuda] [parts...]     # parts: audits canaries speed epsilon; default: all
#
#   audits    100 audits with one run each (CPU, several at a time)
#   canaries  exposure of canaries without and with protection
#   speed     DP-SGD with LoRA at DistilBERT's size: Chorus against Opacus (build/opacus; see bench/peers/opacus_dp_sgd.py)
#   epsilon   accuracy against epsilon on AG News (../shared/data/agnews, or DATA=folder), three seeds
#
# Tables, pictures and logs go to OUT; a part that fails does not stop the others.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd) chorus=${2:-build/chorus} device=${3:-cpu}
shift $(($# < 3 ? $# : 3))
parts=${*:-audits canaries speed epsilon}
data=${DATA:-../shared/data/agnews}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state

audits() {
  OMP_NUM_THREADS=1 python3 bench/one_run_audits.py --chorus "$chorus" --runs 25 --jobs "$(nproc)" --json "$out/one_run.json" \
    --svg "$out/one_run.svg"
}

canaries() {
  local protect='aggregation={name: private_mean, epsilon: 8, delta: 1e-3, clip: 0.5}'
  "$chorus" run configs/privacy/canaries.yaml --run-folder "$work/open" &&
    "$chorus" privacy audit "$work/open" --only canaries,extraction --picture "$out/canaries_open.svg" &&
    "$chorus" run configs/privacy/canaries.yaml "$protect" --run-folder "$work/protected" &&
    "$chorus" privacy audit "$work/protected" --only canaries,extraction --picture "$out/canaries_protected.svg"
}

speed() {
  local more=()
  [ -d build/opacus ] && more=(--opacus build/opacus)
  python3 bench/peers/opacus_dp_sgd.py --chorus "$chorus" --device "$device" "${more[@]}" --json "$out/speed.json"
}

epsilon() {
  python3 bench/epsilon_study.py --chorus "$chorus" --device "$device" --data "$data" --jobs "${JOBS:-2}" \
    --name privacy_study --svg "$out/epsilon.svg"
}

status=0
for part in $parts; do
  echo "== $part"
  begin=$SECONDS
  "$part" 2>&1 | tee "$out/$part.log"
  [ "${PIPESTATUS[0]}" -eq 0 ] || { echo "$part failed"; status=1; }
  echo "== $part took $((SECONDS - begin)) s"
done
exit $status
