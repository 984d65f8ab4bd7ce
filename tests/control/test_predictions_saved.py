"""What the report says of spans that are kept apart, from figures alone."""

from __future__ import annotations

from strata.report import prediction_sections
from strata.report.document import Document
from strata.report.model import Recording, Sample


def test_spans_of_what_lasts_may_be_more_than_the_heap_holds_and_the_row_says_why() -> None:
    lasting = {"size": 208, "pages": 4, "spans": 1000, "live": 40_000, "lasting": True}
    stats = Document({"bytes": {"resident": 16 << 20}, "classes": [lasting]})
    section = prediction_sections.saved_section(Recording(samples=[Sample(0, None, stats)]), [])
    assert section is not None
    page = section.picture + "".join(" ".join(map(str, row)) for row in section.rows)
    assert "31.2 MiB" in page  # of 16 MiB held
    assert "7.93 MiB of it live objects, the rest free or given back" in page
