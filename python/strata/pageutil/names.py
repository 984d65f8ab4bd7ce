"""Function names for the call stacks of blocks, from the files that were mapped."""

from __future__ import annotations

import bisect

from strata.pageutil.measure import Result
from strata.pprof.model import Location, Mapping, Profile, Sample
from strata.symbolize import symbolize


class StackNames:
    def __init__(self, result: Result) -> None:
        files = sorted(result.files, key=lambda file: file.start)
        starts = [file.start for file in files]
        self._mappings = [Mapping(f.start, f.end, f.offset, f.path) for f in files]
        places = {}
        for address in {frame for kind in result.types for frame in kind.stack}:
            # the last that begins before it and holds it: later mappings lie within earlier ones
            for at in range(bisect.bisect_right(starts, address) - 1, -1, -1):
                if address < files[at].end:
                    # a return address is behind its call
                    places[address] = Location(address - 1, self._mappings[at])
                    break
                if starts[at] + (1 << 30) < address:
                    break
        profile = Profile([], [Sample((place,), ()) for place in places.values()], self._mappings)
        named = symbolize(profile).samples
        self._names = {
            address: next(sample.stack[0].names(), f"{address:#x}")
            for address, sample in zip(places, named, strict=True)
        }

    def of(self, stack: tuple[int, ...]) -> list[str]:
        """Innermost first."""
        return [self._names.get(address, f"{address:#x}") for address in stack]
