"""A flame graph as one page that loads nothing from elsewhere: page.html with the data put in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from strata.flame.graph import CallTree, shown_types
from strata.pprof import Profile


@dataclass(frozen=True)
class Picture:
    """What a page says above its graph."""

    title: str
    subtitle: str = ""


def page(picture: Picture, new: Profile, old: Profile | None = None) -> str:
    """The page for a profile, or for the change from `old` to `new`."""
    types = shown_types(new)
    tree = CallTree([new] if old is None else [new, old], types)
    kept = tree.biggest()
    place = {index: number for number, index in enumerate(kept)}
    names: dict[str, int] = {}
    rows = []
    for index in kept:
        frame = tree.frames[index]
        name = names.setdefault(frame.name, len(names))
        rows.append([name, place.get(frame.parent, -1), *frame.values])
    data = {
        "title": picture.title,
        "subtitle": picture.subtitle,
        "types": [[new.types[index].type, new.types[index].unit] for index in types],
        "diff": old is not None,
        "names": list(names),
        "frames": rows,
        "hidden": len(tree.frames) - len(kept),
    }
    # The data stands inside of a script element: nothing in it may look like its end.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return template().replace("/*DATA*/null", text)


def template() -> str:
    return resources.files("strata.flame").joinpath("page.html").read_text(encoding="utf-8")
