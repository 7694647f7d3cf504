"""A picture that a notebook shows, without matplotlib."""

from pathlib import Path


class Picture:
    """An SVG document."""

    def __init__(self, svg):
        self.svg = svg

    def _repr_svg_(self):
        return self.svg

    def save(self, path):
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)
