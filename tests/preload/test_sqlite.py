"""sqlite3 on the library: a schema with as many rows as ROWS, whole, and equal to glibc's run."""

from __future__ import annotations

from pathlib import Path

from blackbox import Lab, need

ROWS = 100_000
SCRIPT = """
pragma journal_mode = wal;
pragma cache_size = 200;
create table person (id integer primary key, name text, score real, notes blob);
create table visit (person integer references person, place text, day integer);
create index visit_by_place on visit (place, day);
begin;
with recursive n (i) as (select 1 union all select i + 1 from n where i < :rows)
insert into person
  select i, printf('name %d of %s', i, hex(i * 7919)), i * 1.5, zeroblob(i % 200) from n;
with recursive n (i) as (select 1 union all select i + 1 from n where i < :rows)
insert into visit select 1 + i * 31 % :rows, 'place ' || (i % 977), i % 365 from n;
commit;
update person set notes = randomblob(300) where id % 11 = 0;
update person set notes = name || name || name where id % 13 = 0;
delete from visit where day between 100 and 120;
create table report as
  select place, count(*) visits, group_concat(name, ', ') names, sum(score) total
  from visit join person on person.id = visit.person group by place;
drop index visit_by_place;
create index visit_by_person on visit (person);
vacuum;
pragma integrity_check;
select count(*), sum(length(name)), sum(score) from person;
select count(*), sum(day) from visit;
select place, visits, length(names), total from report order by total desc, place limit 20;
select substr(name, 1, 12) p, count(distinct score) from person group by p order by 2 desc limit 9;
"""


def test_database_is_whole(lab: Lab, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(SCRIPT.replace(":rows", str(ROWS)))
    outputs = []
    for preload in (False, True):
        database = tmp_path / f"{preload}.db"
        with script.open() as stdin:
            result = lab.run(need("sqlite3"), "-batch", database, stdin=stdin, preload=preload)
        outputs.append(result.ok().stdout)
    assert "\nok\n" in outputs[0], outputs[0]
    assert outputs[0] == outputs[1]
