#!/usr/bin/env python3
"""Draws what `chorus privacy audit --only leakage` has found: docs/img/leakage.svg.

    bench/leakage_picture.py runs/leak docs/img/leakage.svg

Commands of the run and its audit: docs/how-to/audit_privacy.md.
"""
import json
import pathlib
import re
import sys
from xml.sax.saxutils import escape

WIDTH, LEFT, BAR = 760, 190, 400
OPEN, PROTECTED, FOUND = "#D55E00", "#0072B2", "#f7d9c4"


def words_of(text):
    return re.findall(r"\w+|[^\w\s]", text)


def text(x, y, words, **style):
    style = {"font_size": 13, "fill": "#222", **style}
    attributes = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x}" y="{y}" {attributes}>{escape(words)}</text>'


def bars(y, name, values):
    out = [text(LEFT - 12, y + 27, name, text_anchor="end")]
    for row, (value, colour) in enumerate(zip(values, (OPEN, PROTECTED))):
        top = y + 22 * row
        out.append(f'<rect x="{LEFT}" y="{top}" width="{BAR * value:.1f}" height="18" fill="{colour}"/>')
        out.append(text(LEFT + BAR * value + 8, top + 14, f"{100 * value:.0f} %"))
    return out


def line_of_words(y, name, words, known):
    """Words that the text has are shaded."""
    out = [text(LEFT - 12, y, name, text_anchor="end")]
    x, left_over = LEFT, list(known)
    for word in words:
        wide = 7.8 * len(word)
        if x + wide > WIDTH - 14:
            x, y = LEFT, y + 24
        if word in left_over:
            left_over.remove(word)
            out.append(f'<rect x="{x - 3}" y="{y - 14}" width="{wide + 6:.1f}" height="19" rx="3" fill="{FOUND}"/>')
        out.append(text(f"{x:.1f}", y, word, font_family="monospace"))
        x += wide + 12
    return out, y


def picture(audit):
    leakage = audit["leakage"]
    before, after = leakage["without_protection"], leakage["as_protected"]
    promise = audit["accounted"]
    out = [text(14, 28, "What one update gives away of its text", font_size=17, font_weight=600),
           text(14, 48, f"means over {leakage['texts']} texts", font_size=12, fill="#555"),
           f'<rect x="{LEFT}" y="60" width="12" height="12" fill="{OPEN}"/>',
           text(LEFT + 18, 71, "without protection"),
           f'<rect x="{LEFT + 150}" y="60" width="12" height="12" fill="{PROTECTED}"/>',
           text(LEFT + 168, 71, f"epsilon {promise['epsilon']:.2g}, delta {promise['delta']:g}")]
    out += bars(86, "tokens recovered", (before["tokens_recovered"], after["tokens_recovered"]))
    out += bars(142, "in their order (ROUGE-L)", (before["rouge_l"], after["rouge_l"]))
    known, y = words_of(leakage["text"]), 222
    for name, key in (("a text", "text"), ("read off the update", "reconstructed_without_protection"),
                      ("with protection", "reconstructed_as_protected")):
        lines, y = line_of_words(y, name, words_of(leakage[key]), known)
        out += lines
        y += 34
    height = y - 10
    out.append(text(14, height - 6, "Shaded: words of the text.", font_size=12, fill="#555"))
    height += 8
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'role="img" font-family="Helvetica, Arial, sans-serif">')
    return "\n".join([head, "<title>What one update gives away of its text</title>",
                      '<rect width="100%" height="100%" fill="#fff"/>', *out, "</svg>\n"])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    audit = json.loads((pathlib.Path(sys.argv[1]) / "audit.json").read_text())
    if "accounted" not in audit or "as_protected" not in audit.get("leakage", {}):
        sys.exit(f"{sys.argv[1]}: its audit has no leakage with and without protection; audit a private run with "
                 "--only leakage")
    pathlib.Path(sys.argv[2]).write_text(picture(audit))


main()
