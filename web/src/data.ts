// What `chorus report` and `chorus dashboard` put into the page (src/infrastructure/tracking/report/page_data.h).
// Everything here comes from run folders, which may be anybody's: nothing is trusted to have its type.

/** Columns of equal length; a value that is not finite is null. A long column is decoded when it is first used. */
export type Columns = Record<string, (number | null)[]>;

/** A client of a server: joined, working, late, resting, gone or refuses (src/apps/serving/client_board.h). */
export interface Peer {
  name: string;
  state: string;
  seconds: number;
  why: string;
}

export interface Client {
  name: string;
  train: number;
  test: number;
  labels?: number[];
}

export interface Milestone {
  round: number;
  seconds: number;
  bytes: number;
  emulated_seconds?: number;
  client_joules?: number;
}

export interface Run {
  id: string;
  label: string;
  folder: string;
  algorithm: string;
  metric: string;
  higher: boolean;
  target: number | null;
  status: string;
  rounds: number;
  planned: number;
  clients: number;
  parameters: number;
  trained: number;
  started: string;
  command: string;
  version: string;
  torch: string;
  seed: number;
  config: string;
  round: Columns;
  evaluation: Columns;
  thinned: boolean;
  failures: { reason: string; count: number; first: number; last: number }[];
  failed: number;
  partition: { method: string; labels: string[]; total: number; clients: Client[] } | null;
  scores: { round: number; clients: Record<string, number | null> } | null;
  deciles: { name: string; clients: number; score: number | null }[];
  targets: { target: number; reached: Milestone | null }[];
  totals: Record<string, number | null>;
  privacy: Record<string, number | string> | null;
  ledger: { what: string; mechanism: string; noise: number; sampling_rate: number; steps: number }[];
  card: string;
  progress: { done: number; total: number; what: string } | null;
  server: { state: string; waiting_for: string; rounds: number; repeated: number; clients: Peer[] } | null;
  controllable: boolean;
  paused: boolean;
}

export interface PageData {
  version: string;
  generated: string;
  live: boolean;
  title: string;
  runs: Run[];
  problems: string[];
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

/** A list, 32-bit numbers in base 64, or one value and how often it comes (run_view_json.cpp). */
function column(value: unknown): (number | null)[] {
  if (typeof value === "string") {
    try {
      const binary = atob(value);
      const bytes = new Uint8Array(binary.length);
      for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
      const view = new DataView(bytes.buffer);
      const result: (number | null)[] = [];
      for (let i = 0; i + 4 <= bytes.length; i += 4) {
        const number = view.getFloat32(i, true);
        result.push(Number.isFinite(number) ? number : null);
      }
      return result;
    } catch {
      return [];
    }
  }
  if (typeof value === "object" && value !== null && "same" in value) {
    const { same, count } = value as { same: unknown; count: unknown };
    return new Array<number | null>(Math.min(number(count), 1e6)).fill(typeof same === "number" ? same : null);
  }
  return list(value).map((v) => (typeof v === "number" ? v : null));
}

function columns(value: unknown): Columns {
  const result: Columns = Object.create(null) as Columns;
  if (typeof value !== "object" || value === null) return result;
  for (const [name, packed] of Object.entries(value)) {
    Object.defineProperty(result, name, {
      configurable: true,
      enumerable: true,
      get: () => {
        const decoded = column(packed);
        Object.defineProperty(result, name, { value: decoded, enumerable: true });
        return decoded;
      },
    });
  }
  return result;
}

function server(value: unknown): Run["server"] {
  if (typeof value !== "object" || value === null) return null;
  const raw = value as Record<string, unknown>;
  const clients = list(raw.clients).slice(0, 5000).map((entry) => {
    const peer = (typeof entry === "object" && entry !== null ? entry : {}) as Record<string, unknown>;
    return { name: text(peer.name), state: text(peer.state), seconds: number(peer.seconds), why: text(peer.why) };
  });
  return { state: text(raw.state), waiting_for: text(raw.waiting_for), rounds: number(raw.rounds), repeated: number(raw.repeated_rounds), clients };
}

/** A run with every field there, whatever was read. */
export function checkedRun(value: unknown): Run {
  const raw = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const some = raw as unknown as Run;
  return {
    ...some,
    id: text(raw.id),
    label: text(raw.label),
    folder: text(raw.folder),
    algorithm: text(raw.algorithm),
    metric: text(raw.metric),
    higher: raw.higher !== false,
    target: typeof raw.target === "number" ? raw.target : null,
    status: text(raw.status),
    rounds: number(raw.rounds),
    planned: number(raw.planned),
    clients: number(raw.clients),
    parameters: number(raw.parameters),
    trained: number(raw.trained),
    command: text(raw.command),
    config: text(raw.config),
    card: text(raw.card),
    round: columns(raw.round),
    evaluation: columns(raw.evaluation),
    failures: list(raw.failures) as Run["failures"],
    failed: number(raw.failed),
    deciles: list(raw.deciles) as Run["deciles"],
    targets: list(raw.targets) as Run["targets"],
    totals: (raw.totals ?? {}) as Run["totals"],
    ledger: list(raw.ledger) as Run["ledger"],
    server: server(raw.server),
    partition: (raw.partition ?? null) as Run["partition"],
    scores: (raw.scores ?? null) as Run["scores"],
    privacy: (raw.privacy ?? null) as Run["privacy"],
    progress: (raw.progress ?? null) as Run["progress"],
  };
}

export function readPage(): PageData {
  const element = document.getElementById("data");
  const raw = JSON.parse(element?.textContent ?? "{}") as Record<string, unknown>;
  return {
    version: text(raw.version),
    generated: text(raw.generated),
    live: raw.live === true,
    title: text(raw.title),
    runs: list(raw.runs).map(checkedRun),
    problems: list(raw.problems).map(text),
  };
}

/** Keys of a resolved configuration with their values: "trainer.learning_rate" -> "5e-4". */
export function flatConfig(yaml: string): Map<string, string> {
  const result = new Map<string, string>();
  const above: { indent: number; key: string }[] = [];
  for (const line of yaml.split("\n")) {
    const match = /^( *)(- )?([^:\s][^:]*):(?: (.*))?$/.exec(line);
    if (!match) {
      const item = /^( *)- (.*)$/.exec(line);
      const last = above[above.length - 1];
      if (item && last) {
        const path = above.map((a) => a.key).join(".");
        result.set(path, [result.get(path), item[2]].filter((t) => t).join(", "));
      }
      continue;
    }
    const indent = match[1].length;
    while (above.length > 0 && above[above.length - 1].indent >= indent) above.pop();
    const path = [...above.map((a) => a.key), match[3]].join(".");
    if (match[4] !== undefined && match[4] !== "") result.set(path, match[4]);
    above.push({ indent, key: match[3] });
  }
  return result;
}

const groupKeys = new WeakMap<Run, string>();

/** Runs that differ only in their seed and name have the same key. */
export function seedGroup(run: Run): string {
  let key = groupKeys.get(run);
  if (key === undefined) {
    key = run.config
      .split("\n")
      .filter((line) => !/^(seed|name):/.test(line))
      .join("\n");
    groupKeys.set(run, key);
  }
  return key;
}

/** Runs that differ only in their seed, together. */
export function seedGroups(runs: Run[]): Run[][] {
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const key = seedGroup(run);
    const group = groups.get(key);
    if (group) group.push(run);
    else groups.set(key, [run]);
  }
  return [...groups.values()];
}

/** The keys in which runs differ, with one value per run. */
export function differences(runs: Run[]): { key: string; values: string[] }[] {
  const flat = runs.map((run) => flatConfig(run.config));
  const names = new Set<string>();
  for (const config of flat) for (const key of config.keys()) names.add(key);
  const result: { key: string; values: string[] }[] = [];
  for (const key of names) {
    if (key === "name") continue;
    const values = flat.map((config) => config.get(key) ?? "");
    if (values.some((value) => value !== values[0])) result.push({ key, values });
  }
  return result;
}
