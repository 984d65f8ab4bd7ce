"""Every command that reads a file ends with one line on what is none: devices, pipes, files without
end, cut off or larger than anything of ours; and what a file says of itself is only shown."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command import strata
from test_false_answers import NAME, TERMINAL, assert_harmless, assert_one_line

ROOT = Path(__file__).resolve().parents[2]


def device(_: Path) -> Path:
    return Path("/dev/zero")


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def huge(folder: Path) -> Path:
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 42)
    return folder / "huge"


def cut_off(folder: Path) -> Path:
    (folder / "cut").write_bytes(gzip.compress(bytes(range(256)) * 64)[:-20])
    return folder / "cut"


def directory(folder: Path) -> Path:
    return folder


FILES = [device, pipe, huge, cut_off, directory]
COMMANDS: dict[str, Callable[[Path, Path], tuple[str | Path, ...]]] = {
    "top": lambda file, _: ("top", file),
    "flame": lambda file, out: ("flame", file, "-o", out / "x.svg"),
    "diff": lambda file, _: ("diff", file, file),
    "symbolize": lambda file, out: ("symbolize", file, "-o", out / "x.pb.gz"),
    "info": lambda file, _: ("trace", "--info", file),
    "annotate": lambda file, out: ("trace", "--annotate", file, "-o", out / "x"),
    "replay": lambda file, _: ("replay", file),
    "run": lambda file, _: ("run", "--lib", file, "--", "true"),
    "arm": lambda file, _: ("compare", "--arm", "none", "--arm", f"path:{file}", "--", "true"),
    "hosts": lambda file, out: (
        *("compare", "--arm", "none", "--arm", "glibc", "--hosts", file),
        *("-o", out / "run", "--", "true"),
    ),
}


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_what_is_no_file_is_one_line(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    (tmp_path / "in").mkdir()
    out = tmp_path / "out"
    out.mkdir()
    file = make(tmp_path / "in")
    for name, command in COMMANDS.items():
        done = strata(*command(file, out))
        assert_one_line(done)
        assert name and not list(out.glob("x*"))


@pytest.mark.parametrize("make", [device, pipe, directory, cut_off], ids=lambda make: make.__name__)
def test_folders_with_what_is_no_file(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    """Of a report, and of a comparison to go on with."""
    (tmp_path / "in").mkdir()
    file = make(tmp_path / "in")
    names = ("report.json", "samples.jsonl", "heap.pb.gz", "plan.json", "records.jsonl", "a.json")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(file)
    assert_one_line(strata("report", folder, "-o", tmp_path / "out"))
    assert_one_line(strata("compare", "--resume", folder))


def test_folder_of_links_to_nothing(tmp_path: Path) -> None:
    for name in ("a.json", "heap-1.pb.gz", "heap-2.pb.gz"):
        (tmp_path / name).symlink_to(tmp_path / "gone")
    assert_one_line(strata("report", tmp_path, "-o", tmp_path / "out"))


def test_pipe_that_a_name_on_the_command_line_has(tmp_path: Path) -> None:
    """`strata run` looks into a program before it is started."""
    path = pipe(tmp_path)
    path.chmod(0o755)
    library = ROOT / "build/lib/libstrata.so"
    if not library.exists():
        pytest.skip("the library was not built")
    done = strata("run", "--lib", library, "--", path)
    assert_harmless(done)
    assert done.returncode == 126


# ---- what a profile says of itself


def profile_of(folder: Path, function: str, file: str, process: str) -> Path:
    """One sample in a named function, and one in a file that is to be asked for its name."""
    code = """
import sys
from pathlib import Path
from strata.pprof import Line, Location, Mapping, Profile, Sample, ValueType, dump
path, function, file, process = (text.encode().decode("unicode_escape") for text in sys.argv[1:])
mapping = Mapping(0x1000, 0x9000, 0, file)
places = Location(1, None, (Line(function),)), Location(0x2000, mapping)
types = [ValueType("inuse_space", "bytes")]
samples = [Sample((place,), (1000,)) for place in places]
comments = ["process " + process]
dump(Profile(types, samples, [mapping], "inuse_space", comments=comments), Path(path))
"""
    path = folder / "made.pb.gz"
    texts = [text.encode("unicode_escape").decode() for text in (function, file, process)]
    subprocess.run(
        [str(ROOT / ".venv/bin/python"), "-c", code, str(path), *texts],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        check=True,
        timeout=60,
    )
    return path


def test_names_in_a_profile_reach_no_terminal(tmp_path: Path) -> None:
    file = profile_of(tmp_path, f"f{TERMINAL}\n[bold]</script>", f"/{TERMINAL}", f"{NAME}[/bold]")
    for command in (("top", file), ("diff", file, file), ("top", file, "--type", "inuse_space")):
        done = strata(*command)
        assert_harmless(done)
        assert done.returncode == 0
    assert "[/bold]" in strata("top", file).stdout
    assert "f\\u001b[31m" in strata("top", file).stdout
    for form in ("html", "svg", "folded"):
        out = tmp_path / f"x.{form}"
        assert_harmless(strata("flame", file, "-o", out))
        text = out.read_text()
        assert "[bold]</script>" not in text or form == "folded"
        if form != "html":  # where JSON escapes them
            assert "\x1b" not in text


@pytest.mark.parametrize(
    "file", ["/proc/kmsg", "/proc/kcore", "/dev/zero", "/a\0b", "/proc/self/mem"]
)
def test_files_that_a_profile_names_are_not_waited_for(tmp_path: Path, file: str) -> None:
    path = profile_of(tmp_path, "f", file, "x")
    done = strata("top", path)
    assert_harmless(done)
    assert done.returncode == 0
