import { colourOf, isDark } from "./chart";
import { Client, Run } from "./data";
import { clear, digits, h, plain, score, select, table } from "./dom";

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A canvas that is drawn again when its width changes. */
function picture(label: string, height: number, draw: (context: CanvasRenderingContext2D, width: number) => void): HTMLElement {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  const element = h("div", { class: "chart" }, canvas);
  const paint = (): void => {
    const width = element.clientWidth;
    if (width < 10) return;
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
    const context = canvas.getContext("2d");
    if (!context) return;
    context.scale(ratio, ratio);
    context.font = "12px system-ui, sans-serif";
    draw(context, width);
  };
  new ResizeObserver(paint).observe(element);
  element.addEventListener("repaint", paint);
  return element;
}

function sum(values: number[]): number {
  return values.reduce((a, b) => a + b, 0);
}

/** One bar per client, as long as it has examples and coloured by label. */
function bars(clients: Client[], labels: string[]): HTMLElement {
  const row = Math.max(3, Math.min(20, 700 / clients.length));
  const named = row >= 12;
  const most = Math.max(1, ...clients.map((c) => c.train));
  const label = `${clients.length} clients hold ${sum(clients.map((c) => c.train))} training examples, the largest ${most}`;
  return picture(label, Math.ceil(row * clients.length) + 20, (context, width) => {
    const left = named ? Math.min(160, width / 4) : 8;
    const room = width - left - 60;
    context.textBaseline = "middle";
    clients.forEach((client, i) => {
      const y = i * row;
      if (named) {
        context.fillStyle = css("--soft");
        context.textAlign = "right";
        context.fillText(plain(client.name, Math.floor(left / 7)), left - 6, y + row / 2);
      }
      let x = left;
      const counts = client.labels && labels.length ? client.labels : [client.train];
      counts.forEach((count, label) => {
        const length = (count / most) * room;
        context.fillStyle = colourOf(label);
        context.globalAlpha = label >= 8 ? 0.55 : 1;
        context.fillRect(x, y + 0.5, length, Math.max(1, row - 1));
        x += length;
      });
      context.globalAlpha = 1;
      if (named) {
        context.fillStyle = css("--soft");
        context.textAlign = "left";
        context.fillText(String(client.train), x + 4, y + row / 2);
      }
    });
  });
}

/** Share of each label in each client's examples: one column per client, one line per label. */
function mix(clients: Client[], labels: string[]): HTMLElement {
  const row = Math.max(6, Math.min(22, 400 / labels.length));
  return picture(`Share of each of ${labels.length} labels in the examples of each client`, row * labels.length + 24, (context, width) => {
    const left = Math.min(160, width / 4);
    const cell = (width - left - 4) / clients.length;
    context.textBaseline = "middle";
    context.textAlign = "right";
    labels.forEach((label, l) => {
      context.fillStyle = css("--soft");
      if (row >= 10) context.fillText(plain(label, Math.floor(left / 7)), left - 6, l * row + row / 2);
      clients.forEach((client, c) => {
        const share = client.train > 0 ? (client.labels?.[l] ?? 0) / client.train : 0;
        context.fillStyle = isDark() ? "#7db8f0" : "#0b5cad";
        context.globalAlpha = 0.04 + 0.96 * share;
        context.fillRect(left + c * cell, l * row, Math.max(0.5, cell - (cell > 3 ? 1 : 0)), row - 1);
      });
      context.globalAlpha = 1;
    });
    context.fillStyle = css("--soft");
    context.textAlign = "left";
    const note = width < 500 ? "strong: a large share" : "a stronger colour means a larger share";
    context.fillText(`client 1 to ${clients.length}` + (width < 300 ? "" : ", " + note), left, row * labels.length + 12);
  });
}

function median(sorted: number[]): number {
  const half = (sorted.length - 1) / 2;
  return (sorted[Math.floor(half)] + sorted[Math.ceil(half)]) / 2;
}

/** How many clients have which score. */
function histogram(values: number[], name: string): HTMLElement {
  const sorted = values.slice().sort((a, b) => a - b);
  const [low, high] = [sorted[0], sorted[sorted.length - 1]];
  const bins = Math.max(1, Math.min(30, Math.ceil(Math.sqrt(values.length) * 1.5)));
  const step = (high - low) / bins || 1;
  const counts = new Array<number>(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - low) / step))]++;
  const most = Math.max(...counts);
  const text = `${name} of ${values.length} clients: lowest ${score(low)}, median ${score(median(sorted))}, highest ${score(high)}`;
  const element = picture(text, 180, (context, width) => {
    const left = 34;
    const bar = (width - left - 8) / bins;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = css("--soft");
    context.fillText(String(most), left - 6, 8);
    context.fillText("0", left - 6, 148);
    counts.forEach((count, i) => {
      context.fillStyle = colourOf(0);
      const height = (count / most) * 140;
      context.fillRect(left + i * bar, 148 - height, Math.max(1, bar - 1), height);
    });
    context.fillStyle = css("--soft");
    context.textAlign = "left";
    context.fillText(digits(low, 3), left, 164);
    context.textAlign = "right";
    context.fillText(digits(high, 3), width - 8, 164);
    const x = left + ((median(sorted) - low) / (high - low || 1)) * (width - left - 8);
    context.strokeStyle = css("--ink");
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, 148);
    context.stroke();
  });
  return h("div", {}, h("p", {}, text + "."), element);
}

/** Who held what, and how well each of them was served. */
export class Clients {
  readonly element = h("div");
  private readonly place = h("div");
  private readonly chooser = h("div", { class: "controls" });
  private runs: Run[] = [];
  private chosen = "";
  private known = "";

  constructor() {
    this.element.append(this.chooser, this.place);
  }

  /** False: no run says anything about its clients. */
  update(runs: Run[]): boolean {
    this.runs = runs.filter((run) => run.partition || run.scores || run.deciles.length);
    if (!this.runs.length) return false;
    if (!this.runs.some((run) => run.id === this.chosen)) this.chosen = this.runs[0].id;
    const known = JSON.stringify(this.runs.map((run) => [run.id, run.label]));
    if (known !== this.known) {
      clear(this.chooser);
      if (this.runs.length > 1) {
        const options = this.runs.map((run) => ({ value: run.id, text: plain(run.label, 60) }));
        this.chooser.append(
          select("Run", options, this.chosen, (value) => {
            this.chosen = value;
            this.fill();
          }),
        );
      }
    }
    const first = this.known === "";
    this.known = known;
    const run = this.run();
    if (first || (run && run.status === "running")) this.fill();
    return true;
  }

  redraw(): void {
    if (this.runs.length) this.fill();
  }

  private run(): Run | undefined {
    return this.runs.find((run) => run.id === this.chosen);
  }

  private fill(): void {
    const run = this.run();
    clear(this.place);
    if (!run) return;
    if (run.partition) this.place.append(...this.partition(run));
    if (run.scores) this.place.append(...this.scores(run));
    if (run.deciles.length) {
      this.place.append(
        h("h3", {}, "Scores by activity"),
        table("Scores of tenths of the clients, from least to most active", [
          { name: "clients", cell: (d) => plain(d.name, 30) },
          { name: "how many", cell: (d) => String(d.clients), key: (d) => d.clients },
          { name: plain(run.metric, 30), cell: (d) => score(d.score), key: (d) => d.score },
        ], run.deciles),
      );
    }
  }

  private partition(run: Run): Node[] {
    const partition = run.partition;
    if (!partition) return [];
    const shown = partition.clients;
    const labels = partition.labels;
    const note = shown.length < partition.total ? ` ${shown.length} of ${partition.total} clients are shown.` : "";
    const nodes: Node[] = [
      h("h3", {}, "Who held what"),
      h("p", {}, `${partition.total} clients, dealt by ${plain(partition.method, 40)}.${note}`),
      bars(shown, labels),
    ];
    if (labels.length && labels.length <= 8) {
      const legend = h("div", { class: "legend" });
      labels.forEach((label, i) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = colourOf(i);
        legend.append(h("span", {}, swatch, plain(label, 40)));
      });
      nodes.push(legend);
    }
    if (labels.length > 1) nodes.push(h("h3", {}, "Mix of labels"), mix(shown, labels));
    nodes.push(
      h("details", {}, h("summary", {}, "The same as a table"), table("Examples per client", [
        { name: "client", cell: (c) => plain(c.name, 60) },
        { name: "training examples", cell: (c) => String(c.train), key: (c) => c.train },
        { name: "test examples", cell: (c) => String(c.test), key: (c) => c.test },
      ], shown)),
    );
    return nodes;
  }

  private scores(run: Run): Node[] {
    const entries = Object.entries(run.scores?.clients ?? {}).filter((e): e is [string, number] => typeof e[1] === "number");
    if (!entries.length) return [];
    return [
      h("h3", {}, `Scores of single clients after round ${run.scores?.round ?? 0}`),
      histogram(entries.map((e) => e[1]), plain(run.metric, 30)),
      h("details", {}, h("summary", {}, "By name"), table("Score of each client", [
        { name: "client", cell: (e) => plain(e[0], 60) },
        { name: plain(run.metric, 30), cell: (e) => score(e[1]), key: (e) => e[1] },
      ], entries.sort((a, b) => a[1] - b[1]))),
    ];
  }
}
