# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Words that lint/words.toml says not to write, by file.

Markdown and rst are searched outside code; Rust and C in comments and literals; the kernel's
patches in what they add; sh, Python, TOML and HTML as a whole.

`words.py FILE...` shows each place with what to write, `--list` the counts of all files.
"""

import bisect
import re
import sys
import tomllib

import offenders

# What stands for a character that is not prose, so that no match reaches across it.
CODE = "\x01"
MARKDOWN_CODE = re.compile(r"^( *)```.*?^\1```|`[^`]*`|\]\([^)]*\)|<[^>\n]*>", re.M | re.S)
RST_CODE = re.compile(r"``.*?``|(?<=::\n\n)(?:[ \t]+\S.*\n|\n)+", re.S)
PROSE = re.compile(
    r"""(?P<line>//[/!]?[^\n]*)
    |(?P<block>/\*.*?\*/)
    |(?P<raw>\bb?r(?P<hash>\#*)".*?"(?P=hash))
    |(?P<text>"(?:\\.|[^"\\])*")
    |'(?:\\.[^']*|[^'\\])'""",
    re.X | re.S,
)
LEADER = re.compile(r"^[ \t]*(?:///?!?|\*(?!/)|\*/)", re.M)
KINDS = {"md": "md", "rst": "rst", "rs": "code", "c": "code", "h": "code", "S": "code",
         "patch": "patch"}


def blank(match):
    """As many characters that are not prose, on as many lines."""
    return re.sub(r"\S", CODE, match[0])


def literal(text):
    """Prose of a literal: its escapes are blanks, and a line that goes on is joined."""
    return re.sub(r"\\(?:\n|.)", lambda escape: re.sub(r"\S", " ", escape[0]), text)


def code_prose(text):
    """Comments and literals of Rust or C in their places; all else is blanked."""
    parts = []
    end = 0
    for found in PROSE.finditer(text):
        parts.append(re.sub(r"\S", CODE, text[end : found.start()]))
        inside = found[0]
        if found["line"] or found["block"]:
            inside = LEADER.sub(lambda leader: " " * len(leader[0]), inside.replace("/*", "  ", 1))
            inside = re.sub(r"`[^`\n]*`", blank, inside)
        elif found["text"]:
            inside = CODE + literal(inside[1:-1]) + CODE
        elif not found["raw"]:
            inside = re.sub(r"\S", CODE, inside)
        parts.append(inside)
        end = found.end()
    return "".join(parts) + re.sub(r"\S", CODE, text[end:])


def prose(name, text):
    """A file's text with all that is not prose blanked; lines stay where they are."""
    kind = kind_of(name)
    if kind == "md":
        return MARKDOWN_CODE.sub(blank, text)
    if kind == "rst":
        return RST_CODE.sub(blank, text)
    if kind == "code":
        return code_prose(text)
    if kind == "patch":
        head = re.split(r"^(?:diff|---) ", text, maxsplit=1, flags=re.M)[0]
        added = re.sub(r"^(?!\+(?!\+\+)).*$", "", text[len(head) :], flags=re.M)
        return head + code_prose(re.sub(r"^\+", " ", added, flags=re.M))
    return re.sub(r"(?m)^[ \t]*#", lambda leader: " " * len(leader[0]), text)


def kind_of(name):
    base = name.rsplit("/", 1)[-1]
    return KINDS.get(base.rsplit(".", 1)[-1] if "." in base else "", "script")


def rules(text):
    """The rules of a word list: the expression of each, and its table."""
    tables = tomllib.loads(text)["word"]
    return [(re.compile(table["avoid"], re.I | re.M), table) for table in tables]


def flowing(kind, bare):
    """Text with a line for each paragraph or heading and single blanks, and where in it each line
    of the file starts."""
    flow, starts = "", []
    before = "\n"
    for line in bare.splitlines():
        words = " ".join(line.split())
        heading = kind == "md" and words.startswith("#")
        if not words or heading:
            before = "\n"
        starts.append(len(flow))
        if words:
            flow += (before if flow else "") + words
            before = "\n" if heading else " "
    return flow, starts


def places(name, text, listed):
    """Line, words found and advice for each place of a file."""
    kind = kind_of(name)
    flow, starts = flowing(kind, prose(name, text))
    found = []
    for pattern, table in listed:
        if table.get("in", kind) == kind:
            for match in pattern.finditer(flow):
                line = bisect.bisect_left(starts, match.start())
                found.append((max(line, 1), match[0], table["use"]))
    return sorted(found)


def sources():
    """Files with prose of ours; the word list and the lists of exceptions name words on purpose."""
    endings = ("md", "rst", "rs", "c", "h", "S", "py", "sh", "toml", "html")
    named = offenders.sources(*(f"*.{ending}" for ending in endings), "*Makefile", "linux/*.patch")
    names = sorted(set(named) | set(offenders.scripts()))
    quoting = ("lint/words.py", "lint/words.toml", "lint/selftest.py")
    return [name for name in names if name not in quoting]


if __name__ == "__main__":
    word_list = rules((offenders.ROOT / "lint/words.toml").read_text())
    if sys.argv[1:] and not sys.argv[1].startswith("--"):
        for name in sys.argv[1:]:
            for line, words, advice in places(name, offenders.text_of(name), word_list):
                print(f"{name}:{line}: {words!r}: write {advice}")
    else:
        counts = {n: len(places(n, offenders.text_of(n), word_list)) for n in sources()}
        offenders.main(
            "words",
            "what to write instead: python3 lint/words.py FILE...",
            "words to avoid",
            {name: count for name, count in counts.items() if count},
        )
