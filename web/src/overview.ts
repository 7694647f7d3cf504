import { styleOf, swatch } from "./chart";
import { Run, seedGroups } from "./data";
import { Column, digits, duration, h, plain, score, short, table } from "./dom";

function best(run: Run): { value: number; index: number } | null {
  const scores = run.evaluation[run.metric] ?? [];
  let found: { value: number; index: number } | null = null;
  scores.forEach((value, index) => {
    if (value === null) return;
    if (!found || (run.higher ? value > found.value : value < found.value)) found = { value, index };
  });
  return found;
}

function last(run: Run): number | null {
  const scores = (run.evaluation[run.metric] ?? []).filter((v) => v !== null);
  return scores.length ? scores[scores.length - 1] : null;
}

function total(run: Run, name: string): number | null {
  const value = run.totals[name];
  return typeof value === "number" ? value : null;
}

export function badge(status: string): HTMLElement {
  const good = ["finished", "target_reached", "working"].includes(status);
  const bad = ["stopped", "interrupted", "late", "gone", "refuses"].includes(status);
  return h("span", { class: "badge" + (good ? " good" : bad ? " bad" : "") }, plain(status.replace(/_/g, " "), 20));
}

/** One row per run, with a box that shows or hides its curves. */
export function overview(runs: Run[], hidden: Set<string>, changed: () => void): HTMLElement {
  const metrics = new Set(runs.map((run) => run.metric));
  const name = metrics.size === 1 ? plain([...metrics][0], 30) : "score";
  const styles = new Map(seedGroups(runs).flatMap((group, g) => group.map((run, i) => [run.id, styleOf(g, i)] as const)));
  const emulated = runs.some((run) => total(run, "emulated_seconds") !== null);
  const columns: Column<Run>[] = [
    {
      name: "run",
      cell: (run) => {
        const box = h("input", { type: "checkbox", checked: !hidden.has(run.id), "aria-label": "Show the curves of " + plain(run.label) });
        box.addEventListener("change", () => {
          if (box.checked) hidden.delete(run.id);
          else hidden.add(run.id);
          changed();
        });
        return h("span", { class: "name" }, box, " ", swatch(styles.get(run.id) ?? styleOf(0, 0)), plain(run.label));
      },
    },
    { name: "algorithm", cell: (run) => plain(run.algorithm, 40) },
    { name: "status", cell: (run) => badge(run.status) },
    {
      name: "rounds",
      cell: (run) => (run.planned > run.rounds ? `${run.rounds} of ${run.planned}` : String(run.rounds)),
      key: (run) => run.rounds,
    },
    { name: "best " + name, cell: (run) => score(best(run)?.value), key: (run) => best(run)?.value ?? null },
    {
      name: "in round",
      cell: (run) => {
        const found = best(run);
        return found ? String(run.evaluation.round?.[found.index] ?? "–") : "–";
      },
      key: (run) => best(run)?.index ?? null,
    },
    { name: "last", cell: (run) => score(last(run)), key: last },
    { name: "moved", cell: (run) => short(total(run, "bytes"), "B"), key: (run) => total(run, "bytes") },
    { name: "time", cell: (run) => duration(total(run, "seconds")), key: (run) => total(run, "seconds") },
  ];
  if (emulated) {
    columns.push(
      { name: "emulated time", cell: (run) => duration(total(run, "emulated_seconds")), key: (run) => total(run, "emulated_seconds") },
      { name: "energy per client", cell: (run) => short(total(run, "client_joules"), "J"), key: (run) => total(run, "client_joules") },
    );
  }
  if (runs.some((run) => run.privacy)) {
    const epsilon = (run: Run): number | null => (typeof run.privacy?.epsilon === "number" ? run.privacy.epsilon : null);
    columns.push({ name: "ε", cell: (run) => (epsilon(run) === null ? "–" : digits(epsilon(run) ?? 0, 3)), key: epsilon });
  }
  return table("Table of the runs", columns, runs);
}

interface Reached {
  round: number;
  seconds: number | null;
  bytes: number | null;
  emulated: number | null;
  joules: number | null;
}

/** The first evaluation as good as the target. */
export function reached(run: Run, target: number): Reached | null {
  const scores = run.evaluation[run.metric] ?? [];
  const i = scores.findIndex((v) => v !== null && (run.higher ? v >= target : v <= target));
  if (i < 0) return null;
  const at = (name: string): number | null => run.evaluation[name]?.[i] ?? null;
  return { round: at("round") ?? 0, seconds: at("seconds"), bytes: at("bytes"), emulated: at("emulated_seconds"), joules: at("client_joules") };
}

/** What each run took to reach a score, which the reader may change. */
export class Costs {
  readonly element = h("div");
  private readonly place = h("div");
  private readonly input = h("input", { type: "number", step: "any" });
  private runs: Run[] = [];
  private chosen = false;

  constructor() {
    this.input.addEventListener("input", () => {
      this.chosen = true;
      this.fill();
    });
    this.element.append(h("div", { class: "controls" }, h("label", {}, "Target ", this.input)), this.place);
  }

  update(runs: Run[]): void {
    this.runs = runs;
    if (!this.chosen) this.input.value = this.suggested();
    this.fill();
  }

  private suggested(): string {
    for (const run of this.runs) {
      if (run.target !== null) return String(run.target);
      if (run.targets.length) return String(run.targets[run.targets.length - 1].target);
    }
    // What the weakest run still reaches, so rounded to its side.
    const bests = this.runs.map((run) => best(run)?.value).filter((v): v is number => v !== undefined);
    if (!bests.length) return "";
    const higher = this.runs[0].higher;
    const weakest = higher ? Math.min(...bests) : Math.max(...bests);
    if (weakest === 0) return "0";
    const scale = 10 ** (2 - Math.floor(Math.log10(Math.abs(weakest))));
    const rounded = higher ? Math.floor(weakest * scale + 1e-6) : Math.ceil(weakest * scale - 1e-6);
    return digits(rounded / scale, 3);
  }

  private fill(): void {
    this.place.replaceChildren();
    const target = Number(this.input.value);
    if (this.input.value === "" || !Number.isFinite(target)) return;
    const rows = this.runs.map((run) => ({ run, cost: reached(run, target) }));
    type Row = (typeof rows)[number];
    const column = (name: string, text: (c: Reached) => string, key: (c: Reached) => number | null): Column<Row> => ({
      name,
      cell: (row) => (row.cost ? text(row.cost) : "–"),
      key: (row) => (row.cost ? key(row.cost) : null),
    });
    const columns: Column<Row>[] = [
      { name: "run", cell: (row) => h("span", { class: "name" }, plain(row.run.label)) },
      column("round", (c) => String(c.round), (c) => c.round),
      column("time", (c) => duration(c.seconds), (c) => c.seconds),
      column("moved", (c) => short(c.bytes, "B"), (c) => c.bytes),
    ];
    if (rows.some((row) => row.cost?.emulated)) {
      columns.push(
        column("emulated time", (c) => duration(c.emulated), (c) => c.emulated),
        column("energy per client", (c) => short(c.joules, "J"), (c) => c.joules),
      );
    }
    this.place.append(table("What it took to reach the target", columns, rows));
    const missed = rows.filter((row) => !row.cost).length;
    if (missed) this.place.append(h("p", { class: "soft" }, `${missed} of ${rows.length} runs have not reached it.`));
  }
}
