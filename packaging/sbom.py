# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What is linked into the packages: packaging/sbom.py [--licences | --kernel RELEASE] VERSION

A bill of materials as CycloneDX 1.5, in JSON, or with --licences the text of Debian's `copyright`
with every licence. With --kernel it has the kernel of steady-lab, too. Both come from
`cargo metadata`, Cargo.lock and the sources of the crates. What only builds them has the scope
`excluded`. Needs SOURCE_DATE_EPOCH, for the time that is stated.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
# What is linked: the command, and the programs of emulated machines.
BINARIES = ("steady", "steady-agent", "steady-vmm", "steady-steer")
OURS = "Apache-2.0 OR MIT"
TEXT = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.I)


def said_by(*command):
    """What a program prints; an error if it fails."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates():
    """Packages by id, edges of the graph by id, and ids of what is linked and what only builds."""
    said = json.loads(said_by("cargo", "metadata", "--format-version=1", "--locked",
                              f"--filter-platform={TARGET}"))
    packages = {package["id"]: package for package in said["packages"]}
    edges = {}
    for node in said["resolve"]["nodes"]:
        edges[node["id"]] = {
            dep["pkg"]: {kind["kind"] for kind in dep["dep_kinds"]} - {"dev"}
            for dep in node["deps"]
        }
    ours = [id for id, package in packages.items()
            if package["name"] in BINARIES and package["source"] is None]
    assert len(ours) == len(BINARIES), "a program of ours has another name now"
    linked, built = set(), set()
    todo = [(id, True) for id in ours]
    while todo:
        id, is_linked = todo.pop()
        is_linked = is_linked and not is_macro(packages[id])
        known = linked if is_linked else built
        if id in known:
            continue
        known.add(id)
        for other, kinds in edges[id].items():
            todo += [(other, is_linked and kind is None) for kind in kinds]
    return packages, edges, linked, built - linked


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def checksums():
    """The SHA-256 of each crate of the registry, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}


def of_toolchain():
    """What is linked besides crates: the C library and Rust's own."""
    libc = said_by("ldd", "--version").splitlines()[0].split()[-1]
    rust = said_by("rustc", "--version").split()[1]
    return [("glibc", libc, "LGPL-2.1-or-later"), ("rust-std", rust, OURS)]


def component(package, sums, is_linked):
    found = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "scope": "required" if is_linked else "excluded",
        "purl": purl(package),
        "licenses": [{"expression": spdx(package)}],
    }
    if checksum := sums.get((package["name"], package["version"])):
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def spdx(package):
    """The licence as an expression; some crates still write a slash for `or`."""
    return re.sub(r"\s*/\s*", " OR ", package["license"] or OURS)


def of_kernel(release):
    """The kernel that steady-lab brings as an image."""
    return {"type": "operating-system", "bom-ref": f"linux@{release}", "name": "linux",
            "version": release, "scope": "required",
            "description": "Linux of Debian with the patches of Steady",
            "licenses": [{"expression": "GPL-2.0-only"}]}


def bill(version, kernel=None):
    packages, edges, linked, built = crates()
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.UTC)
    sums = checksums()
    parts = [component(packages[id], sums, id in linked) for id in linked | built]
    parts += [
        {"type": "library", "bom-ref": f"{name}@{number}", "name": name, "version": number,
         "scope": "required", "licenses": [{"expression": licence}]}
        for name, number, licence in of_toolchain()
    ]
    parts += [of_kernel(kernel)] if kernel else []
    # One crate may be linked into a program and into what builds it.
    depends = {
        purl(packages[id]): sorted({purl(packages[other]) for other, kinds in edges[id].items()
                                    if kinds and other in linked | built})
        for id in linked | built
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, 'steady ' + version)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": "steady", "name": "steady", "version": version,
                "licenses": [{"expression": OURS}],
            },
        },
        "components": sorted(parts, key=lambda part: part["bom-ref"]),
        "dependencies": [{"ref": "steady", "dependsOn": sorted(
            purl(packages[id]) for id in linked if packages[id]["name"] in BINARIES)}]
        + [{"ref": ref, "dependsOn": on} for ref, on in sorted(depends.items())],
    }


def licences(version):
    """Whose work is linked, under which licences, and their texts, each once."""
    packages, _, linked, _ = crates()
    others = sorted((packages[id] for id in linked if packages[id]["source"]),
                    key=lambda package: (package["name"], package["version"]))
    lines = [f"Steady {version}", "", (ROOT / "packaging/copyright").read_text(),
             "The programs are linked statically with:", ""]
    lines += [f"  {name} {number}: {licence}" for name, number, licence in of_toolchain()]
    texts = {}
    for package in others:
        lines.append(f"  {package['name']} {package['version']}: {spdx(package)}")
        folder = pathlib.Path(package["manifest_path"]).parent
        for path in sorted(folder.iterdir()):
            if TEXT.match(path.name) and path.is_file():
                text = path.read_text(errors="replace").strip()
                key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
                texts.setdefault(key, (text, []))[1].append(f"{package['name']} ({path.name})")
    for name in ("Apache-2.0", "MIT", "GPL-2.0-only", "LGPL-2.1-or-later"):
        text = (ROOT / f"LICENSES/{name}.txt").read_text().strip()
        texts.setdefault(name, (text, []))[1].append(name)
    for text, whose in texts.values():
        lines += ["", "-" * 80, "Of " + ", ".join(whose) + ":", "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    *options, named = sys.argv[1:]
    match options:
        case ["--licences"]:
            sys.stdout.write(licences(named))
        case [] | ["--kernel", _]:
            json.dump(bill(named, *options[1:]), sys.stdout, indent=1)
            print()
        case _:
            sys.exit("packaging/sbom.py: expected [--licences | --kernel RELEASE] VERSION, "
                     f"found {options}")
