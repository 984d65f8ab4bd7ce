"""Debian's php-cli on the library: its extensions, which it loads with RTLD_DEEPBIND."""

from __future__ import annotations

from pathlib import Path

import pytest
from blackbox import HEAPS, Lab, heap_library, need

SCRIPT = Path(__file__).resolve().parent / "shop.php"


def run(lab: Lab, folder: Path, *, env: dict[str, str] | None = None, preload: bool = True) -> str:
    """What the script prints; with USE_ZEND_ALLOC=0 all that PHP allocates is malloc's."""
    fetched = folder / "fetched"
    fetched.write_bytes(bytes(range(256)) * 1000)
    database = folder / "database"
    database.unlink(missing_ok=True)
    return lab.run(need("php"), SCRIPT, fetched, database, env=env, preload=preload).ok().stdout


@pytest.mark.parametrize("own", ["1", "0"], ids=["zend", "malloc"])
def test_extensions(lab: Lab, tmp_path: Path, own: str) -> None:
    env = {"USE_ZEND_ALLOC": own}
    expected = run(lab, tmp_path, env=env, preload=False)
    assert expected.endswith("\ndone\n"), expected
    assert run(lab, tmp_path, env=env) == expected


@pytest.mark.parametrize("heap", HEAPS)
def test_every_heap(lab: Lab, heap: str) -> None:
    library = str(heap_library(lab, heap))
    result = lab.run(need("php"), "-r", "echo 'hello';", env={"LD_PRELOAD": library})
    assert result.ok().stdout == "hello"
