"""Made-up items of two other domains, in the shapes that the literature gives. A seed gives the
same items each time.

Files on flash are those of M. Rosenblum and J. Ousterhout, "The design and implementation of a log-
structured file system", ACM TOCS 10(1), 1992, section 3.5: files of 4 KB, a page each; a tenth of
them, the hot ones, get nine tenths of the writes. A page is written each millisecond. Which files
are hot follows from their directory, which is our addition: something has to tell.

Jobs on machines are virtual machines after J. Ling et al., "LAVA: lifetime-aware VM allocation with
learned distributions and adaptation to mispredictions", MLSys 2025: most live less than an hour and
use little; a few live for weeks. That sizes are mostly of one or two cores, and that owners are
consistent, is after E. Cortez et al., "Resource Central", SOSP 2017. All numbers are ours."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from strata.simulate.items import SECOND, Items

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

FILES = 1 << 16
FILES_A_DIRECTORY = 64
ROUNDS = 10  # writes after the first, in files
WRITE = SECOND // 1000
HOT_FILES, HOT_WRITES = 0.1, 0.9

HOUR = 3600.0
DAYS = 30
JOBS_AN_HOUR = 500
OWNERS = 400
SHORT_JOBS = 0.88
CORES = (1, 2, 4, 8, 16, 32)
CORE_SHARES = (0.45, 0.35, 0.10, 0.06, 0.03, 0.01)
FAITHFUL = 0.95  # of an owner's jobs are of the owner's kind


def flash(seed: int) -> Items:
    random = np.random.default_rng(seed)
    hot_directories = round(FILES * HOT_FILES) // FILES_A_DIRECTORY
    hot = hot_directories * FILES_A_DIRECTORY
    count = FILES * ROUNDS
    to_hot = random.random(count) < HOT_WRITES
    chosen = np.where(to_hot, random.integers(0, hot, count), random.integers(hot, FILES, count))
    file = np.concatenate([random.permutation(FILES), chosen])
    frame = pl.DataFrame({"file": file, "start": np.arange(file.size) * WRITE})
    frame = frame.with_columns(end=pl.col("start").shift(-1).over("file")).select(
        "start",
        "end",
        size=pl.lit(1, pl.Int64),
        context=(pl.col("file") // FILES_A_DIRECTORY).cast(pl.String),
        predicted=pl.lit(None, pl.Int64),
        first="start",
        last="end",
    )
    return Items("files, hot and cold", frame)


def job_hours(random: np.random.Generator, short: Bools) -> Floats:
    """From one minute to an hour, or from an hour to three weeks; logarithms lie evenly."""
    low, high = np.where(short, 1 / 60, 1.0), np.where(short, 1.0, 21 * 24.0)
    result: Floats = low * (high / low) ** random.random(short.size)
    return result


def jobs(seed: int) -> Items:
    random = np.random.default_rng(seed)
    hours = np.arange(DAYS * 24)
    swing = 1 + 0.3 * np.sin(2 * np.pi * hours / 24)
    arrivals = random.poisson(JOBS_AN_HOUR * swing)
    start = np.sort(np.repeat(hours, arrivals) + random.random(int(arrivals.sum())))
    owner = random.integers(0, OWNERS, start.size)
    # so many owners' jobs are short that with those who are not faithful the share is right
    share = (SHORT_JOBS - (1 - FAITHFUL)) / (2 * FAITHFUL - 1)
    short_owner = owner < round(OWNERS * share)
    short = np.where(random.random(start.size) < FAITHFUL, short_owner, ~short_owner)
    end = start + job_hours(random, short)
    nanoseconds = HOUR * SECOND
    frame = pl.DataFrame(
        {
            "start": (start * nanoseconds).astype(np.int64),
            "end": (np.minimum(end, DAYS * 24) * nanoseconds).astype(np.int64),
            "size": random.choice(np.array(CORES), start.size, p=CORE_SHARES),
            "context": owner.astype(str),
        }
    )
    forever = pl.Series(end >= DAYS * 24)
    frame = frame.with_columns(end=pl.when(~forever).then(pl.col("end")))
    return Items(
        "virtual machines",
        frame.with_columns(
            predicted=pl.lit(None, pl.Int64), first=pl.col("start"), last=pl.col("end")
        ),
    )
