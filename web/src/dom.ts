// Elements are made from text nodes only, never from markup, so that nothing in a run folder can become code.

type Child = Node | string | null;
type Listener = (event: Event) => void;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number | boolean | Listener> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

/** Text of a run folder on one line, without control and direction characters that could disguise it. */
export function plain(text: string, most = 120): string {
  const clean = text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");
  return clean.length > most ? clean.slice(0, most - 1) + "…" : clean;
}

export function clear(element: Element): void {
  while (element.firstChild) element.firstChild.remove();
}

const prefixes: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** 1234567 -> "1.23 M". */
export function short(value: number | null | undefined, unit = ""): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  for (const [size, prefix] of prefixes) {
    if (Math.abs(value) >= size) return digits(value / size, 3) + " " + prefix + unit;
  }
  return digits(value, 3) + (unit ? " " + unit : "");
}

export function digits(value: number, significant: number): string {
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(value)));
  if (size < -4 || size > 15) return value.toExponential(significant - 1);
  return value.toFixed(Math.max(0, Math.min(12, significant - 1 - size)));
}

export function score(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Math.abs(value) < 100 ? value.toFixed(4) : digits(value, 5);
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 100) return digits(seconds, 3) + " s";
  if (seconds < 6000) return digits(seconds / 60, 3) + " min";
  if (seconds < 360000) return digits(seconds / 3600, 3) + " h";
  return digits(seconds / 86400, 3) + " d";
}

/** A table whose columns sort when their heading is pressed. */
export interface Column<T> {
  name: string;
  cell: (row: T) => Node | string;
  key?: (row: T) => number | string | null;
}

export function table<T>(caption: string, columns: Column<T>[], rows: T[]): HTMLElement {
  let order = rows.slice();
  let sorted = -1;
  let down = false;
  const body = h("tbody");
  const fill = (): void => {
    clear(body);
    for (const row of order) {
      body.append(
        h("tr", {}, ...columns.map((column) => h("td", column.key ? { class: "number" } : {}, column.cell(row)))),
      );
    }
  };
  const headings = columns.map((column, i) => {
    const key = column.key;
    if (!key) return h("th", { scope: "col" }, column.name);
    const heading = h("th", { scope: "col", class: "number" });
    const button = h("button", { type: "button", class: "sort" }, column.name);
    button.addEventListener("click", () => {
      down = sorted === i ? !down : true;
      sorted = i;
      const rank = (row: T): number | string => key(row) ?? (down ? -Infinity : Infinity);
      order = rows.slice().sort((a, b) => {
        const [x, y] = [rank(a), rank(b)];
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      fill();
    });
    heading.append(button);
    return heading;
  });
  fill();
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ...headings)), body),
  );
}

export function select(
  label: string,
  options: { value: string; text: string }[],
  value: string,
  change: (value: string) => void,
): HTMLElement {
  const input = h("select", {}, ...options.map((o) => h("option", { value: o.value, selected: o.value === value }, o.text)));
  input.addEventListener("change", () => change(input.value));
  return h("label", {}, label + " ", input);
}

export function checkbox(label: string, checked: boolean, change: (on: boolean) => void): HTMLElement {
  const input = h("input", { type: "checkbox", checked });
  input.addEventListener("change", () => change(input.checked));
  return h("label", { class: "check" }, input, " " + label);
}
