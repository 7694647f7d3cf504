import { checkedRun, Run } from "./data";
import { h, plain } from "./dom";

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

/** The running runs: how far they are, who takes part, and buttons for whoever has the token. */
export function running(runs: Run[]): HTMLElement {
  const element = h("div");
  const active = runs.filter((run) => run.status === "running");
  if (!active.length) element.append(h("p", { class: "soft" }, "No run is active."));
  for (const run of active) {
    const said = h("span", { role: "status" });
    const bar = h("progress", { max: run.planned || 1, value: run.rounds, "aria-label": `Rounds of ${plain(run.label)}` });
    const buttons = h("span");
    if (token() && run.controllable) {
      const ask = (action: string, text: string): HTMLElement =>
        h("button", { type: "button", click: () => void order(run, action, (t) => (said.textContent = t)) }, text);
      buttons.append(run.paused ? ask("continue", "Continue") : ask("pause", "Pause"), " ", ask("stop", "Stop after this round"));
    }
    const within = run.progress && run.progress.total > 0 ? `, ${run.progress.done} of ${run.progress.total} ${plain(run.progress.what, 20)} in this round` : "";
    element.append(
      h("p", {}, h("strong", { class: "name" }, plain(run.label)), " ", bar, ` round ${run.rounds} of ${run.planned || "?"}${within}${run.paused ? ", paused" : ""} `, buttons, " ", said),
    );
    if (run.peers.length) {
      const states = new Map<string, string[]>();
      for (const peer of run.peers) states.set(peer.state, [...(states.get(peer.state) ?? []), peer.name]);
      for (const [state, names] of states) {
        element.append(h("p", {}, `${plain(state, 20)}: ${names.length} (${plain(names.join(", "), 200)})`));
      }
    }
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
