"""Compares Chorus with its peers and with the machine's limits on the same work in the same run: one table, one JSON.

    build/venv/bin/python bench/engine.py --chorus build/chorus --device cpu --quick
    python3 bench/engine.py --chorus build/chorus --device cuda --only W1,W4 --json out.json
    python3 bench/engine.py --chorus build/chorus --against old/chorus --only W1    # regression test

W1  DistilBERT and BERT-base, all weights     W4  pfl-research's StackOverflow transformer (cohort of 400)
W2  BERT-base, adapters in the top 2 layers   W5  LEAF's Shakespeare LSTM
W3  BERT-base, LoRA of rank 8                 W6  the mean of 100 updates of 110 M parameters (bench/aggregation.cpp)
                                              W7  100,000 clients: overhead per client, memory
W8  whole runs as a user types them: start-up, data, rounds, an evaluation and a checkpoint each round (bench/whole_run.py)
A rate is examples per round / median seconds of the rounds after the first (one round with --quick). `of peak` is
6 x N x tokens / seconds (LoRA: 4 x N) divided by the measured FLOP/s of a matmul of that precision. N counts the
weights of matmuls that every token passes, without embedding tables; tokens are real ones, without padding. Every side
runs with several settings; the table shows the best of each precision, the JSON all. W7 is in milliseconds (lower is
better). `of best peer` and `of like lengths` are ratios to the best peer with random batches and with batches of texts
of similar length. With --against both programs run alternately, and the table shows the ratio of their speeds
(bench/pairs.py); no peer runs. On a GPU, W1 also shows the speed of deterministic kernels relative to the others.
See docs/explanation/performance.md.
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys

import chorus_side
import pairs
import whole_run
import workloads

PEERS = {"PyTorch + Hugging Face": ("torch_loop", ["torch", "transformers"]),
         "Flower simulation": ("flower_simulation", ["torch", "transformers", "flwr", "ray"]),
         "pfl-research": ("pfl_simulation", ["torch", "transformers", "pfl"])}
KEYS = [*workloads.TRAINING, "W6", "W7", "W8"]


def median_seconds(rounds):
    return statistics.median(event["seconds"] for event in rounds)


def overhead(rounds, clients):
    """Milliseconds per client beyond training, in one process that trains clients sequentially."""
    return 1000 * statistics.median((event["seconds"] - event["training_seconds"]) / clients for event in rounds)


def setting_text(setting):
    words = [setting["precision"]] if setting["precision"] != "float32" else []
    for key, name in (("workers", "worker"), ("processes", "process"), ("threads", "thread")):
        if key in setting:
            many = setting[key]
            words.append(f"{many} {name}{('es' if name == 'process' else 's') if many > 1 else ''}")
    words += ["like lengths"] if setting.get("grouped") else []
    return ", ".join(words + (["not deterministic"] if setting.get("deterministic") is False else []))


def load_peers():
    """Usable peer modules, and why the others cannot be used."""
    peers, absent = [], {}
    for name, (module, needs) in PEERS.items():
        missing = [need for need in needs if importlib.util.find_spec(need) is None]
        if missing:
            absent[name] = f"not installed: {', '.join(missing)}"
        else:
            peers.append(importlib.import_module(f"peers.{module}"))
    return peers, absent


class Bench:
    def __init__(self, options):
        self.options = options
        self.size = "quick" if options.quick else options.device
        self.peers, self.absent = load_peers()
        self.limits = {}
        self.rows = []  # one per workload, side and setting
        self.pairs = []  # of alternating runs

    setting_text = staticmethod(setting_text)

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def measure_limits(self):
        try:
            import limits
            self.say("limits: a matrix product and a copy")
            self.limits = limits.measure(self.options.device, self.options.threads, self.options.quick)
        except ImportError:
            self.say("limits: torch is not installed, so the machine's limits stay unknown")

    def add(self, work, who, setting, **values):
        row = {"workload": work.key, "title": work.title, "who": who, "peer": who != chorus_side.NAME, "setting": setting}
        self.rows.append({**row, **values})
        self.say(f"{work.key} {work.title}: {who}, {setting_text(setting)}: " +
                 (values.get("failure") or f"{values['value']:.4g} {values['unit']}"))

    def attempt(self, work, who, setting, measure):
        """A side that fails gets a row that says so; the others continue."""
        try:
            self.add(work, who, setting, **measure())
        except Exception as error:  # noqa: BLE001
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self.add(work, who, setting, failure=f"failed: {lines[0]}")

    def training(self, work):
        def rate(rounds, peak=None, precision="float32"):
            seconds = median_seconds(rounds)
            limit = self.limits.get(f"GFLOP/s {precision}")
            values = {"value": work.examples / seconds, "unit": "examples/s", "rounds": rounds}
            if work.flops and limit:
                values["of_peak"] = work.flops / seconds / (1e9 * limit)
            return {**values, **({"peak_bytes": peak} if peak else {})}

        for setting in chorus_side.settings(self.options.device, self.options.threads):
            self.attempt(work, chorus_side.NAME, setting, lambda: rate(
                *chorus_side.rounds(self.options.chorus, work, self.options.device, setting), setting["precision"]))
        for peer in self.peers:
            if work.key not in getattr(peer, "WORKLOADS", KEYS):
                continue
            for setting in peer.settings(work, self.options.device, self.options.threads, self.options.quick):
                self.attempt(work, peer.NAME, setting, lambda: rate(peer.rounds(work, self.options.device, setting),
                                                                    precision=setting["precision"]))

    def report_of(self, name, *arguments, beside=None):
        """The output of a program next to chorus."""
        program = pathlib.Path(beside or self.options.chorus).with_name(name)
        if not program.exists():
            raise RuntimeError(f"{name} is not built: cmake with -DCHORUS_BENCH=ON, target {name}")
        done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    def codecs(self):
        """Compression filters on one thread; there is no peer."""
        setting = {"precision": "float32", "threads": 1}
        work = workloads.Workload("W6", "filters", {}, "", [], 0, "", 0, 0)
        try:
            report = self.report_of("codecs", "--size", 1_000_000 if self.options.quick else 20_000_000)
        except RuntimeError as error:
            self.add(work, chorus_side.NAME, setting, failure=f"failed: {str(error).strip().splitlines()[0]}")
            return
        for row in report["filters"]:
            for verb in ("encoded", "decoded"):
                named = workloads.Workload("W6", f"{row['filters']} {verb}", {}, "", [], 0, "", 0, 0)
                rate = row[f"{verb}_bytes_per_second"]
                self.add(named, chorus_side.NAME, setting, value=rate / 1e9, unit="GB/s",
                         of_copy=rate / report["copy_bytes_per_second"])

    def aggregation(self):
        count, size = (20, 5_000_000) if self.options.quick else (100, 110_000_000)
        work = workloads.Workload("W6", f"mean of {count} x {size / 1e6:g} M", {}, "", [], 0, "", 0, 0)
        setting = {"precision": "float32", "threads": self.options.threads}

        def ours():
            report = self.report_of("aggregation", "--updates", count, "--size", size, "--threads", self.options.threads,
                                    "--device", self.options.device)
            return {"value": report["bytes_per_second"] / 1e9, "unit": "GB/s read", "report": report,
                    "of_copy": report["bytes_per_second"] / report["copy_bytes_per_second"]}

        self.attempt(work, chorus_side.NAME, setting, ours)
        if importlib.util.find_spec("torch") is None:
            return
        from peers import torch_mean
        copy = self.limits.get("GB/s copied")
        for name, rate in torch_mean.measure(self.options.device, self.options.threads, count, size).items():
            self.add(work, name, setting, value=rate / 1e9, unit="GB/s read", of_copy=rate / (1e9 * copy))

    def scale(self):
        work = workloads.w7(self.size)[0]
        device = self.options.device
        clients = len(work.clients)

        def ours():
            rounds, peak = chorus_side.scale(self.options.chorus, device, work.rounds)
            return {"value": overhead(rounds, clients), "unit": "ms a client", "rounds": rounds, "peak_bytes": peak}

        self.attempt(work, chorus_side.NAME, {"precision": "float32", "workers": 1, "threads": 1}, ours)
        for peer in self.peers:
            setting = peer.settings(work, device, 1, self.options.quick)[0]
            self.attempt(work, peer.NAME, setting, lambda: {
                "value": overhead(rounds := peer.rounds(work, device, setting), clients), "unit": "ms a client", "rounds": rounds})

    def whole_runs(self):
        work = workloads.Workload("W8", whole_run.TITLE, {}, "", [], 0, "", 0, 0)
        peer = "PyTorch + Hugging Face"
        device = self.options.device

        def measure(side, setting):
            return side(self.options.chorus, whole_run.find(self.options, self.size), device, setting)

        for setting in whole_run.settings(device, self.options.threads):
            self.attempt(work, chorus_side.NAME, setting, lambda: measure(whole_run.chorus, setting))
        for setting in whole_run.peer_settings(device, self.options.threads):
            if peer not in self.absent:
                self.attempt(work, peer, setting, lambda: measure(whole_run.torch, setting))
        for row in self.rows:
            if row["workload"] == "W8" and "value" in row:
                self.say(f"W8 {row['who']}, {setting_text(row['setting'])}: {whole_run.breakdown(row)}")

    def run(self):
        if self.options.against:
            self.pairs = pairs.against(self, self.options.against)
            return
        if any(key != "W8" for key in self.options.only):
            self.measure_limits()
        for key in self.options.only:
            if key in workloads.TRAINING:
                for work in workloads.TRAINING[key](self.size):
                    self.training(work)
                    if key == "W1" and self.options.device == "cuda":
                        self.pairs += pairs.determinism(self, work)
            elif key == "W6":
                self.aggregation()
                self.codecs()
            elif key == "W8":
                self.whole_runs()
            else:
                self.scale()

    def shown(self):
        """The best row of each workload, side and precision, with its ratios to the best peer. Batches of similar lengths
        are compared separately."""
        def grouped(row):  # a whole run may batch freely
            return bool(row["setting"].get("grouped")) and row["workload"] != "W8"

        best = {}
        for row in self.rows:
            key = (row["workload"], row["title"], row["who"], row["setting"]["precision"], grouped(row))
            if key not in best or better(row, best[key]):
                best[key] = row
        for row in best.values():
            for name, apart in (("ratio", False), ("ratio_like_lengths", True)):
                peers = [other for other in best.values() if other["peer"] and "value" in other and grouped(other) == apart and
                         (other["workload"], other["title"]) == (row["workload"], row["title"])]
                if peers and "value" in row:
                    first = peers[0]
                    for other in peers:
                        first = other if better(other, first) else first
                    row[name] = row["value"] / first["value"]
        return list(best.values())

    def table(self):
        head = ["", "workload", "who", "setting", "measured", "of best peer", "of like lengths", "of peak"]
        lines = [head]
        for row in self.shown():
            measured = f"{row['value']:.4g} {row['unit']}" if "value" in row else row["failure"]
            if row.get("unit") == "ms a client" and "peak_bytes" in row:
                measured += f", {row['peak_bytes'] / 2**20:.0f} MiB"
            share = f"{100 * row['of_peak']:.1f} %" if "of_peak" in row else ""
            share = f"{100 * row['of_copy']:.1f} % of copy" if "of_copy" in row else share
            ratios = [f"{row[name]:.2f}" if name in row else "" for name in ("ratio", "ratio_like_lengths")]
            lines.append([row["workload"], row["title"], row["who"], setting_text(row["setting"]), measured, *ratios, share])
        for name, reason in self.absent.items():
            lines.append(["", "", name, "", reason, "", "", ""])
        for name, value in self.limits.items():
            lines.append(["", "limit", "this machine", "", f"{value:.4g} {name}", "", "", ""])
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


def better(row, other):
    if "value" not in row or "value" not in other:
        return "value" in row
    return row["value"] < other["value"] if row["unit"] == "ms a client" else row["value"] > other["value"]


def versions(chorus):
    found = {"chorus": subprocess.run([chorus, "--version"], capture_output=True, text=True).stdout.strip(),
             "python": platform.python_version()}
    for module in ("torch", "transformers", "flwr", "ray", "pfl", "numpy"):
        try:
            found[module] = importlib.metadata.version(module)
        except importlib.metadata.PackageNotFoundError:
            found[module] = None
    return found


def machine(device):
    facts = {"cores": os.cpu_count(), "load_average_at_start": os.getloadavg()[0]}
    with open("/proc/cpuinfo") as lines:
        facts["processor"] = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    if device == "cuda":
        import torch
        facts["gpu"] = torch.cuda.get_device_name()
    return facts


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chorus", default="build/chorus", help="the program; `aggregation` is looked for beside it")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", default=",".join(KEYS), help="workloads, as W1,W4")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="total threads of each side")
    parser.add_argument("--data", default=os.environ.get("DATA", "../shared/data"),
                        help="W8: folder of data sets, or of 20 Newsgroups itself (or DATA in the environment)")
    parser.add_argument("--model", default=os.environ.get("CHORUS_BENCH_MODEL"),
                        help="W8: Hugging Face folder of MiniLM-L6 (or CHORUS_BENCH_MODEL in the environment)")
    parser.add_argument("--against", help="another chorus program, of an older commit: both run alternately on W1 to W7")
    parser.add_argument("--repetitions", type=int, default=5, help="repetitions of alternating runs")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: checks that it runs, not how fast")
    parser.add_argument("--json", help="file for the raw values")
    options = parser.parse_args()
    options.only = [key.strip().upper() for key in options.only.split(",") if key.strip()]
    unknown = [key for key in options.only if key not in KEYS]
    if unknown:
        parser.error(f"--only: there is no workload {', '.join(unknown)}; there are {', '.join(KEYS)}")
    if options.threads < 1:
        parser.error("--threads: at least 1")
    if not os.path.isfile(options.chorus) or not os.access(options.chorus, os.X_OK):
        parser.error(f"--chorus: there is no program {options.chorus}; `make build` makes build/chorus")
    options.chorus = os.path.abspath(options.chorus)
    if options.against:
        if not os.path.isfile(options.against) or not os.access(options.against, os.X_OK):
            parser.error(f"--against: there is no program {options.against}")
        options.against = os.path.abspath(options.against)
        options.only = [key for key in options.only if key != "W8"]
    if options.repetitions < 1:
        parser.error("--repetitions: at least 1")
    if options.device == "cuda":
        if importlib.util.find_spec("torch") is None:
            parser.error("--device cuda: torch is not installed here")
        import torch
        if not torch.cuda.is_available():
            parser.error("--device cuda: this machine has no usable GPU, or PyTorch was built without CUDA")
    return options


def report(bench, facts):
    """The table, and everything as JSON."""
    options = bench.options
    if bench.rows:
        print(bench.table())
    if bench.pairs:
        print(pairs.table(bench.pairs, "new / old" if options.against else "ratio"))
    if options.json:
        settings = {**vars(options), **{key: pathlib.Path(value).name for key, value in vars(options).items()
                                        if key in ("chorus", "against", "data", "model") and value}}
        everything = {"versions": versions(options.chorus), "machine": facts, "settings": settings,
                      "limits": bench.limits, "not_installed": bench.absent, "rows": bench.rows, "pairs": bench.pairs}
        pathlib.Path(options.json).write_text(json.dumps(everything, indent=1) + "\n")


def main():
    options = parse()
    facts = machine(options.device)
    if facts["load_average_at_start"] > 0.5:
        print(f"engine: the machine is busy (load {facts['load_average_at_start']:.1f}); these numbers will be wrong",
              file=sys.stderr)
    bench = Bench(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        bench.run()
    except KeyboardInterrupt:
        bench.say("engine: interrupted; this is what was measured until then")
        report(bench, facts)
        sys.exit(130)
    report(bench, facts)


if __name__ == "__main__":
    main()
