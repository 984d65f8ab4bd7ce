"""libstrata-apr.so: programs see what they see with APR's own pools, and nothing is left out."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from blackbox import ROOT, Lab, Result, cases, missing
from serving import apr_preload

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "apr_cases.c"
RESOURCES = HERE / "apr_resource_cases.c"
ALL = cases(SOURCE)
SAME = [c for c in ALL if not c.startswith(("bad_", "reap_", "plain_"))]
POOL_FUNCTION = re.compile(r"apr_(p?c?alloc|pvs?printf|psprintf|pool_\w+)(_debug)?$")


def build(lab: Lab, source: Path = SOURCE) -> Path:
    include = (f"-I{ROOT / 'include'}", "-I/usr/include/apr-1.0", "-D_LARGEFILE64_SOURCE")
    libraries = ("-lapr-1", "-laprutil-1") if source == RESOURCES else ("-lapr-1",)
    return lab.build(source, *include, "-Wl,--no-as-needed", *libraries)


def on_reaps(lab: Lab, case: str, source: Path = SOURCE, **settings: str) -> Result:
    env = {"LD_PRELOAD": apr_preload(lab)} | settings
    return lab.run(build(lab, source), case, env=env, timeout=120)


@pytest.mark.parametrize(
    ("source", "case"), [(SOURCE, c) for c in SAME] + [(RESOURCES, c) for c in cases(RESOURCES)]
)
def test_the_same_as_with_pools_of_apr(lab: Lab, source: Path, case: str) -> None:
    if source == RESOURCES and not Path("/usr/include/apr-1.0/apr_buckets.h").exists():
        missing("libaprutil1-dev is not installed")
    stock = lab.run(build(lab, source), case, preload=False, timeout=120).ok()
    assert on_reaps(lab, case, source).ok().stdout == stock.stdout


@pytest.mark.parametrize("case", [c for c in ALL if c.startswith("reap_")])
def test_what_reaps_add(lab: Lab, case: str) -> None:
    on_reaps(lab, case).silent()


@pytest.mark.parametrize("case", [c for c in ALL if c.startswith("plain_")])
def test_the_header_works_without_the_library(lab: Lab, case: str) -> None:
    lab.run(build(lab), case, preload=False).silent()


@pytest.mark.parametrize("case", [c for c in ALL if c.startswith("bad_")])
def test_misuse_aborts_with_one_line(lab: Lab, case: str) -> None:
    result = on_reaps(lab, case)
    assert result.returncode == -signal.SIGABRT, result.explain()
    assert len(result.strata_lines()) == len(result.stderr.splitlines()) == 1, result.explain()
    ignored = on_reaps(lab, case, STRATA_ON_ERROR="ignore")
    assert ignored.returncode == 0, ignored.explain()
    assert len(ignored.strata_lines()) == 1, ignored.explain()


def exported(library: str) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", library],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout
    return {line.split()[0].split("@")[0] for line in listing.splitlines()}


def test_no_pool_function_is_left_to_apr(lab: Lab) -> None:
    """One that is would read our record as its own."""
    ours = exported(apr_preload(lab).split(":")[-1])
    loaded = lab.run("ldd", build(lab), preload=False).stdout
    found = re.search(r"libapr-1\S* => (\S+)", loaded)
    assert found, loaded
    theirs = {name for name in exported(found[1]) if POOL_FUNCTION.match(name)}
    assert len(theirs) > 30
    assert theirs - ours == set()
    assert {name for name in ours if not name.startswith("strata_apr_")} - theirs == set()
