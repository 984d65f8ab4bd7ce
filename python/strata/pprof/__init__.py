"""Profiles in the format of pprof: reading, writing, merging, subtracting, filtering.

from strata.pprof import load, subtract
growth = subtract(load(Path("new.pb.gz")), load(Path("old.pb.gz")))
"""

from strata.pprof.calc import (
    alike,
    filter_profile,
    merge,
    sample_count,
    subtract,
    with_sample_counts,
)
from strata.pprof.encode import PROCESS, dump, dumps, process_of, with_comment
from strata.pprof.model import Label, Line, Location, Mapping, Profile, Sample, ValueType
from strata.pprof.read import load, parse

__all__ = [
    "PROCESS",
    "Label",
    "Line",
    "Location",
    "Mapping",
    "Profile",
    "Sample",
    "ValueType",
    "alike",
    "dump",
    "dumps",
    "filter_profile",
    "load",
    "merge",
    "parse",
    "process_of",
    "sample_count",
    "subtract",
    "with_comment",
    "with_sample_counts",
]
