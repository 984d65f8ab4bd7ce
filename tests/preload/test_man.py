"""man on the library: its pipeline of filters, in the seccomp sandbox that it makes for them."""

from __future__ import annotations

from pathlib import Path

from blackbox import Lab
from private_system import PrivateSystem, program

SECTION = """.SH SECTION {n}
.TP
.B \\-\\-option{n} \\fIvalue\\fR
Sets the {n}th option; see
.BR page (1).
.PP
Text of paragraph {n}, \\(lqquoted\\(rq, long enough that it has to be broken into several lines of
the terminal's width, with a hyphenation or two on the way.
.TS
l r.
name	value
row {n}	{n}
.TE
"""


def test_a_long_page(lab: Lab, tmp_path: Path) -> None:
    page = "'\\\" t\n.TH PAGE 1\n" + "".join(SECTION.format(n=n) for n in range(150))
    outputs = []
    for name, used in (("plain", Lab(None, tmp_path)), ("preloaded", lab)):
        folder = tmp_path / name
        folder.mkdir()
        system = PrivateSystem(used, folder)
        system.write("/home/page.1", page)
        env = {"MANWIDTH": "80", "LC_ALL": "C", "MANPAGER": "cat", "HOME": "/home"}
        result = system.run(program("man"), "--warnings", "-l", "/home/page.1", env=env)
        outputs.append(result.ok().stdout)
    assert outputs[0].count("SECTION") == 150
    assert outputs[0] == outputs[1]
