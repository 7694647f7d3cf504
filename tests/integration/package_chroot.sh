#!/usr/bin/env bash
# package_chroot.sh [build/chorus_VERSION_ARCH.deb]: installs the package in a clean Debian 12 (debootstrap, as root) and
# starts the server and two clients there with the commands of the systemd units and of docs/how-to/run_a_federation.md.
# Takes some minutes and a network; `make package` first. KEEP=folder keeps the bare system for the next time.
set -euo pipefail
cd "$(dirname "$0")/../.."
package=${1:-$(ls build/chorus_*.deb)}
command -v debootstrap >/dev/null || { echo "package_chroot: apt-get install debootstrap first" >&2; exit 77; }
[ "$(id -u)" = 0 ] || { echo "package_chroot: only root can make a chroot" >&2; exit 77; }
work=$(mktemp -d /var/tmp/chorus_package_XXXXXX)
root=$work/system
children=()

finish() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait || true
  for folder in proc dev sys; do umount -l "$root/$folder" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap finish EXIT
fail() {
  echo "package_chroot: $*" >&2
  tail -n 20 "$work"/*.log >&2 || true
  exit 1
}

mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -1 || true)
base=${KEEP:-$work/base}
[ -e "$base/etc/debian_version" ] ||
  debootstrap --variant=minbase bookworm "$base" "${mirror:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 ||
  fail "no clean system"
cp -a "$base" "$root"
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
mount --bind /sys "$root/sys"
cp /etc/resolv.conf "$root/etc/"
cp "$package" "$root/opt/chorus.deb"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/opt DEBIAN_FRONTEND=noninteractive "$@"; }
# As a unit runs: its user, its folder, its environment.
as_service() { inside setpriv --reuid=chorus --regid=chorus --clear-groups env -C /var/lib/chorus HOME=/var/lib/chorus CHORUS_LOG_FORMAT=json "$@"; }
command_of() { sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/$1.service"; }

inside sh -c 'apt-get update && apt-get install -y --no-install-recommends /opt/chorus.deb' >"$work/install.log" 2>&1 ||
  fail "the package cannot be installed"
inside chorus --version >"$work/version.log" 2>&1 || fail "the program does not start"
inside install -d -o chorus -g chorus -m 700 /var/lib/chorus # systemd: StateDirectory=

port=$((31000 + 2 * ($$ % 9000)))
as_service chorus fleet init fleet --address "127.0.0.1:$port" >"$work/init.log" 2>&1 || fail "fleet init"
as_service chorus fleet invite -q --fleet fleet a b >"$work/invite.log" 2>&1 || fail "fleet invite"
as_service chorus data make -f text_classification --labels 4 --overlap 0.4 --examples 600 --clients 2 --seed 7 \
  --out 'notes/{client}.jsonl' >"$work/data.log" 2>&1 || fail "data make"
server=$(command_of chorus-server)
as_service sh -c "exec ${server//9464/$((port + 2))}" >"$work/server.log" 2>&1 &
serving=$!
children+=("$serving")
for _ in $(seq 100); do
  health=$(curl -sf "http://127.0.0.1:$((port + 2))/healthz" || true)
  [ -n "$health" ] && break
  sleep 0.2
done
[ -n "${health:-}" ] || fail "no answer at /healthz"
printf 'kind: policy\nthreads: 1\n' >"$root/etc/chorus/policy.yaml" # at any hour
for name in a b; do
  token=$(sed -nE "s/.*--token ($name:.*)/\1/p" "$work/invite.log")
  as_service chorus join "127.0.0.1:$((port + 1))" --token "$token" --identity "/var/lib/chorus/$name" \
    >"$work/join_$name.log" 2>&1 || fail "join $name"
  number=$([ "$name" = a ] && echo 0 || echo 1)
  client=$(command_of chorus-client)
  client=${client//\/var\/lib\/chorus\/identity//var/lib/chorus/$name}
  as_service env CHORUS_SERVER="127.0.0.1:$((port + 1))" CHORUS_DATA="notes/u000$number.jsonl" sh -c "exec $client" \
    >"$work/client_$name.log" 2>&1 &
  children+=("$!")
done
wait "$serving" || fail "the server failed"
ls "$root"/var/lib/chorus/runs/*/model/model.safetensors >/dev/null || fail "there is no model"
inside dpkg --purge chorus >"$work/purge.log" 2>&1 || fail "the package cannot be removed"
[ ! -e "$root/usr/bin/chorus" ] || fail "the program is still there"
echo "installed, trained a model with two clients, removed: $(cat "$work/version.log")"
