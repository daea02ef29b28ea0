# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Wraps paragraphs of Markdown that have a line of more than 100 columns:  wrap.py FILE...

Words stay as they are and in their order. Pages that a command writes are not touched. Neither are
tables, headings, blocks of code, and a paragraph with a hard break. No piece of code is broken, and
no line begins with what Markdown would take for an item, a heading or a quotation.
"""

import re
import sys

import columns
import offenders

BEGIN = re.compile(r"^(\s*(?:>\s?)*(?:(?:[-*+]|\d+[.)])\s+)?)")
OPENER = re.compile(r"^(?:[-*+>|]|#+|\d+[.)]|=+|-+)$")
TOKEN = re.compile(r"(?:`[^`]*`|[^\s`])+")


def fits(line):
    return not columns.long_lines("x.md", line)


def fill(lines):
    """One paragraph, wrapped."""
    first = BEGIN.match(lines[0])[1]
    rest = BEGIN.match(lines[1])[1] if len(lines) > 1 else re.sub(r"[^>\s]", " ", first)
    text = " ".join(BEGIN.sub("", line, count=1) for line in lines)
    words = []
    for token in TOKEN.findall(text):
        if words and OPENER.match(token):
            words[-1] += " " + token
        else:
            words.append(token)
    filled = [first + words[0]]
    for word in words[1:]:
        if fits(f"{filled[-1]} {word}"):
            filled[-1] += " " + word
        else:
            filled.append(rest + word)
    return filled


def wrap(text):
    """A page with its long paragraphs wrapped."""
    done, paragraph, fenced = [], [], False

    def close():
        hard = any(line.endswith(("  ", "\\")) for line in paragraph)
        done.extend(paragraph if hard or all(map(fits, paragraph)) else fill(paragraph))
        paragraph.clear()

    for line in text.splitlines():
        fence = line.lstrip(" >").startswith("```")
        fenced ^= fence
        if fence or fenced or not line.strip(" >") or re.match(r"\s*(?:[|#<]|\[[^]]*\]:)", line):
            close()
            done.append(line)
            continue
        if re.match(r"\s*(?:[-*+]|\d+[.)])\s", line):
            close()
        paragraph.append(line)
    close()
    return "\n".join(done) + "\n"


if __name__ == "__main__":
    for name in set(sys.argv[1:]) & set(offenders.documents()):
        path = offenders.ROOT / name
        before = path.read_text()
        after = wrap(before)
        if before.split() != after.split():
            raise SystemExit(f"lint: {name}: wrapping would change its words: wrap it by hand")
        path.write_text(after)
