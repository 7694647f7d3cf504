import { differences, Run } from "./data";
import { badge } from "./overview";
import { digits, h, plain, short, table } from "./dom";

export function failures(runs: Run[]): HTMLElement | null {
  const rows = runs.flatMap((run) => run.failures.map((failure) => ({ run, ...failure })));
  if (!rows.length) return null;
  return table("Clients that failed", [
    { name: "run", cell: (f) => h("span", { class: "name" }, plain(f.run.label)) },
    { name: "reason", cell: (f) => h("span", { class: "name" }, plain(String(f.reason), 300)) },
    { name: "times", cell: (f) => String(f.count), key: (f) => f.count },
    { name: "rounds", cell: (f) => (f.first === f.last ? String(f.first) : `${f.first} to ${f.last}`), key: (f) => f.first },
  ], rows);
}

export function privacy(runs: Run[]): HTMLElement | null {
  const own = runs.filter((run) => run.privacy || run.ledger.length);
  if (!own.length) return null;
  const element = h("div");
  for (const run of own) {
    element.append(h("h3", {}, plain(run.label)));
    if (run.privacy) {
      const of = (name: string): string => {
        const value = run.privacy?.[name];
        return typeof value === "number" ? digits(value, 4) : "–";
      };
      element.append(
        h("p", {}, `(${of("epsilon")}, ${of("delta")})-differential privacy after ${of("charges")} releases with noise ${of("noise")} and sampling rate ${of("sampling_rate")}.`),
        h("p", {}, plain(String(run.privacy.statement ?? ""), 1000)),
      );
    }
    if (run.ledger.length) {
      element.append(table("What was charged to the privacy budget of " + plain(run.label), [
        { name: "what", cell: (c) => plain(String(c.what), 80) },
        { name: "mechanism", cell: (c) => plain(String(c.mechanism), 40) },
        { name: "noise", cell: (c) => digits(Number(c.noise), 4), key: (c) => c.noise },
        { name: "sampling rate", cell: (c) => digits(Number(c.sampling_rate), 4), key: (c) => c.sampling_rate },
        { name: "steps", cell: (c) => String(c.steps), key: (c) => c.steps },
      ], run.ledger));
    }
  }
  return element;
}

export function comparison(runs: Run[]): HTMLElement | null {
  if (runs.length < 2 || runs.length > 40) return null;
  const rows = differences(runs);
  if (!rows.length) return h("p", {}, "The configurations are equal.");
  return table("Settings in which the runs differ", [
    { name: "setting", cell: (row) => plain(row.key, 60) },
    ...runs.map((run, i) => ({
      name: plain(run.label, 24),
      cell: (row: { values: string[] }) => h("span", { class: "name" }, plain(row.values[i] || "–", 60)),
    })),
  ], rows);
}

/** What both sides of a network that is cut in two need; empty where none is. */
function sides(run: Run): [string, string][] {
  const values = (name: string): number[] => (run.round[name] ?? []).filter((v): v is number => v !== null);
  const most = (name: string): number => Math.max(0, ...values(name));
  if (!values("activation_bytes_up").length) return [];
  return ["client", "server"].map((side): [string, string] => [
    side === "client" ? "Client side" : "Server side",
    `${short(most(side + "_parameters"))} parameters, ${short(most(side + "_memory"), "B")} of memory, ` +
      `${short(most(side === "client" ? "activation_bytes_up" : "activation_bytes_down"), "B")} sent in a round`,
  ]);
}

/** Everything that is needed to repeat a run; filled when it is opened. */
export function about(run: Run): HTMLElement {
  const element = h("details", {}, h("summary", {}, h("span", { class: "name" }, plain(run.label)), " ", badge(run.status)));
  let filled = false;
  element.addEventListener("toggle", () => {
    if (filled || !element.open) return;
    filled = true;
    const facts: [string, string][] = [
      ["Started", run.started],
      ["Seed", String(run.seed)],
      ["Clients", String(run.clients || "–")],
      ["Parameters", run.parameters ? `${short(run.parameters)}, trained ${short(run.trained)}` : "–"],
      ...sides(run),
      ["Chorus", run.version],
      ["LibTorch", run.torch],
      ["Folder", run.folder],
    ];
    element.append(
      table("Facts about " + plain(run.label), [
        { name: "what", cell: (f) => f[0] },
        { name: "value", cell: (f) => plain(f[1] ?? "", 200) },
      ], facts),
      h("h3", {}, "Command"),
      h("pre", { tabindex: 0 }, plain(run.command, 4000)),
      h("h3", {}, "Configuration"),
      h("pre", { tabindex: 0 }, run.config),
    );
    if (run.card) element.append(h("h3", {}, "Model card"), h("pre", { tabindex: 0 }, run.card));
  });
  return element;
}
