# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clippy without a warning, and `#[must_use]` on public functions whose value is all they do.

The second is clippy's `must_use_candidate`. It is asked for in the same run, so that nothing is
compiled twice, and counted by crate against a list of exceptions.
"""

import json
import subprocess
import sys

import offenders

CANDIDATE = "clippy::must_use_candidate"
COMMAND = [
    "cargo", "clippy", "--workspace", "--all-targets", "--locked", "--quiet",
    "--message-format=json", "--", "-D", "warnings", "--force-warn", CANDIDATE,
]


def sort_out(lines):
    """The candidates by crate, and all other complaints as clippy words them."""
    places = set()
    others = []
    for line in lines:
        entry = json.loads(line)
        if entry.get("reason") != "compiler-message":
            continue
        message = entry["message"]
        code = (message.get("code") or {}).get("code")
        if code == CANDIDATE:
            # A library is compiled twice, with its tests and without: a place counts once.
            places.update((span["file_name"], span["line_start"]) for span in message["spans"])
        elif message["level"] in ("error", "warning"):
            others.append(message["rendered"])
    found = {}
    for name, _ in places:
        crate = "/".join(name.split("/")[:2])
        found[crate] = found.get(crate, 0) + 1
    return found, others


if __name__ == "__main__":
    clippy = subprocess.run(
        COMMAND, cwd=offenders.ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    candidates, complaints = sort_out(clippy.stdout.splitlines())
    print(*complaints, sep="", end="", file=sys.stderr)
    if clippy.returncode:
        sys.exit(1)
    offenders.main("must-use", "such a function is #[must_use]", "candidates", candidates)
