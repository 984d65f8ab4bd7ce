"""How the tools' pictures look, for matplotlib: shared by all that draw."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1c2733"
SOFT = "#52606d"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#b8c1cc",
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
    "savefig.dpi": 160,
}
# for pictures inside of a page
SVG_STYLE: dict[Any, Any] = STYLE | {
    "svg.fonttype": "none",
    "svg.hashsalt": "strata",
    "text.parse_math": False,  # names may hold a dollar
}
# distinguishable with any colour vision
PALETTE = ("#0b6fb8", "#d98200", "#4a9a5b", "#a23b72", "#6b6b6b", "#7a5cc0", "#5b3a1e", "#00868b")
DASHED_FROM = 6  # beyond, a colour alone is easily taken for one of the first


def svg(figure: Figure) -> str:
    """The picture as an element of a page; the figure is closed."""
    import matplotlib.pyplot as plt

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # matplotlib names its metadata's vocabularies by address; nothing is loaded, but none is needed
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
