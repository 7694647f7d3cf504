#!/usr/bin/env python3
"""Types every command of docs/tutorial.md, with one round instead of twenty.

    tests/integration/tutorial_test.py build/chorus
"""
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands(text):
    """The indented lines outside of fenced blocks; a line that ends with a backslash goes on."""
    fenced, command = False, ""
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        if fenced or not line.startswith("    "):
            continue
        command += line.strip()
        if command.endswith("\\"):
            command = command[:-1]
            continue
        yield command
        command = ""


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    typed, skipped = 0, []
    has_transformers = subprocess.run(
        [sys.executable, "-c", "import torch, transformers"], capture_output=True, check=False).returncode == 0
    with tempfile.TemporaryDirectory() as folder:
        for command in commands((ROOT / "docs/tutorial.md").read_text()):
            if command.startswith(("git clone", "make ")):
                skipped.append(command)  # this build is what they make
                continue
            if "transformers" in command and not has_transformers:
                skipped.append(command + "   (transformers is missing)")
                continue
            real = command.replace("build/tutorial", folder).replace("build/chorus", str(program))
            if "build/chorus run" in command:
                real += " rounds=1"
            begin = time.time()
            done = subprocess.run(["bash", "-c", real], cwd=ROOT, capture_output=True, text=True, check=False)
            print(f"{time.time() - begin:5.1f} s  {command}")
            if done.returncode != 0:
                sys.exit(f"status {done.returncode}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
            typed += 1
        report = pathlib.Path(folder, "report.html")
        if not report.exists() or "fedopt" not in report.read_text():
            sys.exit("the report does not show the run")
        predictions = pathlib.Path(folder, "predictions.jsonl").read_text().splitlines()
        if len(predictions) != 200:
            sys.exit(f"{len(predictions)} predictions instead of 200")
    print(f"typed {typed} commands; left out: {'; '.join(skipped)}")
    if typed < 15:
        sys.exit("fewer commands than the tutorial has")


main()
