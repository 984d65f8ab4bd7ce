#!/usr/bin/env python3
"""Builds Strata for /usr and makes packages of it: `make packages`.

    packages/build.py [--out out/packages] [deb] [wheel] [crate]

Without names it makes all. Each is described in docs/installing.md. Debian packages and wheels are
made for each architecture and C library that can be built here (stage.targets).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import crate
import deb
import stage
import wheel

KINDS = ("deb", "wheel", "crate")


def stages_by_machine(work: Path) -> list[list[stage.Stage]]:
    machines: dict[str, list[stage.Stage]] = {}
    for target in stage.targets():
        machines.setdefault(target.machine, []).append(stage.install(target, work))
    return list(machines.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; all")
    parser.add_argument("--out", type=Path, default=stage.ROOT / "out" / "packages")
    args = parser.parse_args()
    if unknown := set(args.kinds) - set(KINDS):
        parser.error(f"no such kind of package: {', '.join(sorted(unknown))}")
    kinds = args.kinds or KINDS
    out: Path = args.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="strata-packages-") as folder:
        work = Path(folder)
        if {"deb", "wheel"} & set(kinds):
            for stages in stages_by_machine(work):
                for each in stages:
                    if "deb" in kinds:
                        made += deb.make(each, work, out)
                    if "wheel" in kinds:
                        made.append(wheel.make(each, stages, work, out))
        if "crate" in kinds:
            made.append(crate.make(work, out))
    for path in made:
        print(f"{path.stat().st_size / 2**20:7.1f} MiB  {path}")


if __name__ == "__main__":
    main()
