"""docs/options.md says what the option table of the library says, and the check for it can fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("gen_options_doc", SCRIPTS / "gen_options_doc.py")
assert SPEC is not None
assert SPEC.loader is not None
doc = importlib.util.module_from_spec(SPEC)
sys.modules["gen_options_doc"] = doc
SPEC.loader.exec_module(doc)

ROW = ("CACHE", "auto|cpu", "auto", "which cache")


def test_document_is_current() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "gen_options_doc.py", "--check"],
        check=False,
        text=True,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 0, done.stderr


def test_every_row_says_something() -> None:
    rows = doc.read_table()
    assert len(rows) >= 10
    assert all(all(field for field in row) for row in rows)


def test_bars_in_values_do_not_end_a_cell() -> None:
    assert "`auto\\|cpu`" in doc.render_table([ROW])


def test_a_changed_row_changes_the_document() -> None:
    document = f"a\n{doc.BEGIN}\nold\n{doc.END}\nb\n"
    first = doc.replace_table(document, doc.render_table([ROW]))
    other = doc.replace_table(first, doc.render_table([(*ROW[:2], "cpu", ROW[3])]))
    assert first.startswith("a\n")
    assert first.endswith("b\n")
    assert "old" not in first
    assert first != other


def test_a_document_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        doc.replace_table("no table here", "")


def test_an_option_only_in_the_table_is_found() -> None:
    table = doc.render_table([ROW])
    bare = f"{doc.BEGIN}\n{table}\n{doc.END}\n"
    assert doc.unexplained(bare, [ROW]) == ["STRATA_CACHE"]
    assert doc.unexplained(bare + "`STRATA_CACHE` is for tests.", [ROW]) == []
