import { extent, padded, Range, ticks, tickText } from "./axis";
import { clear, digits, h, plain } from "./dom";

/** A curve; x ascends. A band is drawn behind it. */
export interface Series {
  name: string;
  x: number[];
  y: number[];
  low?: number[];
  high?: number[];
  colour: string;
  dash: number[];
  faint?: boolean;
}

export interface ChartOptions {
  label: string;
  xLabel: string;
  yLabel: string;
  log?: boolean;
  target?: number | null;
  xText?: (value: number) => string;
  wholeX?: boolean;
  height?: number;
}

// Okabe and Ito, for readers who see colours differently; then the same with dashes.
const lightColours = ["#0072b2", "#d55e00", "#007a5a", "#a8468b", "#8a6d00", "#2f86b5", "#7a4a00", "#444444"];
const darkColours = ["#56b4e9", "#ff9a4d", "#2fcf9f", "#e79ccb", "#f0e442", "#9ad1f5", "#e6b566", "#cccccc"];
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

export function colourOf(index: number): string {
  const colours = isDark() ? darkColours : lightColours;
  return colours[index % colours.length];
}

/** How a run is drawn: runs that differ only in their seed share a colour and differ in their dashes. */
export interface Style {
  colour: string;
  dash: number[];
}

export function styleOf(group: number, member: number): Style {
  return { colour: colourOf(group), dash: dashes[(Math.floor(group / lightColours.length) + member) % dashes.length] };
}

/** A piece of the line, for tables and legends. */
export function swatch(style: Style): HTMLElement {
  const element = h("span", { class: "swatch" });
  element.style.background = style.dash.length
    ? `repeating-linear-gradient(90deg, ${style.colour} 0 5px, transparent 5px 8px)`
    : style.colour;
  return element;
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The first index whose x is at least `value`. */
export function lower(x: number[], value: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Curves on a canvas. Drag to zoom, double-click or press 0 to see everything, + and - zoom, arrow keys move a cursor
 * that reads the values out. Only what a pixel column can show is drawn: a million points stay fluid.
 */
export class LineChart {
  readonly element: HTMLElement;
  private readonly under = h("canvas", { "aria-hidden": "true" });
  private readonly over = h("canvas", { class: "over", tabindex: 0, role: "img" });
  private readonly tip = h("div", { class: "tip", hidden: true });
  private readonly spoken = h("p", { class: "skip", "aria-live": "polite" });
  private series: Series[] = [];
  private options: ChartOptions;
  private full: { x: Range; y: Range } = { x: { low: 0, high: 1 }, y: { low: 0, high: 1 } };
  private view: Range | null = null;
  private cursor: number | null = null;
  private drag: number | null = null;
  private pending = 0;
  private box = { left: 58, right: 12, top: 10, bottom: 40, width: 0, height: 0 };
  private yView: Range = { low: 0, high: 1 };
  private log = false;

  constructor(options: ChartOptions) {
    this.options = options;
    this.element = h("div", { class: "chart" }, this.under, this.over, this.tip, this.spoken);
    this.listen();
    new ResizeObserver(() => this.redraw()).observe(this.element);
    this.element.addEventListener("repaint", () => this.draw());  // at once, for printing
  }

  set(series: Series[], options: ChartOptions): void {
    const sameAxis = options.xLabel === this.options.xLabel;
    this.series = series;
    this.options = options;
    if (!sameAxis) this.view = null;
    this.measure();
    this.over.setAttribute("aria-label", options.label + ": " + this.summary());
    this.redraw();
  }

  zoom(factor: number): void {
    const { low, high } = this.view ?? this.full.x;
    const middle = this.cursor ?? (low + high) / 2;
    this.look({ low: middle - (middle - low) * factor, high: middle + (high - middle) * factor });
  }

  reset(): void {
    this.view = null;
    this.redraw();
  }

  redraw(): void {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  private summary(): string {
    const parts = this.series.slice(0, 8).map((s) => {
      const last = s.y[s.y.length - 1];
      return plain(s.name, 40) + " ends at " + (last === undefined ? "nothing" : digits(last, 4));
    });
    return parts.join("; ") + (this.series.length > 8 ? `; and ${this.series.length - 8} more` : "");
  }

  private measure(): void {
    this.log = this.options.log === true && this.series.every((s) => s.y.every((v) => v > 0));
    const all = { x: [] as Range[], y: [] as Range[] };
    for (const s of this.series) {
      const x = s.x.length ? { low: s.x[0], high: s.x[s.x.length - 1] } : null;
      if (x) all.x.push(x);
      for (const column of [s.y, s.low, s.high]) {
        const y = column ? extent(column) : null;
        if (y) all.y.push(y);
      }
    }
    if (typeof this.options.target === "number") all.y.push({ low: this.options.target, high: this.options.target });
    const whole = (ranges: Range[]): Range =>
      ranges.length
        ? { low: Math.min(...ranges.map((r) => r.low)), high: Math.max(...ranges.map((r) => r.high)) }
        : { low: 0, high: 1 };
    const x = whole(all.x);
    this.full = { x: x.high > x.low ? x : { low: x.low - 0.5, high: x.high + 0.5 }, y: padded(whole(all.y), this.log) };
  }

  private look(range: Range): void {
    const { low, high } = this.full.x;
    const span = Math.min(Math.max(range.high - range.low, (high - low) * 1e-5), high - low);
    const start = Math.min(Math.max(range.low, low), high - span);
    this.view = span >= (high - low) * 0.999 ? null : { low: start, high: start + span };
    this.redraw();
  }

  private px(x: number): number {
    const { low, high } = this.view ?? this.full.x;
    return this.box.left + ((x - low) / (high - low)) * this.box.width;
  }

  private py(y: number): number {
    const { low, high } = this.yView;
    const place = this.log ? Math.log(y / low) / Math.log(high / low) : (y - low) / (high - low);
    return this.box.top + (1 - place) * this.box.height;
  }

  private xAt(pixel: number): number {
    const { low, high } = this.view ?? this.full.x;
    return low + ((pixel - this.box.left) / Math.max(1, this.box.width)) * (high - low);
  }

  private visibleY(): Range {
    if (!this.view) return this.full.y;
    let low = Infinity;
    let high = -Infinity;
    for (const s of this.series) {
      const end = Math.min(s.x.length, lower(s.x, this.view.high) + 1);
      for (let i = Math.max(0, lower(s.x, this.view.low) - 1); i < end; i++) {
        low = Math.min(low, s.low ? s.low[i] : s.y[i]);
        high = Math.max(high, s.high ? s.high[i] : s.y[i]);
      }
    }
    return low <= high ? padded({ low, high }, this.log) : this.full.y;
  }

  private prepare(canvas: HTMLCanvasElement, height: number): CanvasRenderingContext2D | null {
    const ratio = Math.min(3, window.devicePixelRatio || 1);
    const width = this.element.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
    const context = canvas.getContext("2d");
    context?.scale(ratio, ratio);
    return context;
  }

  private draw(): void {
    const width = this.element.clientWidth;
    if (width < 10) return;
    const height = this.options.height ?? (width < 500 ? 260 : 360);
    const context = this.prepare(this.under, height);
    if (!context) return;
    this.box.width = width - this.box.left - this.box.right;
    this.box.height = height - this.box.top - this.box.bottom;
    this.yView = this.visibleY();
    this.drawAxes(context, width, height);
    context.save();
    context.beginPath();
    context.rect(this.box.left - 4, this.box.top - 4, this.box.width + 8, this.box.height + 8);  // whole dots
    context.clip();
    for (const s of this.series) this.drawBand(context, s);
    for (const s of this.series) this.drawLine(context, s);
    if (typeof this.options.target === "number") this.drawTarget(context, this.options.target);
    context.restore();
    this.drawCursor(height);
  }

  private drawAxes(context: CanvasRenderingContext2D, width: number, height: number): void {
    const { left, top } = this.box;
    const xTicks = ticks(this.view ?? this.full.x, width / 110, false, this.options.wholeX ? 1 : 0);
    const yTicks = ticks(this.yView, height / 60, this.log);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = css("--soft");
    context.strokeStyle = css("--grid");
    context.lineWidth = 1;
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const value of xTicks) {
      const x = Math.round(this.px(value)) + 0.5;
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + this.box.height);
      context.stroke();
      context.fillText(this.options.xText ? this.options.xText(value) : tickText(value, xTicks), x, top + this.box.height + 5);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of yTicks) {
      const y = Math.round(this.py(value)) + 0.5;
      context.beginPath();
      context.moveTo(left, y);
      context.lineTo(left + this.box.width, y);
      context.stroke();
      context.fillText(tickText(value, yTicks), left - 6, y);
    }
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillText(this.options.xLabel, left + this.box.width / 2, height - 2);
    context.save();
    context.translate(11, top + this.box.height / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = "middle";
    context.fillText(plain(this.options.yLabel, 40), 0, 0);
    context.restore();
  }

  private range(s: Series): [number, number] {
    const { low, high } = this.view ?? this.full.x;
    return [Math.max(0, lower(s.x, low) - 1), Math.min(s.x.length, lower(s.x, high) + 1)];
  }

  private drawBand(context: CanvasRenderingContext2D, s: Series): void {
    if (!s.low || !s.high) return;
    const [begin, end] = this.range(s);
    const step = Math.max(1, Math.floor((end - begin) / (this.box.width * 2)));
    context.beginPath();
    for (let i = begin; i < end; i += step) context.lineTo(this.px(s.x[i]), this.py(s.high[i]));
    for (let i = end - 1; i >= begin; i -= step) context.lineTo(this.px(s.x[i]), this.py(s.low[i]));
    context.closePath();
    context.globalAlpha = 0.18;
    context.fillStyle = s.colour;
    context.fill();
    context.globalAlpha = 1;
  }

  private drawLine(context: CanvasRenderingContext2D, s: Series): void {
    const [begin, end] = this.range(s);
    context.strokeStyle = s.colour;
    context.fillStyle = s.colour;
    context.globalAlpha = s.faint ? 0.35 : 1;
    const many = this.series.length > 24;  // thin lines tell apart, and are quick to draw
    context.lineWidth = s.faint || many ? 1 : 2;
    context.lineJoin = many ? "bevel" : "round";
    context.setLineDash(s.dash);
    context.beginPath();
    if (end - begin > this.box.width * 3) {
      // First, lowest, highest and last point of each pixel column.
      let i = begin;
      while (i < end) {
        const column = Math.floor(this.px(s.x[i]));
        let low = s.y[i];
        let high = s.y[i];
        const first = s.y[i];
        let last = s.y[i];
        for (; i < end && Math.floor(this.px(s.x[i])) === column; i++) {
          last = s.y[i];
          if (last < low) low = last;
          if (last > high) high = last;
        }
        for (const y of [first, low, high, last]) context.lineTo(column + 0.5, this.py(y));
      }
    } else {
      for (let i = begin; i < end; i++) context.lineTo(this.px(s.x[i]), this.py(s.y[i]));
    }
    context.stroke();
    context.setLineDash([]);
    if (!s.faint && !many && end - begin <= 40) {
      for (let i = begin; i < end; i++) {
        context.beginPath();
        context.arc(this.px(s.x[i]), this.py(s.y[i]), 3, 0, 2 * Math.PI);
        context.fill();
      }
    }
    context.globalAlpha = 1;
  }

  private drawTarget(context: CanvasRenderingContext2D, target: number): void {
    const y = this.py(target);
    context.strokeStyle = css("--ink");
    context.fillStyle = css("--ink");
    context.setLineDash([4, 4]);
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(this.box.left, y);
    context.lineTo(this.box.left + this.box.width, y);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillText("target " + digits(target, 4), this.box.left + 6, y - 2);
  }

  private drawCursor(height: number): void {
    const context = this.prepare(this.over, height);
    if (!context) return;
    this.tip.hidden = true;
    if (this.cursor === null) return;
    const x = this.px(this.cursor);
    if (this.drag !== null) {
      const from = this.px(this.drag);
      context.fillStyle = css("--accent");
      context.globalAlpha = 0.15;
      context.fillRect(Math.min(from, x), this.box.top, Math.abs(x - from), this.box.height);
      context.globalAlpha = 1;
    }
    context.strokeStyle = css("--soft");
    context.beginPath();
    context.moveTo(x, this.box.top);
    context.lineTo(x, this.box.top + this.box.height);
    context.stroke();
    const values = this.valuesAt(this.cursor);
    for (const { series, index } of values) {
      context.fillStyle = series.colour;
      context.beginPath();
      context.arc(this.px(series.x[index]), this.py(series.y[index]), 4, 0, 2 * Math.PI);
      context.fill();
    }
    if (values.length) this.showTip(x, values);
  }

  private valuesAt(x: number): { series: Series; index: number }[] {
    const result: { series: Series; index: number }[] = [];
    const reach = Math.abs(this.xAt(30) - this.xAt(0));
    for (const series of this.series) {
      if (series.faint || series.x.length === 0) continue;
      let index = Math.min(series.x.length - 1, lower(series.x, x));
      if (index > 0 && Math.abs(series.x[index - 1] - x) < Math.abs(series.x[index] - x)) index--;
      if (Math.abs(series.x[index] - x) <= reach) result.push({ series, index });
    }
    return result.sort((a, b) => b.series.y[b.index] - a.series.y[a.index]).slice(0, 12);
  }

  private showTip(x: number, values: { series: Series; index: number }[]): void {
    clear(this.tip);
    const at = values[0].series.x[values[0].index];
    const xText = this.options.xText ? this.options.xText(at) : digits(at, 6).replace(/\.0+$/, "");
    this.tip.append(h("div", { class: "soft" }, `${this.options.xLabel} ${xText}`));
    for (const { series, index } of values) {
      const band = series.low && series.high ? ` (${digits(series.low[index], 4)} to ${digits(series.high[index], 4)})` : "";
      this.tip.append(h("div", {}, swatch(series), `${digits(series.y[index], 4)}${band}  ${plain(series.name, 60)}`));
    }
    this.tip.hidden = false;
    const width = this.tip.offsetWidth;
    const left = x + 14 + width > this.element.clientWidth ? x - width - 14 : x + 14;
    this.tip.style.left = Math.max(0, left) + "px";
    this.tip.style.top = "12px";
    this.spoken.textContent = document.activeElement === this.over ? this.tip.textContent : "";
  }

  private listen(): void {
    const point = (event: PointerEvent): number => this.xAt(event.clientX - this.over.getBoundingClientRect().left);
    const refresh = (): void => this.drawCursor(this.under.clientHeight);
    this.over.addEventListener("pointermove", (event) => {
      const { low, high } = this.view ?? this.full.x;
      this.cursor = Math.min(Math.max(point(event), low), high);
      refresh();
    });
    this.over.addEventListener("pointerleave", () => {
      if (this.drag === null) this.cursor = null;
      refresh();
    });
    this.over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = point(event);
      if (event.pointerType === "mouse") this.over.setPointerCapture(event.pointerId);
    });
    const release = (event: PointerEvent): void => {
      const from = this.drag;
      this.drag = null;
      const to = point(event);
      if (from !== null && Math.abs(this.px(from) - this.px(to)) > 8) this.look({ low: Math.min(from, to), high: Math.max(from, to) });
      else refresh();
    };
    this.over.addEventListener("pointerup", release);
    this.over.addEventListener("pointercancel", () => {
      this.drag = null;
      refresh();
    });
    this.over.addEventListener("dblclick", () => this.reset());
    this.over.addEventListener("blur", () => {
      this.cursor = null;
      refresh();
    });
    this.over.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const { low, high } = this.view ?? this.full.x;
    const step = (high - low) / (event.shiftKey ? 10 : 100);
    const move = (x: number): void => {
      this.cursor = Math.min(Math.max(x, low), high);
      this.drawCursor(this.under.clientHeight);
    };
    if (event.key === "ArrowLeft") move((this.cursor ?? high) - step);
    else if (event.key === "ArrowRight") move((this.cursor ?? low) + step);
    else if (event.key === "Home") move(low);
    else if (event.key === "End") move(high);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
  }
}

/** The zoom buttons of a chart, for a finger. */
export function zoomButtons(chart: LineChart): HTMLElement {
  return h(
    "span",
    { class: "screen" },
    h("button", { type: "button", "aria-label": "Zoom in", click: () => chart.zoom(0.5) }, "+"),
    " ",
    h("button", { type: "button", "aria-label": "Zoom out", click: () => chart.zoom(2) }, "−"),
    " ",
    h("button", { type: "button", click: () => chart.reset() }, "Show all"),
  );
}
