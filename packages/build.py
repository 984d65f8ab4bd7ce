#!/usr/bin/env python3
"""Builds Strata for /usr and makes packages of it: `make packages`.

    packages/build.py [--out out/packages] [deb] [wheel] [crate]

Without names it makes all. Each is described in docs/installing.md.
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
        installed = stage.install(work) if {"deb", "wheel"} & set(kinds) else None
        if installed and "deb" in kinds:
            made += deb.make(installed, work, out)
        if installed and "wheel" in kinds:
            made.append(wheel.make(installed, work, out))
        if "crate" in kinds:
            made.append(crate.make(work, out))
    for path in made:
        print(f"{path.stat().st_size / 2**20:7.1f} MiB  {path}")


if __name__ == "__main__":
    main()
