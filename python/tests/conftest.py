"""A stand-in library, so that the launcher is tested without the allocator.

It exports what the finder looks for and writes a stats file at exit, as the library does. Tests
that need the real one are in the blackbox suites of the allocator.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from comparing import Compare

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

# jax compiles the same few models in every run of a test; nine tenths of a short training are that.
if "STRATA_BUILD_DIR" in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{os.environ['STRATA_BUILD_DIR']}/jax"
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

STAND_IN = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
const char* strata_version(void) { return "0.0.test"; }
static void WriteStats(unsigned long live) {
  const char* path = getenv("STRATA_STATS");
  if (path == NULL || path[0] != '/') return;
  char unfinished[4096];
  snprintf(unfinished, sizeof unfinished, "%s.new", path);
  FILE* file = fopen(unfinished, "w");
  if (file == NULL) return;
  fprintf(file, "strata 0.0.test, pid %d\n  live  %lu\n", (int)getpid(), live);
  fclose(file);
  rename(unfinished, path);
}
__attribute__((constructor)) static void ReadOptions(void) {
  if (getenv("STRATA_SAMPEL") != NULL)
    fputs("strata: unknown option STRATA_SAMPEL ignored\n", stderr);
  if (getenv("STRATA_SAMPLE") != NULL && getenv("STRATA_SAMPLE")[0] == 'x')
    fputs("strata: STRATA_SAMPLE=x makes no sense; it takes bytes; using 2M\n", stderr);
}
__attribute__((destructor)) static void AtExit(void) { WriteStats(1048576); }
"""


def compile_c(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Builds one C file; the tests run where the allocator is built, so a compiler is there."""
    path = folder / f"{name}.c"
    path.write_text(source)
    output = folder / name
    subprocess.run(["cc", "-O1", "-o", output, path, *flags], check=True)
    return output


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    return compile_c(folder, "libstrata.so", STAND_IN, "-shared", "-fPIC")


@pytest.fixture(scope="session")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("static")
    source = '#include <stdio.h>\nint main(void) { puts("still here"); return 3; }\n'
    return compile_c(folder, "static-program", source, "-static")


@pytest.fixture
def compare(library: Path, tmp_path: Path) -> Compare:
    return Compare(library, tmp_path / "run")
