# SPDX-License-Identifier: GPL-2.0-only
"""Finds each check, answer, limit, barrier and flush of the remedies, and puts a switch around it.

A switch is `knocked_out(N)`, true while the kernel's parameter `knockout` is N. So one kernel has
all of them, and each is taken out while it runs. Names are of our files as linux/new has them;
places are of a patched tree, in which hooks have planted faults. Left out: headers of traces and of
user space, tests, and what hooks for use here alone bring.
"""
import hashlib
import re
from pathlib import Path

LINUX = Path(__file__).resolve().parent.parent
# Statements without which nothing else changes but what another CPU or a TLB sees.
ACTS = re.compile(
    r"\b(?!trace_)(smp_\w*mb\w*|\w*flush\w*|\w*invalidate\w*|kvm_make_\w*request\w*|\w*_kick\w*|"
    r"\w*cancel\w*|vpid_sync\w*|ept_sync\w*|barrier\w*|cpumask_clear\w*|resched_curr\w*|"
    r"rcu_read_\w*lock\w*)\("
)
LIMITS = re.compile(r"\b(min|max|min3|max3|min_t|max_t|clamp|clamp_t)\(")
ORDER = re.compile(r"\b(smp_store_release|smp_load_acquire|smp_store_mb)\(")
FOUND = re.compile("|".join([r"\bif \(", ACTS.pattern, LIMITS.pattern, ORDER.pattern]))
# An answer of a function that is a bool; what is an answer as it is stays.
ANSWER = re.compile(r"\breturn (?!true;|false;)")
LEFT_OUT = re.compile(r"_trace\.h$|/include/uapi/|^tools/|^include/trace/")
HEADER = """/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_KNOCKOUT_H
#define _LINUX_KNOCKOUT_H
#include <linux/compiler.h>
extern int knockout;
#define knocked_out(number) unlikely(READ_ONCE(knockout) == (number))
#define knocked_answer(is_true, is_false, answer) ({				\\
	bool __answer = (answer);						\\
										\\
	knocked_out(is_true) ? true : knocked_out(is_false) ? false : __answer;	\\
})
#endif
"""
PARAMETER = """
int knockout;
EXPORT_SYMBOL_GPL(knockout);
core_param(knockout, knockout, int, 0644);

static int __init knockout_early(char *number)
{
	return kstrtoint(number, 0, &knockout);
}
/* Guests find their host before ordinary parameters are read. */
early_param("knockout", knockout_early);
"""


class Knockout:
    """One thing that can be taken out: a span of a file, and what is written around it."""

    def __init__(self, file, function, kind, span, text):
        self.file, self.function, self.kind = file, function, kind
        self.start, self.end = span
        self.text = text
        self.name = self.owner = ""

    def words(self):
        """The text on one line."""
        return " ".join(self.text.split())

    def around(self, number):
        """What is written before the span and behind it."""
        inner = self.text[self.text.find("(") + 1:self.text.rfind(")")]
        word = self.text[:self.text.find("(")]
        one = f"knocked_out({number})"
        if self.kind == "check":
            return f"!{one} && (", ")"
        if self.kind == "limit":
            arguments = split_arguments(inner)
            return f"({one} ? ({arguments[word.endswith('_t')].strip()}) : ", ")"
        if word == "smp_load_acquire":
            return f"({one} ? READ_ONCE(*({inner})) : ", ")"
        if word in ("smp_store_release", "smp_store_mb"):
            star = "*" if word == "smp_store_release" else ""
            return f"do {{ if ({one}) WRITE_ONCE({star}{inner}); else ", " } while (0);"
        return f"do {{ if (!{one}) ", " } while (0);"


def closing(text, at):
    """The index of the parenthesis that closes the one at `at`."""
    depth = 0
    for index in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return None


def split_arguments(text):
    """The arguments of a call, at its commas."""
    parts, depth, last = [], 0, 0
    for index, mark in enumerate(text):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if mark == "," and depth == 0:
            parts.append(text[last:index])
            last = index + 1
    return parts + [text[last:]]


def blanked(source):
    """The source with comments and strings as blanks, at the same places."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)


def functions(code):
    """The name of the function that each line stands in, and whether it is a bool, by line."""
    inside, function, candidate = [], ("", False), ("", False)
    for line in code.split("\n"):
        head = re.match(r"[A-Za-z_][\w\s*]*?\b(\w+)\(", line)
        if head and not line.endswith(";"):
            candidate = (head.group(1), " bool " in f" {line[:head.start(1)]}")
        if line.startswith("{"):
            function = candidate
        inside.append(function)
        if line.startswith("}"):
            function = ("", False)
    return inside


def candidates(file, source):
    """All knockouts of a file; the span of a check is what its parentheses hold."""
    code = blanked(source)
    inside = functions(code)
    for found in FOUND.finditer(code):
        function, _ = inside[code.count("\n", 0, found.start())]
        start, opened = found.start(), found.end() - 1
        end = closing(code, opened)
        if not function or end is None:
            continue
        word, is_alone = found.group()[:-1], not code[code.rfind("\n", 0, start) + 1:start].strip()
        is_statement = is_alone and code[end + 1:end + 2] == ";"
        if word == "if ":
            text = source[start:end + 1]
            yield Knockout(file, function, "check", (opened + 1, end), text)
        elif LIMITS.match(found.group()):
            yield Knockout(file, function, "limit", (start, end + 1), source[start:end + 1])
        elif word == "smp_load_acquire":
            yield Knockout(file, function, "barrier", (start, end + 1), source[start:end + 1])
        elif is_statement:
            kind = "barrier" if word.startswith("smp_") else "act"
            yield Knockout(file, function, kind, (start, end + 2), source[start:end + 2])
    for found in ANSWER.finditer(code):
        function, is_bool = inside[code.count("\n", 0, found.start())]
        end = code.index(";", found.end())
        for answer in ("true", "false") if is_bool else ():
            text = source[found.start():end + 1]
            yield Knockout(file, function, answer, (found.end(), end), text)


def named(knockouts):
    """Gives each a name that stays when lines move: file, function, and a digest of its text."""
    seen = {}
    for each in knockouts:
        digest = hashlib.sha256(f"{each.kind} {each.words()}".encode()).hexdigest()[:6]
        name = f"{Path(each.file).parent.name}/{Path(each.file).name}:{each.function}:{digest}"
        seen[name] = seen.get(name, 0) + 1
        each.name = name if seen[name] == 1 else f"{name}.{seen[name]}"
    return knockouts


def sources():
    """Our files; and files that hooks change, each with the hook and the lines that it adds."""
    every = sorted((LINUX / "hooks").glob("*.patch"))
    texts = {hook: hook.read_text() for hook in every}
    alone = {hook for hook in every if "Upstream: no" in texts[hook].split("---")[0]}
    brought = {file for hook in alone for file in re.findall(r"^New: (\S+)", texts[hook], re.M)}
    for path in sorted((LINUX / "new").rglob("*.[ch]")):
        file = str(path.relative_to(LINUX / "new"))
        if not LEFT_OUT.search(file) and file not in brought:
            yield file, None, file
    added = {}
    for hook in filter(lambda hook: hook not in alone, every):
        file = ""
        for line in texts[hook].split("\n"):
            if line.startswith("+++ "):
                file = line[4:].split("/", 1)[1]
            elif line.startswith("+") and file.endswith((".c", ".h")) and not LEFT_OUT.search(file):
                added.setdefault((file, hook.stem), set()).add(line[1:].strip())
    for (file, hook), lines in sorted(added.items()):
        yield file, lines - {""}, hook


def of_tree(tree):
    """All knockouts, with their places in a patched tree; without a tree those of our own files."""
    every = []
    for file, lines, owner in sources():
        if lines is not None and not tree:
            continue
        text = ((LINUX / "new" if lines is None else tree) / file).read_text()
        for each in candidates(file, text):
            first = text.rfind("\n", 0, each.start) + 1
            line = text[first:text.find("\n", each.start)].strip()
            if lines is None or line in lines:
                each.owner = owner
                every.append(each)
    named(every)
    if tree:
        for file in {each.file for each in every if each.owner == each.file}:
            place([each for each in every if each.owner == file], tree)
    return every


def place(plain, tree):
    """Finds where knockouts of a file of ours are in a tree, where hooks have planted faults."""
    file = plain[0].file
    there = list(candidates(file, (tree / file).read_text()))
    left = list(plain)
    for alike in (lambda one, other: one.words() == other.words(), lambda one, other: True):
        for each in list(left):
            found = next((other for other in there if alike(each, other)
                          and (other.function, other.kind) == (each.function, each.kind)), None)
            if found:
                there.remove(found)
                left.remove(each)
                each.start, each.end, each.text = found.start, found.end, found.text
    assert not left, f"{file} of {tree} has no {left[0].name}: a hook has taken it away"


def switches(every, tree):
    """Puts a switch around each in the files of a tree; each has its place in `every` as number."""
    pieces = {}
    for number, each in enumerate(every, 1):
        size = each.end - each.start
        before, behind = each.around(number)
        if each.kind in ("true", "false"):
            other = next(one for one in every if one is not each and one.file == each.file
                         and (one.start, one.end) == (each.start, each.end)
                         and one.kind in ("true", "false"))
            if each.kind == "false":
                continue
            before, behind = f"knocked_answer({number}, {every.index(other) + 1}, ", ")"
        # At one place what closes comes first, the inner before the outer, and then what opens.
        pieces.setdefault(each.file, []).append(((each.start, 1, -size), before))
        pieces[each.file].append(((each.end, 0, size), behind))
    for file, of_file in pieces.items():
        text = (tree / file).read_text()
        for (at, *_), words in sorted(of_file, reverse=True):
            text = text[:at] + words + text[at:]
        first, rest = text.split("\n", 1)
        (tree / file).write_text(f"{first}\n{include(rest)}")
    (tree / "include/linux/knockout.h").write_text(HEADER)
    with (tree / "init/main.c").open("a") as main:
        main.write(PARAMETER)


def include(text):
    """The text of a file with our header in it, before its first include or its first code."""
    found = re.search(r"^#include |^#define (?!\w+_H\b|pr_fmt)", text, re.M)
    at = found.start() if found else 0
    return f"{text[:at]}#include <linux/knockout.h>\n{text[at:]}"
