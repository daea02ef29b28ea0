#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes each variant of a result.json as a table: a measure a line, a run a column.

usage: from-result.py RESULT.JSON FOLDER
       writes FOLDER/ENGINE-VARIANT.tsv: VM, workload, name, unit, better, values; `-` for none
"""
import json
import sys

result = json.load(open(sys.argv[1]))
for variant in result["variants"]:
    rows, runs = {}, variant["repetitions"]
    for at, run in enumerate(runs):
        for metric in run["metrics"]:
            key = tuple(
                metric.get(part) or "-"
                for part in ("vm", "workload", "name", "unit", "better")
            )
            rows.setdefault(key, ["-"] * len(runs))[at] = str(metric["value"])
    name = f"{sys.argv[2]}/{result['engine']['name']}-{variant['name']}.tsv"
    with open(name, "w") as out:
        print("# SPDX-License-Identifier: Apache-2.0 OR MIT", file=out)
        for key in sorted(rows):
            print(*key, *rows[key], sep="\t", file=out)
