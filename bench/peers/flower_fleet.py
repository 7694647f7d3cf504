"""A SuperLink and SuperNodes of Flower on this machine that run one app; used by flower_secagg.py and
flower_exchange.py, with the Python of the virtual environment that Flower is installed in."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from processes import PeakMemory, tree

PROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "peer"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "chorus"

[tool.flwr.app.components]
serverapp = "peer.server:app"
clientapp = "peer.client:app"

[tool.flwr.app.config]
"""


def run_app(server, client, config, limit):
    """Runs an app with config["clients"] SuperNodes; the sources of its two modules are given.

    The server's app writes a JSON object to the file context.run_config["report"]. Returns that object, with
    server_bytes: the most memory of the SuperLink and the server's app together.
    """
    programs = pathlib.Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        report = folder / "report.json"
        (folder / "app" / "peer").mkdir(parents=True)
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in {**config, "report": str(report)}.items()]
        (folder / "app" / "pyproject.toml").write_text(PROJECT + "".join(lines))
        (folder / "app" / "peer" / "__init__.py").write_text("")
        (folder / "app" / "peer" / "client.py").write_text(client)
        (folder / "app" / "peer" / "server.py").write_text(server)
        environment = dict(os.environ, FLWR_TELEMETRY_ENABLED="0", FLWR_HOME=str(folder / "home"),
                           PATH=f"{programs}:{os.environ['PATH']}", OMP_NUM_THREADS="1")
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            '[superlink]\ndefault = "local"\n\n[superlink.local]\naddress = "127.0.0.1:8000"\ninsecure = true\n')
        log = open(folder / "log", "w", encoding="utf-8")
        running = []

        def start(*words):
            running.append(subprocess.Popen([str(programs / words[0]), *words[1:]], env=environment, stdout=log,
                                            stderr=subprocess.STDOUT))

        try:
            start("flower-superlink", "--insecure", "--disable-runtime-dependency-installation")
            time.sleep(5)
            for number in range(config["clients"]):
                start("flower-supernode", "--insecure", "--superlink", "127.0.0.1:8000", "--port",
                      str(9200 + number), "--node-config",
                      f"partition-id={number} num-partitions={config['clients']}")
            time.sleep(5)
            with PeakMemory(lambda: tree(running[0].pid)) as memory:
                subprocess.run([str(programs / "flwr"), "run", str(folder / "app"), "local"], env=environment,
                               stdout=log, stderr=subprocess.STDOUT, check=False)
                end = time.monotonic() + limit
                while not report.exists() and time.monotonic() < end:
                    time.sleep(0.5)
                time.sleep(0.5)
            if not report.exists():
                number = re.search(r"Created run (\d+)", (folder / "log").read_text())
                if number:  # what the server's app printed
                    subprocess.run([str(programs / "flwr"), "log", number[1], "local", "--show"], env=environment,
                                   stdout=log, stderr=subprocess.STDOUT, check=False)
                sys.exit((folder / "log").read_text()[-4000:])
            return {**config, **json.loads(report.read_text()), "server_bytes": memory.peak}
        finally:
            for process in reversed(running):
                process.terminate()
            for process in running:
                process.wait()
