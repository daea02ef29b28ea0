# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Links in Markdown: a relative one names a file that is there, and an anchor a heading of it.

Links to other hosts are not followed: a lint that needs the network fails for others' reasons.
"""

import os
import re
import sys

import offenders

FENCE = re.compile(r"^ *```")
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
CODE = re.compile(r"`[^`]*`")


def prose(text):
    """Lines with their numbers, without blocks of code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    seen = {}
    for _, line in prose(text):
        if not re.match(r"#{1,6} ", line):
            continue
        title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        again = seen.get(anchor, 0)
        seen[anchor] = again + 1
        yield f"{anchor}-{again}" if again else anchor


def broken(name, pages):
    """Complaints about the links of a page; `pages` gives the text of a file, or None."""
    for number, line in prose(pages(name)):
        # Code in a link's words stays a link; a link within code is not one.
        bare = CODE.sub(lambda code: "x" * len(code[0]), line)
        for link in LINK.findall(bare):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            text = pages(target)
            if text is None:
                yield f"{name}:{number}: {link}: there is no {target}"
            elif anchor and anchor not in set(anchors(text)):
                yield f"{name}:{number}: {link}: {target} has no such heading"


def page(name):
    path = offenders.ROOT / name
    if path.is_dir():
        return ""
    return path.read_text(errors="replace") if path.is_file() else None


if __name__ == "__main__":
    complaints = [text for name in offenders.sources("*.md") for text in broken(name, page)]
    for complaint in complaints:
        print(f"lint: {complaint}", file=sys.stderr)
    sys.exit(1 if complaints else 0)
