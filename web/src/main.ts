import { Clients } from "./clients";
import { Curves } from "./curves";
import { PageData, readPage, Run } from "./data";
import { about, comparison, failures, privacy } from "./details";
import { clear, h, plain } from "./dom";
import { follow, running } from "./live";
import { Costs, overview } from "./overview";

let page: PageData;
const app = document.getElementById("app") as HTMLElement;
const hidden = new Set<string>();
let runs: Run[] = [];

/** A part of the page with a heading, hidden while it has nothing to show. */
function section(id: string, title: string): { element: HTMLElement; body: HTMLElement; link: HTMLElement } {
  const body = h("div");
  const element = h("section", { id, "aria-labelledby": id + "-title", hidden: true }, h("h2", { id: id + "-title" }, title), body);
  return { element, body, link: h("a", { href: "#" + id }, title) };
}

const parts = {
  live: section("live", "Running now"),
  runs: section("runs", "Runs"),
  curves: section("curves", "Learning curves"),
  costs: section("costs", "Cost to a target"),
  clients: section("clients", "Clients"),
  failures: section("failures", "Failures"),
  privacy: section("privacy", "Privacy"),
  settings: section("settings", "Settings that differ"),
  about: section("about", "What was run"),
};
const curves = new Curves(hidden);
const costs = new Costs();
const clients = new Clients();
const connection = h("span", { role: "status", class: "soft" });

function put(part: { element: HTMLElement; body: HTMLElement; link: HTMLElement }, content: HTMLElement | null): void {
  part.element.hidden = content === null;
  part.link.hidden = content === null;
  if (content === null || part.body.firstChild === content) return;
  clear(part.body);
  part.body.append(content);
}

/** What a reader sees first. */
function updateTop(): void {
  put(parts.live, page.live ? running(runs) : null);
  put(parts.runs, overview(runs, hidden, () => curves.redraw()));
  curves.update(runs);
  put(parts.curves, curves.element);
}

function updateRest(everything: boolean): void {
  costs.update(runs);
  put(parts.costs, costs.element);
  put(parts.clients, clients.update(runs) ? clients.element : null);
  put(parts.failures, failures(runs));
  put(parts.privacy, privacy(runs));
  if (!everything) return;
  put(parts.settings, comparison(runs));
  put(parts.about, h("div", {}, ...runs.map(about)));
}

function theme(): HTMLElement {
  const button = h("button", { type: "button", class: "screen" }, "Light or dark");
  button.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    repaint();
  });
  return button;
}

function repaint(): void {
  put(parts.runs, overview(runs, hidden, () => curves.redraw()));
  curves.redraw();
  clients.redraw();
}

/** Paper is light: the page and its charts change their colours for printing. */
function lightOnPaper(): void {
  const root = document.documentElement;
  const paint = (): void => {
    repaint();
    for (const chart of document.querySelectorAll(".chart")) chart.dispatchEvent(new Event("repaint"));
  };
  let before: string | undefined;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    paint();
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    paint();
  });
}

function title(): string {
  if (page.title) return plain(page.title);
  return runs.length === 1 ? plain(runs[0].label) : `${runs.length} runs`;
}

function build(): void {
  page = readPage();
  runs = page.runs;
  clear(app);
  document.title = title() + " – Chorus";
  const links = Object.values(parts).map((part) => part.link);
  app.append(
    h("a", { class: "skip", href: "#main" }, "Skip to the results"),
    h("header", { class: "top" }, h("h1", {}, title()), h("span", { class: "soft" }, `Chorus ${plain(page.version, 40)}, ${plain(page.generated, 40)}`), connection, h("span", { class: "grow" }), theme(), h("nav", { class: "sections", "aria-label": "Sections" }, ...links)),
    h("main", { id: "main", tabindex: -1 }, ...page.problems.map((text) => h("p", { class: "bad" }, plain(text, 400))), ...Object.values(parts).map((part) => part.element)),
    h("footer", {}, h("p", { class: "soft" }, "Written by Chorus. This page loads nothing from elsewhere.")),
  );
  updateTop();
  painted(() => {
    performance.mark("charts-drawn");
    updateRest(true);
    painted(() => performance.mark("page-complete"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  lightOnPaper();
}

/** Runs `next` when what was added so far has been painted. */
function painted(next: () => void): void {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(next)));
}

// Updates that come quickly one after another are drawn once.
let waiting = 0;
let added = false;
function soon(everything: boolean): void {
  added = added || everything;
  if (waiting) return;
  waiting = window.setTimeout(() => {
    waiting = 0;
    updateTop();
    updateRest(added);
    added = false;
  }, 200);
}

function replace(run: Run): void {
  const place = runs.findIndex((old) => old.id === run.id);
  const fresh = place < 0 || runs[place].status !== run.status;
  runs = place < 0 ? [...runs, run] : runs.map((old, i) => (i === place ? run : old));
  soon(fresh);
}

function start(): void {
  build();
  if (!page.live) return;
  follow({
    run: replace,
    gone: (id) => {
      runs = runs.filter((run) => run.id !== id);
      soon(true);
    },
    state: (connected) => (connection.textContent = connected ? "live" : "connection lost, trying again"),
  });
}

// The heading is painted before much data is read.
requestAnimationFrame(() => setTimeout(start));
