#!/usr/bin/env bash
# personal_gpu.sh: bench/personal_study.py and bench/forgetting_study.py on one GPU, all studies at the same time, with
# the data in build/personal_data and the program in build/gpu/chorus. Tables, pictures and scores go to $OUT.
# SECONDS_LEFT (285) limits it: what has not finished by then is left out of the tables.
set -u
out=${OUT:-build/personal_out} left=${SECONDS_LEFT:-285} chorus=${CHORUS:-build/gpu/chorus} device=${DEVICE:-cuda}
read -r -a studies <<<"${STUDIES:-20news clinc snips shakespeare equal-bytes devices}"
mkdir -p "$out"
export OMP_NUM_THREADS=1
common=(--data build/personal_data --device "$device" --chorus "$chorus")
timeout "$left" python3 bench/forgetting_study.py "${common[@]}" --jobs 4 >"$out/forgetting.log" 2>&1 &
timeout "$left" python3 bench/personal_study.py "${common[@]}" --only "${studies[@]}" --jobs 3 --at-once \
  >"$out/personal.log" 2>&1
wait
python3 bench/personal_study.py "${common[@]}" --only "${studies[@]}" --tables --pictures "$out/pictures" \
  >"$out/tables.txt" 2>&1
python3 bench/forgetting_study.py "${common[@]}" --tables >>"$out/tables.txt" 2>&1
for file in runs/study-*/sweep.json runs/study-*/*/{summary,own_scores}.json runs/study-*/*.log; do
  [ -e "$file" ] && mkdir -p "$out/$(dirname "$file")" && cp "$file" "$out/$file"
done
cat "$out/tables.txt"
