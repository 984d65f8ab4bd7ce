"""A flame graph as a picture, and as folded stacks for other people's tools."""

from __future__ import annotations

from html import escape

from strata import terminal
from strata.flame.graph import CallTree, shown_types
from strata.flame.page import Picture
from strata.pprof import Profile
from strata.stats import human

WIDTH, ROW, TOP = 1200, 18, 44
LETTER = 6.6  # width of one at 11 px
THINNEST = 0.4


def quantity(value: int, unit: str) -> str:
    if unit == "bytes":
        return human(value)
    if unit == "nanoseconds":
        return f"{value / 1e9:,.3f} s"
    return f"{value:,}"


def colour(name: str) -> str:
    """One for each function, the same in every picture."""
    mixed = 0
    for letter in name:
        mixed = (mixed * 31 + ord(letter)) & 0xFFFFFFFF
    return f"hsl({18 + mixed % 38} {70 + (mixed >> 8) % 20}% {62 + (mixed >> 16) % 12}%)"


def change_colour(new: int, old: int) -> str:
    change = (new - old) / max(new, old, 1)
    strength = abs(change)
    if change >= 0:
        return f"hsl(8 {85 * strength:.0f}% {86 - 24 * strength:.0f}%)"
    return f"hsl(212 {80 * strength:.0f}% {86 - 22 * strength:.0f}%)"


def svg(picture: Picture, new: Profile, old: Profile | None = None, index: int = -1) -> str:
    """Drawn by one type of value: the default one unless `index` says another. With `old`, widths
    are new values and colours tell the change."""
    kind = shown_types(new)[0] if index < 0 else index
    unit = new.types[kind].unit
    tree = CallTree([new] if old is None else [new, old], [kind])
    total = tree.frames[0].values[0]
    scale = WIDTH / total if total else 0
    boxes = []
    deepest = 0
    todo = [(0, 0, 0.0)]
    while todo:
        at, level, left = todo.pop()
        frame = tree.frames[at]
        wide = frame.values[0] * scale if at else float(WIDTH)
        if wide < THINNEST:
            continue
        deepest = max(deepest, level)
        y = TOP + level * ROW
        said = quantity(frame.values[0], unit)
        fill = colour(frame.name)
        if old is not None:
            fill = change_colour(*frame.values)
            said = f"{quantity(frame.values[1], unit)} → {said}"
        fits = int((wide - 6) / LETTER)
        text = frame.name if len(frame.name) <= fits else frame.name[: max(0, fits - 1)] + "…"
        boxes.append(
            f"<g><title>{escape(printable(frame.name))}: {said}</title>"
            f'<rect x="{left:.1f}" y="{y}" width="{max(wide - 0.5, 0.3):.1f}" height="{ROW - 1}" '
            f'rx="1" fill="{fill}"/>'
            + (
                f'<text x="{left + 3:.1f}" y="{y + 12}">{escape(printable(text))}</text>'
                if fits > 2
                else ""
            )
            + "</g>"
        )
        begin = left
        children = sorted(frame.children.values(), key=lambda c: -tree.frames[c].values[0])
        for child in children:
            todo.append((child, level + 1, begin))
            begin += tree.frames[child].values[0] * scale
    height = TOP + (deepest + 1) * ROW + 8
    heading = escape(printable(f"{picture.title} — {new.types[kind].type.replace('_', ' ')}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n'
        f'<text x="4" y="18" font-size="15">{heading}</text>\n'
        f'<text x="4" y="35" fill="#646c75">{escape(printable(picture.subtitle))}</text>\n'
        + "\n".join(boxes)
        + "\n</svg>\n"
    )


def printable(text: str) -> str:
    """Without what XML forbids."""
    return "".join(c if c >= " " and c not in "\ufffe\uffff" else "?" for c in text)


def folded(profile: Profile, index: int = -1) -> str:
    """`outermost;…;innermost VALUE` lines, as flamegraph.pl and speedscope read them."""
    kind = shown_types(profile)[0] if index < 0 else index
    sums: dict[str, int] = {}
    for sample in profile.samples:
        names = (
            terminal.printable(name.replace(";", ":").replace("\n", " ")) for name in sample.names()
        )
        stack = ";".join(names) or "all"
        sums[stack] = sums.get(stack, 0) + sample.values[kind]
    return "".join(f"{stack} {value}\n" for stack, value in sorted(sums.items()) if value > 0)
