import { ChartOptions, LineChart, lower, Series, styleOf, swatch, zoomButtons } from "./chart";
import { Columns, Run, seedGroups } from "./data";
import { checkbox, clear, duration, h, plain, select, short } from "./dom";

const xNames: Record<string, string> = {
  round: "round",
  seconds: "time",
  bytes: "bytes moved",
  examples: "examples trained on",
  emulated_seconds: "emulated time",
  client_joules: "joules per client",
};

const notScores = new Set(["round", "seconds", "bytes", "examples", "emulated_seconds", "client_joules"]);

/** The columns that hold a curve's values: an evaluation's scores, or numbers of the rounds. */
function columnsOf(run: Run, y: string): Columns {
  return y.startsWith("round/") ? run.round : run.evaluation;
}

function curve(run: Run, x: string, y: string): { x: number[]; y: number[] } {
  const columns = columnsOf(run, y);
  const xs = columns[x] ?? [];
  const ys = columns[y.replace(/^round\//, "")] ?? [];
  const result = { x: [] as number[], y: [] as number[] };
  for (let i = 0; i < ys.length; i++) {
    const [a, b] = [xs[i], ys[i]];
    if (typeof a === "number" && typeof b === "number") {
      result.x.push(a);
      result.y.push(b);
    }
  }
  return result;
}

function smoothed(y: number[], amount: number): number[] {
  if (amount <= 0) return y;
  let mean = y[0];
  let weight = 0;
  // An exponential mean without the pull of its start.
  return y.map((value, i) => {
    mean = i === 0 ? value * (1 - amount) : mean * amount + value * (1 - amount);
    weight = weight * amount + (1 - amount);
    return mean / weight;
  });
}

function at(c: { x: number[]; y: number[] }, x: number): number {
  const high = Math.min(lower(c.x, x), c.x.length - 1);
  if (high === 0 || c.x[high] === x) return c.y[high];
  const share = (x - c.x[high - 1]) / (c.x[high] - c.x[high - 1]);
  return c.y[high - 1] + share * (c.y[high] - c.y[high - 1]);
}

/** Mean and standard deviation over runs at the points of the first one that all of them reach. */
export function band(curves: { x: number[]; y: number[] }[]): { x: number[]; y: number[]; low: number[]; high: number[] } {
  const result = { x: [] as number[], y: [] as number[], low: [] as number[], high: [] as number[] };
  const begin = Math.max(...curves.map((c) => c.x[0]));
  const end = Math.min(...curves.map((c) => c.x[c.x.length - 1]));
  const first = curves[0];
  for (let i = 0; i < first.x.length; i++) {
    const x = first.x[i];
    if (x < begin || x > end) continue;
    const values = curves.map((c) => (c.x[i] === x ? c.y[i] : at(c, x)));
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / Math.max(1, values.length - 1);
    const deviation = Math.sqrt(variance);
    result.x.push(x);
    result.y.push(mean);
    result.low.push(mean - deviation);
    result.high.push(mean + deviation);
  }
  return result;
}

function equal(a: Series, b: Series): boolean {
  return a.y.length === b.y.length && a.y.every((value, i) => value === b.y[i] && a.x[i] === b.x[i]);
}

export class Curves {
  readonly element: HTMLElement;
  private readonly chart: LineChart;
  private readonly controls = h("div", { class: "controls" });
  private readonly legend = h("div", { class: "legend" });
  private readonly hint = h("p", { class: "soft screen" }, "Drag to zoom, double-click to see everything. With the keyboard: arrows, + and -, 0.");
  private readonly note = h("p", { class: "soft" });
  private x = "round";
  private y = "";
  private log = false;
  private bands = true;
  private smoothing = 0;
  private runs: Run[] = [];
  private groups: Run[][] = [];
  private known = "";

  constructor(private readonly hidden: Set<string>) {
    this.chart = new LineChart(this.chartOptions());
    this.element = h("div", {}, this.controls, this.chart.element, this.legend, this.hint, this.note);
  }

  update(runs: Run[]): void {
    this.runs = runs;
    this.groups = seedGroups(runs);
    const names = this.names();
    if (!names.some((n) => n.value === this.y)) this.y = names[0]?.value ?? "";
    const known = JSON.stringify([names, this.xs(), this.groups.length < runs.length]);
    if (known !== this.known) this.makeControls(names);
    this.known = known;
    this.draw();
  }

  redraw(): void {
    this.draw();
  }

  private names(): { value: string; text: string }[] {
    const main = new Set<string>();
    const more = new Set<string>();
    const rounds = new Set<string>();
    for (const run of this.runs) {
      if (run.metric in run.evaluation) main.add(run.metric);
      for (const name of Object.keys(run.evaluation)) if (!notScores.has(name)) more.add(name);
      for (const name of Object.keys(run.round)) if (!notScores.has(name)) rounds.add(name);
    }
    const order = [...main, ...[...more].filter((n) => !main.has(n)).sort()];
    return [
      ...order.map((n) => ({ value: n, text: plain(n, 50) })),
      ...[...rounds].sort().map((n) => ({ value: "round/" + n, text: plain(n, 50) + " of the round" })),
    ];
  }

  private xs(): string[] {
    return Object.keys(xNames).filter((x) =>
      this.runs.some((run) => [run.evaluation, run.round].some((c) => (c[x] ?? []).some((v) => v !== null && v > 0))),
    );
  }

  private makeControls(names: { value: string; text: string }[]): void {
    clear(this.controls);
    const redraw = (change: () => void): void => {
      change();
      this.draw();
    };
    const xs = this.xs().map((x) => ({ value: x, text: xNames[x] }));
    const smooth = h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: this.smoothing });
    smooth.addEventListener("input", () => redraw(() => (this.smoothing = Number(smooth.value))));
    this.controls.append(
      select("Show", names, this.y, (value) => redraw(() => (this.y = value))),
      select("over", xs, this.x, (value) => redraw(() => (this.x = value))),
      h("label", {}, "Smooth ", smooth),
      checkbox("Logarithmic", this.log, (on) => redraw(() => (this.log = on))),
    );
    if (this.groups.length < this.runs.length) {
      this.controls.append(checkbox("Bands over seeds", this.bands, (on) => redraw(() => (this.bands = on))));
    }
    this.controls.append(zoomButtons(this.chart));
  }

  private chartOptions(): ChartOptions {
    const times = this.x === "seconds" || this.x === "emulated_seconds";
    const targets = new Set(this.runs.filter((r) => r.metric === this.y && r.target !== null).map((r) => r.target));
    return {
      label: "Learning curves",
      xLabel: xNames[this.x] ?? "",
      yLabel: this.y.replace(/^round\//, ""),
      log: this.log,
      wholeX: this.x === "round",
      target: targets.size === 1 ? [...targets][0] : null,
      xText: times ? duration : this.x === "bytes" ? (v) => short(v, "B") : undefined,
    };
  }

  private draw(): void {
    const series: Series[] = [];
    let thinned = false;
    const shown = (run: Run): boolean => !this.hidden.has(run.id);
    this.groups.forEach((group, g) => {
      const own = group.filter(shown);
      const curves = own.map((run) => curve(run, this.x, this.y)).map((c) => ({ x: c.x, y: smoothed(c.y, this.smoothing) }));
      thinned = thinned || own.some((run) => run.thinned);
      const full = curves.filter((c) => c.x.length > 0);
      if (this.bands && group.length > 1 && full.length > 1) {
        const mean = band(full);
        if (mean.x.length > 0) {
          series.push({ name: `${group[0].label} and ${full.length - 1} more seed${full.length > 2 ? "s" : ""}`, ...mean, ...styleOf(g, 0) });
          return;
        }
      }
      own.forEach((run, i) => {
        if (curves[i].x.length > 0) series.push({ name: run.label, ...curves[i], ...styleOf(g, group.indexOf(run)) });
      });
    });
    series.forEach((s, i) => {
      if (series.slice(0, i).some((other) => equal(other, s))) s.dash = [14, 14];  // its twin is seen through the gaps
    });
    this.chart.set(series, this.chartOptions());
    clear(this.legend);
    for (const s of series.slice(0, 100)) {
      this.legend.append(h("span", {}, swatch(s), plain(s.name, 70)));
    }
    const notes: string[] = [];
    if (series.some((s) => s.low)) notes.push("A band is the mean over seeds and one standard deviation.");
    if (thinned) notes.push("Long runs are thinned: each step keeps its lowest and highest value.");
    this.note.textContent = series.length ? notes.join(" ") : "Nothing was evaluated yet.";
  }
}
