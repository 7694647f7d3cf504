import { checkedRun, Peer, Run } from "./data";
import { duration, h, plain, table } from "./dom";
import { badge } from "./overview";

/** The token after # in the address, which only the reader's browser sees. */
function token(): string {
  return new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
}

async function order(run: Run, action: string, say: (text: string) => void): Promise<void> {
  try {
    const answer = await fetch("/control", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Chorus-Token": token() },
      body: JSON.stringify({ run: run.id, action }),
    });
    const text = await answer.text();
    say(answer.ok ? text : `Not done: ${text}`);
  } catch {
    say("Not done: the dashboard does not answer.");
  }
}

function planned(run: Run): number {
  return run.planned || (run.server?.rounds ?? 0);
}

const stateOrder = ["working", "late", "joined", "resting", "gone", "refuses"];

/** A server's clients: how many do what, and each of them by name. */
function served(run: Run, server: NonNullable<Run["server"]>): Node[] {
  const count = (state: string): number => server.clients.filter((peer) => peer.state === state).length;
  const counts = stateOrder.filter((state) => count(state) > 0).map((state) => `${count(state)} ${state}`);
  const nodes: Node[] = [h("p", {}, counts.length ? `Clients: ${counts.join(", ")}.` : "No client has joined yet.")];
  if (server.waiting_for) nodes.push(h("p", {}, `The server waits for ${plain(server.waiting_for, 200)}.`));
  if (server.repeated > 0) nodes.push(h("p", {}, `${server.repeated} rounds were repeated because too few clients replied.`));
  if (!server.clients.length) return nodes;
  const rank = (peer: Peer): number => stateOrder.indexOf(peer.state) + 1 || 9;
  const rows = server.clients.slice().sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
  nodes.push(table("Clients of " + plain(run.label), [
    { name: "client", cell: (peer) => h("span", { class: "name" }, plain(peer.name, 60)) },
    { name: "state", cell: (peer) => h("span", {}, badge(peer.state), peer.why ? " " + plain(peer.why, 300) : "") },
    {
      name: "time",
      cell: (peer) => (peer.seconds > 0 ? duration(peer.seconds) + (peer.state === "joined" ? " for its last reply" : "") : "–"),
      key: (peer) => peer.seconds,
    },
  ], rows));
  return nodes;
}

/** The running runs: how far they are, who takes part, and buttons for whoever has the token. */
export function running(runs: Run[]): HTMLElement {
  const element = h("div");
  const active = runs.filter((run) => run.status === "running");
  if (!active.length) element.append(h("p", { class: "soft" }, "No run is active."));
  for (const run of active) {
    const said = h("span", { role: "status" });
    const bar = h("progress", { max: planned(run) || 1, value: run.rounds, "aria-label": `Rounds of ${plain(run.label)}` });
    const buttons = h("span");
    if (token() && run.controllable) {
      const ask = (action: string, text: string): HTMLElement =>
        h("button", { type: "button", click: () => void order(run, action, (t) => (said.textContent = t)) }, text);
      buttons.append(run.paused ? ask("continue", "Continue") : ask("pause", "Pause"), " ", ask("stop", "Stop after this round"));
    }
    const within = run.progress && run.progress.total > 0 ? `, ${run.progress.done} of ${run.progress.total} ${plain(run.progress.what, 20)} in this round` : "";
    element.append(
      h("p", {}, h("strong", { class: "name" }, plain(run.label)), " ", bar, ` round ${run.rounds} of ${planned(run) || "?"}${within}${run.paused ? ", paused" : ""} `, buttons, " ", said),
    );
    if (run.server) element.append(...served(run, run.server));
  }
  if (active.length && !token()) {
    element.append(h("p", { class: "soft" }, "To stop or pause a run, open the address that the dashboard printed, with its token."));
  }
  return element;
}

export interface LiveHandlers {
  run: (run: Run) => void;
  gone: (id: string) => void;
  state: (connected: boolean) => void;
}

/** Follows the server's events; the browser connects again by itself. */
export function follow(handlers: LiveHandlers): void {
  const source = new EventSource("/events");
  source.addEventListener("run", (event) => handlers.run(checkedRun(JSON.parse((event as MessageEvent<string>).data))));
  source.addEventListener("gone", (event) => handlers.gone(String(JSON.parse((event as MessageEvent<string>).data))));
  source.addEventListener("open", () => handlers.state(true));
  source.addEventListener("error", () => handlers.state(false));
}
