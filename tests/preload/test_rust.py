"""A multithreaded Rust program on the library gives the same result as on glibc."""

from __future__ import annotations

from pathlib import Path

from blackbox import Lab

ROUNDS = 3  # of each thread


def test_rust_program(lab: Lab) -> None:
    program = lab.build(Path(__file__).resolve().parent / "churn.rs")
    expected = lab.run(program, str(ROUNDS), preload=False).ok().stdout
    assert expected.startswith("checksum ")
    for _ in range(2):
        assert lab.run(program, str(ROUNDS)).ok().stdout == expected
