"""How the tools' pictures look, for matplotlib: shared by the demo and by the report."""

from __future__ import annotations

from typing import Any

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
