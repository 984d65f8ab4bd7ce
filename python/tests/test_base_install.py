"""What works without any extra of the package: pip installs typer, rich and protobuf, no more."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from profiles import heap

from strata import errors
from strata.cli import EXTRAS, MODULES, why_not_imported
from strata.pprof import dump

PYTHON = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
COMMANDS = {name for names in MODULES.values() for name in names.split()}
ON_EXTRAS = {name for names in EXTRAS.values() for name in names.split()}

# What the three bring along.
BROUGHT = ("click", "pygments", "markdown_it", "mdurl", "shellingham", "typing_extensions")
CARRIED = {"typer", "rich", "google", "annotated_doc", *BROUGHT}

EACH_WITHOUT_EXTRAS = """
import json, os, sys, traceback

class Nothing:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root not in sys.stdlib_module_names and root not in ALLOWED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ALLOWED = {"strata", *json.loads(sys.argv[1])}
sys.meta_path.insert(0, Nothing())
from strata.cli import app_for, main

app_for([])  # here and not once in each child: they all load much the same
import rich.console, rich.panel, rich.table, rich.markdown, typer.rich_utils

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        with open(f"said-{os.getpid()}", "w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        status = 1
        sys.argv = ["strata", *line.split()]
        try:
            main()
        except SystemExit as ended:
            status = ended.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(f"said-{child}", errors="replace") as said:
        print(json.dumps([line.strip(), status, said.read()]), flush=True)
"""

DONE = (
    "--version",
    "--help",
    "doctor --help",
    "ps",
    "top heap.pb.gz",
    "diff heap.pb.gz heap.pb.gz",
    "flame heap.pb.gz -o heap.svg",
    "flame heap.pb.gz -o heap.html",
    "symbolize heap.pb.gz -o again.pb.gz",
    "explain overflow",
)
# Each as far as where the packages are wanted.
LACKING = (
    "compare --arm none --arm none:A=1 -- true",
    "lifetimes heap.pb.gz -o l.parquet",
    "train heap.pb.gz -o m.model",
    "model show m.model",
    "model test m.model heap.pb.gz",
    "report .",
    "simulate heap.csv",
    "pageutil -- true",
    "trace --info t.stb",
    "trace --annotate t.stb -o u.stb",
)
NOT_DONE = ("replay t.stb", "lint .", "price 0", "stats 0", "profile 0 -o p.pb.gz", "get 0")


def outcomes(typed: list[str], folder: Path) -> dict[str, tuple[int, str]]:
    dump(heap({"main;work": 1000}), folder / "heap.pb.gz")
    done = subprocess.run(
        [sys.executable, "-c", EACH_WITHOUT_EXTRAS, json.dumps(sorted(CARRIED))],
        input="\n".join(typed),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=folder,
    )
    lines = (json.loads(line) for line in done.stdout.splitlines())
    return {line: (status, said) for line, status, said in lines}


def test_every_command_works_or_says_which_extra_it_needs(tmp_path: Path) -> None:
    helps = [f"{name} --help" for name in sorted(COMMANDS)]
    found = outcomes([*DONE, *LACKING, *NOT_DONE, *helps, "doctor"], tmp_path)
    assert {line for line, (_, said) in found.items() if "Traceback" in said} == set()
    assert {line: found[line] for line in (*DONE, *helps) if found[line][0] != 0} == {}
    assert {line: found[line] for line in (*LACKING, *NOT_DONE) if found[line][0] != 2} == {}
    for line in LACKING:
        said = found[line][1]
        assert said.startswith("strata: "), (line, said)
        assert said.count("\n") == 1, (line, said)
        extra = next(e for e, names in EXTRAS.items() if line.split()[0] in names.split())
        assert f"pip install 'strata-malloc[{extra}]'" in said, (line, said)


@pytest.mark.parametrize(
    ("module", "command", "wheel", "debian"),
    [
        ("google.protobuf", "top", "pip install protobuf", "apt install --reinstall strata-tools"),
        ("polars", "report", "pip install 'strata-malloc[report]'", "apt install --reinstall"),
        ("jax", "train", "pip install 'strata-malloc[train]'", "the wheel, strata-malloc[train]"),
    ],
)
def test_what_lacks_is_named_as_it_is_installed(
    module: str, command: str, wheel: str, debian: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ImportError(f"No module named '{module}'", name=module)
    said = why_not_imported(error, command)
    assert said.endswith(f": {wheel}")
    assert said.startswith(f"{command} needs {'protobuf' if 'google' in module else module} (")
    monkeypatch.setattr(errors, "FROM_DEBIAN", True)
    said = why_not_imported(error, command)
    assert debian in said
    assert "pip" not in said


def test_the_extras_are_those_of_the_package() -> None:
    assert set(EXTRAS) <= set(PROJECT["optional-dependencies"])
    assert ON_EXTRAS <= COMMANDS


def imports(node: ast.AST) -> Iterator[str]:
    """What is imported anywhere in it, but for the types alone."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            for other in node.orelse:
                yield from imports(other)
            return
        case ast.Import(names=names):
            yield from (one.name for one in names)
        case ast.ImportFrom(module=str(module), names=names):
            yield module
            yield from (f"{module}.{one.name}" for one in names)
    for child in ast.iter_child_nodes(node):
        yield from imports(child)


def source_of(module: str) -> Path | None:
    base = PYTHON / module.replace(".", "/")
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def test_what_a_base_command_imports_late_is_there_too() -> None:
    """Those are the ones that no `--help` finds."""
    base = {module for module, names in MODULES.items() if not ON_EXTRAS & set(names.split())}
    assert {"reach", "doctor.command", "run_command", "flame.command"} <= base
    work = [f"strata.{module}" for module in base]
    seen = set(work)
    while work:
        module = work.pop()
        path = source_of(module)
        assert path is not None
        for name in imports(ast.parse(path.read_text())):
            root = name.partition(".")[0]
            assert root == "strata" or root in sys.stdlib_module_names or root in CARRIED, (
                f"{module} is on the way of a base command and imports {name}"
            )
            if root == "strata" and name not in seen and source_of(name) is not None:
                seen.add(name)
                work.append(name)
