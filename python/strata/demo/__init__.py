"""The demo: one Redis, one load, three allocators, a table and a page."""
