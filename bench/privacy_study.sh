#!/bin/bash
# The measurements of docs/explanation/privacy.md and docs/how-to/audit_privacy.md, in one go:
#
#   bench/privacy_study.sh OUT [chorus] [cpu|cuda] [parts...]     # parts: audits canaries speed epsilon; default: all
#
#   audits    100 audits with one run each (CPU, several at a time)
#   canaries  exposure of canaries without and with protection, five seeds (CPU, all at a time)
#   speed     DP-SGD with LoRA at DistilBERT's size: Chorus against Opacus (build/opacus; see bench/peers/opacus_dp_sgd.py)
#   epsilon   accuracy against epsilon on AG News (../shared/data/agnews, or DATA=folder), three seeds; MODEL=folder,
#             JOBS runs at a time, none begun after MINUTES
#
# Tables, pictures and logs go to OUT; a part that fails does not stop the others.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd) chorus=${2:-build/chorus} device=${3:-cpu}
shift $(($# < 3 ? $# : 3))
parts=${*:-audits canaries speed epsilon}
data=${DATA:-../shared/data/agnews} model=${MODEL:-models/chorus-mini}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state

audits() {
  OMP_NUM_THREADS=1 python3 bench/one_run_audits.py --chorus "$chorus" --runs 25 --jobs "$(nproc)" --json "$out/one_run.json" \
    --svg "$out/one_run.svg"
}

# One run without and one with protection; the first seed makes the pictures.
canaries_of() {
  local seed=$1 kind settings
  for kind in open protected; do
    settings=()
    [ $kind = protected ] && settings=('aggregation={name: private_mean, epsilon: 8, delta: 1e-3, clip: 0.5}')
    "$chorus" run configs/privacy/canaries.yaml seed="$seed" "${settings[@]}" --run-folder "$work/$kind$seed" > "$work/$kind$seed.log" 2>&1 &&
      "$chorus" privacy audit "$work/$kind$seed" --only canaries,extraction --picture "$work/$kind$seed.svg" --json > "$out/canaries_$kind$seed.json" ||
      { cat "$work/$kind$seed.log"; return 1; }
    [ "$seed" = 7 ] && sed "s/$kind$seed/$kind/g" "$work/$kind$seed.svg" > "$out/canaries_$kind.svg"
  done
  return 0
}

canaries() {
  local seed jobs=() status=0
  for seed in 7 8 9 10 11; do OMP_NUM_THREADS=1 canaries_of $seed & jobs+=($!); done
  for job in "${jobs[@]}"; do wait "$job" || status=1; done
  python3 - "$out" <<'END' || status=1
import json, pathlib, statistics, sys
for kind in ("open", "protected"):
    runs = [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob(f"canaries_{kind}*.json"))]
    if runs:
        canaries = [run["canaries"] for run in runs]
        bits = [run["exposure_median_bits"] for run in canaries]
        print(f"{kind}: exposure of planted canaries, medians of {len(runs)} runs: {', '.join(f'{b:.2f}' for b in bits)} bits; not planted: "
              f"{', '.join('%.2f' % run['exposure_median_bits_not_planted'] for run in canaries)}; AUC "
              f"{statistics.mean(run['membership']['auc'] for run in canaries):.2f}; extracted "
              f"{sum(run['extraction']['extracted'] for run in runs)} of {sum(run['extraction']['planted'] for run in runs)}")
END
  return $status
}

speed() {
  local more=()
  [ -d build/opacus ] && more=(--opacus build/opacus)
  [ "$device" = cuda ] && more+=(--precision float32 tf32 bfloat16 --steps 30 --repeats 4 --warm 3)
  python3 bench/peers/opacus_dp_sgd.py --chorus "$chorus" --device "$device" "${more[@]}" --json "$out/speed.json"
}

epsilon() {
  python3 bench/epsilon_study.py "$out/epsilon" --chorus "$chorus" --device "$device" --data "$data" --model "$model" --jobs "${JOBS:-2}" \
    --minutes "${MINUTES:-600}"
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
