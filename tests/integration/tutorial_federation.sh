#!/usr/bin/env bash
# tutorial_federation.sh CHORUS: types the six commands of docs/tutorial_federation.md as they are written there, on two
# "machines": two network namespaces where this user may make them, else two folders and the loopback address.
set -euo pipefail
chorus=$(realpath "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
a=chorus-a-$$ b=chorus-b-$$
children=()

finish() {
  # A child is a subshell, and the program its child.
  for child in "${children[@]}"; do
    # shellcheck disable=SC2046  # several numbers
    kill $(cat "/proc/$child/task/$child/children" 2>/dev/null) "$child" 2>/dev/null || true
  done
  wait || true
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

fail() {
  echo "tutorial_federation: $*" >&2
  tail -n 20 "$work"/*.log >&2 || true
  exit 1
}

block() { awk -v kind="$1" '/^```/ {on = ($0 == "```sh " kind); next} on' "$root/docs/tutorial_federation.md"; }
mapfile -t on_server < <(block server)
mapfile -t on_client < <(block client)
[ ${#on_server[@]} -eq 3 ] && [ ${#on_client[@]} -eq 3 ] || fail "the tutorial does not have six commands"

for machine in server client; do
  mkdir -p "$work/$machine/build"
  ln -s "$chorus" "$work/$machine/build/chorus"
  ln -s "$root/configs" "$root/models" "$work/$machine/"
done

namespaces() {
  ip netns add "$a" && ip netns add "$b" &&
    ip link add "ca$$" netns "$a" type veth peer name "cb$$" netns "$b" &&
    ip -n "$a" addr add 10.77.0.1/24 dev "ca$$" && ip -n "$b" addr add 10.77.0.2/24 dev "cb$$" &&
    ip -n "$a" link set "ca$$" up && ip -n "$b" link set "cb$$" up &&
    ip -n "$a" link set lo up && ip -n "$b" link set lo up
}
in_server=() in_client=()
if namespaces 2>/dev/null; then
  in_server=(ip netns exec "$a") in_client=(ip netns exec "$b")
else
  echo "no network namespaces here: loopback instead"
  port=$((30000 + 2 * ($$ % 9000)))
  on_server=("${on_server[@]//10.77.0.1:7733/127.0.0.1:$port}")
  on_client=("${on_client[@]//10.77.0.1:7734/127.0.0.1:$((port + 1))}")
fi
server() { (cd "$work/server" && "${in_server[@]}" bash -c "$1"); }
client() { (cd "$work/client" && exec "${in_client[@]}" bash -c "exec $1"); }

server "${on_server[0]}" >"$work/init.log" 2>&1 || fail "${on_server[0]}"
server "${on_server[1]}" >"$work/invite.log" 2>"$work/invite_log.log" || fail "${on_server[1]}"
server "exec ${on_server[2]}" >"$work/serve.log" 2>&1 &
serving=$!
children+=("$serving")
client "${on_client[0]}" >"$work/data.log" 2>&1 || fail "${on_client[0]}"
for command in "${on_client[@]:1}"; do
  name=$(sed -E 's/.*--token ([^:]*):TOKEN.*/\1/' <<<"$command")
  token=$(sed -nE "s/.*--token ($name:.*)/\1/p" "$work/invite.log")
  [ -n "$token" ] || fail "no token for $name"
  client "${command//$name:TOKEN/$token}" >"$work/$name.log" 2>&1 &
  children+=("$!")
done
wait "$serving" || fail "the server failed"
model="$work/server/runs/federation-001/model/model.safetensors"
[ -s "$model" ] || fail "there is no model"
score=$(sed -nE 's/^fedavg: accuracy ([0-9.]+) after round 10.*/\1/p' "$work/serve.log")
awk -v score="${score:-0}" 'BEGIN {exit !(score > 0.5)}' || fail "the model did not learn: accuracy '$score'"
(cd "$work/client" && build/chorus egress verify --identity clinic-a >/dev/null) || fail "the egress log does not verify"
[ ! -e "$work/server/notes" ] || fail "a client's data is on the server"
echo "accuracy $score"
