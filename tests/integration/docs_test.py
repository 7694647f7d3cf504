#!/usr/bin/env python3
"""Checks the commands that the documentation shows: every command and option exists, and the settings of every
experiment are valid.

    tests/integration/docs_test.py build/chorus
"""
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_EVERY_COMMAND = {"--help", "--version", "--verbose", "--quiet"}
TRAINS = {"chorus run", "chorus plan", "chorus serve", "chorus validate"}


def pages():
    return [ROOT / "README.md", ROOT / "python/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def shown(text):
    """What a page shows as code: indented lines, joined where they go on, and spans between backticks."""
    for line in re.sub(r" *\\\n *", " ", text).splitlines():
        if line.startswith("    "):
            yield line.strip()
        else:
            yield from (span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", line))


def calls(code):
    """The calls of chorus in a line: ["chorus", "data", "make", "--examples", ...]."""
    for part in re.split(r"\s(?:\||&&|;|\|\|)\s", code.replace("$ ", "")):
        found = re.match(r"(?:.*?do )?(?:\w+=\S+ )*(?:\S*/)?chorus ([a-z].*)", part)
        if found:
            yield ["chorus", *found.group(1).split(" #")[0].split("; done")[0].split()]


def commands_of(program):
    """Every command with the words that may follow it, from the completion of bash."""
    script = subprocess.run([program, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    return {name: set(words.split()) for name, words in re.findall(r'^    "(chorus[^"]*)"\) words="([^"]*)"', script, re.M)}


def settings(words):
    """The arguments of a call without its options, or None where the shell fills something in."""
    try:
        words = shlex.split(" ".join(words))
    except ValueError:
        return None
    plain, skip = [], False
    for word in words:
        if word.startswith("--"):
            skip = "=" not in word
        elif not skip:
            plain.append(word)
        else:
            skip = False
    return None if any(re.search(r"[$<>\[\]]", word.split("=")[0]) or "$" in word for word in plain) else plain


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    known = commands_of(program)
    wrong, seen, experiments = [], 0, {}
    for page in pages():
        name = page.relative_to(ROOT)
        for code in shown(page.read_text()):
            for words in calls(code):
                seen += 1
                path, rest = "chorus", words[1:]
                while rest and f"{path} {rest[0]}" in known:
                    path, rest = f"{path} {rest[0]}", rest[1:]
                has_commands = any(not word.startswith("-") for word in known[path])
                if has_commands and rest and re.fullmatch(r"[a-z]+", rest[0]):
                    wrong.append(f"{name}: {path} has no command '{rest[0]}': {code}")
                for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(rest)):
                    if option not in known[path] | OF_EVERY_COMMAND:
                        wrong.append(f"{name}: {path} has no option {option}: {code}")
                plain = settings(rest) if path in TRAINS else None
                if plain and len(plain) > 1 and plain[0].startswith("configs/") and "||" not in code:
                    experiments[tuple(plain)] = name
    for plain, name in experiments.items():
        if not (ROOT / plain[0]).exists():
            wrong.append(f"{name}: {plain[0]} does not exist")
            continue
        done = subprocess.run([program, "validate", *plain], cwd=ROOT, capture_output=True, text=True, check=False)
        # Data and models outside the repository may be missing, and device=cuda needs a GPU.
        if done.returncode != 0 and not re.search(r"does not exist|no such|CUDA|GPU", done.stderr):
            wrong.append(f"{name}: {' '.join(plain)}: {done.stderr.strip()}")
    print("\n".join(wrong))
    print(f"{seen} calls, {len(experiments)} with settings of an experiment, {len(wrong)} wrong")
    sys.exit(1 if wrong or seen < 150 or len(experiments) < 10 else 0)


main()
