"""A program to be recorded: SQLite, in memory, under inserts, updates, joins and an index. Python's
own objects come from its arenas, so nearly all blocks are SQLite's."""

import sqlite3

ROWS = 40_000


def main() -> None:
    db = sqlite3.connect(":memory:", cached_statements=0)
    db.executescript("""
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, town INTEGER, note TEXT);
        CREATE TABLE town (id INTEGER PRIMARY KEY, name TEXT);
        CREATE INDEX by_town ON person (town, name);
    """)
    db.executemany("INSERT INTO town VALUES (?, ?)", ((n, f"town {n}") for n in range(100)))
    for n in range(ROWS):
        note = "-" * (n * 7919 % 400)
        db.execute("INSERT INTO person VALUES (?, ?, ?, ?)", (n, f"name {n}", n * 31 % 100, note))
        if n % 4 == 0:
            db.execute(
                "UPDATE person SET note = upper(name) || note WHERE id = ?", (n * 17 % (n + 1),)
            )
        if n % 500 == 0:
            db.execute("DELETE FROM person WHERE town = ? AND id % 3 = 0", (n // 500,))
            db.execute("""
                SELECT town.name, count(*), group_concat(person.name) FROM person
                JOIN town ON town.id = person.town GROUP BY town.name ORDER BY 2 DESC, 1
            """).fetchall()
    db.commit()
    print(db.execute("SELECT count(*), sum(length(note)) FROM person").fetchone())


main()
