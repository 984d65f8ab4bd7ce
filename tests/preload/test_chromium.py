"""Chromium on the library, headless: a page's script runs, with and without the sandbox.

Chromium brings an allocator of its own; what its libraries allocate is the library's.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import Lab, Result, need
from private_system import NO_NETWORK, UID, USER, PrivateSystem

PAGE = """<!doctype html><title>page</title><p id="sum"></p><canvas id="c"></canvas><script>
const items = Array.from({length: 50000}, (_, n) => ({n, text: 'item ' + n}));
items.sort((a, b) => a.text < b.text ? -1 : 1);
document.getElementById('c').getContext('2d').fillText('text', 10, 10);
document.getElementById('sum').textContent = items.reduce((sum, item) => sum + item.n, 0);
</script>"""
SWITCHES = ("--headless", "--disable-gpu", "--dump-dom", "--no-first-run")


def test_page_without_sandbox(lab: Lab, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = (need("chromium"), *SWITCHES, "--no-sandbox", profile, page.as_uri())
    result = lab.run(*command, env={"HOME": str(tmp_path)}, timeout=120)
    assert result.returncode == 0, result.explain()
    assert '<p id="sum">1249975000</p>' in result.stdout, result.explain()
    assert "strata:" not in result.stderr, result.explain()


def sandboxed(lab: Lab, folder: Path) -> Result:
    folder.mkdir()
    system = PrivateSystem(lab, folder, NO_NETWORK)
    home = f"/home/{USER}"
    system.path(f"{home}/page.html").write_text(PAGE)
    as_user = ("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--")
    chromium = (need("chromium"), *SWITCHES, f"--user-data-dir={home}/profile")
    env = {"HOME": home, "TMPDIR": home}
    return system.run(*as_user, *chromium, f"file://{home}/page.html", env=env, timeout=120)


def test_page_in_sandbox(lab: Lab, tmp_path: Path) -> None:
    """Its processes for pages live in namespaces of their own, behind filters."""
    result = sandboxed(lab, tmp_path / "preloaded")
    if result.returncode != 0 and sandboxed(Lab(None, tmp_path), tmp_path / "plain").returncode:
        pytest.skip("chromium has no sandbox here")
    assert result.returncode == 0, result.explain()
    assert '<p id="sum">1249975000</p>' in result.stdout, result.explain()
    assert "strata:" not in result.stderr, result.explain()
