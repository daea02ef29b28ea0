# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sentences of more than 25 words in Markdown and rst, by file. Tables and blocks of code are left
out; a piece of code and a link's text count as they read. An item of a list ends a sentence.
Pages that a command writes are left out: their sentences have numbers in place of words.

`sentences.py FILE...` shows each with its line and length, the longest first.
"""

import re
import sys

import offenders

LIMIT = 25
# An item of a list begins a text of its own, and so does a heading's end.
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.) +|^\s*>\s?")
END = re.compile(r"(?<=[.!?])[*_)\"”]*\s+(?=[*_(\"“\[]*[A-Z0-9`])")
UNDERLINE = re.compile(r"^([=\-~^\"'#*])\1{2,}\s*$")
# The edge of a table of rst, which ends with an empty line.
EDGE = re.compile(r"^\s*=+( +=+)+\s*$")


def paragraphs(name, text):
    """First line and text of each paragraph, item or heading that is prose."""
    fenced = literal = table = False
    first, words = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        if name.endswith(".rst"):
            literal = (literal and (not line.strip() or line[0].isspace())) or line.endswith("::")
        table = line.strip() != "" and (table or EDGE.match(line) is not None)
        skipped = fence or fenced or table or (literal and not line.endswith("::"))
        skipped = skipped or line.lstrip().startswith(("|", "<!--", "..", "#")) or not line.strip()
        if words and (skipped or ITEM.match(line) or UNDERLINE.match(line)):
            yield first, " ".join(words)
            words = []
        if skipped or UNDERLINE.match(line):
            continue
        if not words:
            first = number
        words.append(ITEM.sub("", line).strip())


def count(sentence):
    """How many words a reader sees."""
    bare = re.sub(r"`+([^`]*)`+", "x", sentence)
    bare = re.sub(r"\]\([^)]*\)", "]", bare)
    return sum(any(letter.isalnum() for letter in word) for word in bare.split())


def long_sentences(name, text):
    """Length, line of its paragraph, and text of each sentence that is too long."""
    found = []
    for line, paragraph in paragraphs(name, text):
        for sentence in END.split(paragraph):
            if count(sentence) > LIMIT:
                found.append((count(sentence), line, sentence))
    return found


if __name__ == "__main__":
    if sys.argv[1:] and not sys.argv[1].startswith("--"):
        for name in sys.argv[1:]:
            places = long_sentences(name, offenders.text_of(name))
            for length, line, sentence in sorted(places, reverse=True):
                print(f"{name}:{line}: {length} words: {sentence}")
    else:
        names = offenders.documents()
        counts = {n: len(long_sentences(n, offenders.text_of(n))) for n in names}
        offenders.main(
            "sentences",
            f"a sentence has at most {LIMIT} words: python3 lint/sentences.py FILE...",
            "long sentences",
            {name: number for name, number in counts.items() if number},
        )
