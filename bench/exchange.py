#!/usr/bin/env python3
"""One round of a large model between a server and clients that do not train: Chorus, Flower and NVFlare, one after the
other, as real processes on loopback.

    cmake --preset release -DCHORUS_BENCH=ON && cmake --build --preset release --target exchange
    bench/exchange.py --peers build/peers          # installs the peers there with pip, unless they are there

Chorus and NVFlare use mutual TLS, Flower no encryption. Every update is random. Prints a table; --json FILE writes all
values.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = {"flower": "flwr==1.41.0", "nvflare": "nvflare==2.9.0"}


def install(folder):
    for name, package in PACKAGES.items():
        if (folder / name / "bin" / "python").exists():
            continue
        subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
        subprocess.run([str(folder / name / "bin" / "pip"), "install", "-q", package, "numpy"], check=True)


def report_of(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=pathlib.Path, help="folder of the peers' virtual environments; none: no peers")
    parser.add_argument("--parameters", default="110e6")
    parser.add_argument("--clients", default="3")
    parser.add_argument("--rounds", default="4", help="the first one of each is not counted")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    size = ["--parameters", options.parameters, "--clients", options.clients, "--rounds", options.rounds]
    commands = {"Chorus": [str(HERE.parent / "build" / "exchange"), *size]}
    if options.peers:
        install(options.peers)
        for name, title in (("flower", "Flower 1.41"), ("nvflare", "NVFlare 2.9")):
            commands[title] = [str(options.peers / name / "bin" / "python"),
                               str(HERE / "peers" / f"{name}_exchange.py"), *size]
    reports = {}
    for name, words in commands.items():
        reports[name] = report_of(words)
        print(f"{name}: {reports[name]['seconds']}", file=sys.stderr)
    median = {name: statistics.median(report["seconds"][1:]) for name, report in reports.items()}
    print("| | seconds per round | relative to Chorus | server memory, GB |\n|---|---|---|---|")
    for name, report in reports.items():
        print(f"| {name} | {median[name]:.2f} | {median[name] / median['Chorus']:.1f} | "
              f"{report['server_bytes'] / 1e9:.2f} |")
    if options.json:
        options.json.write_text(json.dumps(reports, indent=2) + "\n")


if __name__ == "__main__":
    main()
