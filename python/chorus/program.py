"""Finds and starts the chorus program."""

import os
import shutil
import subprocess
from pathlib import Path


class ChorusError(RuntimeError):
    """What the program said when it failed, and its exit status (docs/reference/cli.md)."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def find_program():
    """The chorus program: $CHORUS, then the PATH, then build/chorus here or in a folder above."""
    named = os.environ.get("CHORUS")
    if named:
        if not os.access(named, os.X_OK):
            raise ChorusError(f"$CHORUS is {named}, which is not a program", 2)
        return str(Path(named).resolve())
    found = shutil.which("chorus")
    if found:
        return found
    for folder in [Path.cwd(), *Path.cwd().parents, *Path(__file__).resolve().parents]:
        candidate = folder / "build" / "chorus"
        if os.access(candidate, os.X_OK) and candidate.is_file():
            return str(candidate)
    raise ChorusError("there is no chorus program: build it with 'make demo', or name it in $CHORUS", 2)


def call(arguments, text=None):
    """Standard output of `chorus ARGUMENTS`; ChorusError with its own words when it fails."""
    done = subprocess.run([find_program(), *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChorusError(_reason(done.stderr) or f"chorus ended with status {done.returncode}", done.returncode)
    return done.stdout


def _reason(text):
    lines = [line for line in text.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("chorus: ")]
    return "\n".join(line[len("chorus: "):] for line in own) if own else "\n".join(lines[-3:])


def settings(overrides):
    """Keyword arguments as key=value: algorithm="fedopt", trainer={"clip": 1}, **{"trainer.clip": 1}."""
    result = []
    for key, value in overrides.items():
        if isinstance(value, dict):
            for inner, more in value.items():
                result += settings({f"{key}.{inner}": more})
        else:
            result.append(f"{key}={to_yaml(value)}")
    return result


def to_yaml(value):
    """One value as YAML that the command line understands."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {to_yaml(more)}" for key, more in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(to_yaml(more) for more in value) + "]"
    if isinstance(value, os.PathLike):
        return to_yaml(os.fspath(value))
    if isinstance(value, str):
        plain = value and not value.startswith(("{", "[", "-", "!", "&", "*", "'", '"', "#", "|", ">", "@", "%", "`"))
        if plain and not any(mark in value for mark in (": ", " #", ",", "\n", "[", "]", "{", "}")):
            return value
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value) if isinstance(value, float) else str(value)
