"""Compiles SQLAlchemy statements to SQL text once, with the order in which parameters are bound.

Core writes the SQL and the drivers run it: building and compiling an expression for every call costs more than SQLite takes
to execute it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec
from sqlalchemy import BigInteger, ColumnElement, Dialect, bindparam, delete, func, literal_column, select, tuple_, update
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ClauseElement

from headwater.persistence.backends.sql.keys import KEY_COLUMNS, scanned_columns
from headwater.persistence.backends.sql.tables import TABLES, mutable_rows, names, objects, pointers, schema
from headwater.persistence.rows import Table

POINTER_COLUMNS = ("head", "seq", "floor", "fence", "version", "anchor_id", "anchor_time", "created_at")
MUTABLE_COLUMNS = ("type", "key", "version", "created_at", "expires_at", "payload")
OBJECT_COLUMNS = ("id", "type", "created_at", "payload", "part", "parts")

_ONE: ColumnElement[int] = literal_column("1")


class Statement(msgspec.Struct, frozen=True):
    sql: str
    parameters: tuple[str, ...]
    constants: dict[str, object]
    """Parameters that Core made of literals, such as SQLite's OFFSET 0."""

    def bind(self, **values: object) -> tuple[object, ...]:
        if self.constants:
            values = self.constants | values
        return tuple([values[name] for name in self.parameters])


class Statements:
    """Every statement that both databases share."""

    def __init__(self, dialect: Dialect, *, first_move: str, next_move: str) -> None:
        """`first_move` and `next_move` are the SQL of the move number of a pointer that is inserted or updated."""
        self.dialect = dialect
        self._first_move: ColumnElement[int] = literal_column(first_move)
        self._next_move: ColumnElement[int] = literal_column(next_move)
        self._pages: dict[tuple[Table, bool, bool], Statement] = {}
        self.read_version = self.compiled(select(schema.c.version))
        self.add_version = self.compiled(self._insert(schema).on_conflict_do_nothing())
        self._compile_pointers()
        self._compile_names()
        self._compile_mutable()
        self.upsert_object = self.compiled(self._upsert_object())
        this_row = [objects.c[name] == bindparam(name) for name in KEY_COLUMNS[Table.OBJECTS]]
        self.remove_object = self.compiled(delete(objects).where(*this_row))

    def compiled(self, clause: ClauseElement) -> Statement:
        compiled = cast(SQLCompiler, clause.compile(dialect=self.dialect))
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        return Statement(str(compiled), tuple(compiled.positiontup or ()), constants)

    def page(self, table: Table, *, after: bool, bounded: bool) -> Statement:
        """One page of a scan: keys from (or `after`) `from_…`, below `to_…` where `bounded`, in key order."""
        known = self._pages.get((table, after, bounded))
        if known is None:
            known = self._pages[table, after, bounded] = self.compiled(_page(table, after, bounded))
        return known

    def delete_scanned(self, table: Table) -> Statement:
        """One row, if it is still the revision that was scanned."""
        sql_table = TABLES[table]
        conditions = [sql_table.c[name] == bindparam(name) for name in (*KEY_COLUMNS[table], "revision")]
        return self.compiled(delete(sql_table).where(*conditions))

    def _greatest(self, left: Any, right: Any) -> ColumnElement[Any]:
        function: Callable[..., ColumnElement[Any]] = func.max if self.dialect.name == "sqlite" else func.greatest
        return function(left, right)

    def _next_revision(self, table: SqlTable, proposed: Any) -> ColumnElement[Any]:
        return self._greatest(table.c.revision + _ONE, proposed)

    def _insert(self, table: SqlTable) -> Any:
        """An insert of all columns that knows the dialect's ON CONFLICT."""
        make: Any = sqlite.insert if self.dialect.name == "sqlite" else postgresql.insert
        return make(table).values({column.name: bindparam(column.name) for column in table.columns})

    def _compile_pointers(self) -> None:
        this_one = (pointers.c.realm == bindparam("realm_"), pointers.c.name == bindparam("name_"))
        same_version = pointers.c.version == bindparam("expected_version")
        as_expected = (*this_one, same_version, pointers.c.head == bindparam("expected_head"))
        read = select(*[pointers.c[name] for name in POINTER_COLUMNS]).where(*this_one)
        new_values: dict[str, Any] = {name: bindparam(name) for name in POINTER_COLUMNS}
        self.reserve_pointer = self.compiled(self._insert(pointers).values(move=self._first_move).on_conflict_do_nothing())
        self.read_pointer = self.compiled(read)
        self.read_pointer_locked = self.compiled(read.with_for_update())
        new_values["move"] = self._next_move
        new_values["revision"] = self._next_revision(pointers, bindparam("revision", type_=BigInteger))
        self.cas_pointer = self.compiled(update(pointers).where(*as_expected).values(new_values))
        self.delete_pointer = self.compiled(delete(pointers).where(*as_expected))

    def _compile_names(self) -> None:
        insert = self._insert(names)
        # Adding a name that is there already still changes its revision: a purge that scanned it before must spare it now.
        revision = self._next_revision(names, insert.excluded.revision)
        self.add_name = self.compiled(
            insert.on_conflict_do_update(index_elements=["realm", "name"], set_={"revision": revision})
        )
        behind = (names.c.name > bindparam("after"), names.c.name >= bindparam("prefix"))
        self.list_names = self.compiled(
            select(names.c.name)
            .where(names.c.realm == bindparam("realm"), *behind)
            .order_by(names.c.name)
            .limit(bindparam("limit"))
        )

    def _compile_mutable(self) -> None:
        this_one = (
            mutable_rows.c.realm == bindparam("realm_"),
            mutable_rows.c.type == bindparam("type_"),
            mutable_rows.c.key == bindparam("key_"),
        )
        same_version = mutable_rows.c.version == bindparam("expected_version")
        as_expected = (*this_one, same_version, mutable_rows.c.payload == bindparam("expected_payload"))
        columns = [mutable_rows.c[name] for name in MUTABLE_COLUMNS]
        mutable = ("version", "created_at", "expires_at", "payload")
        self.insert_mutable = self.compiled(self._insert(mutable_rows).on_conflict_do_nothing())
        self.read_mutable = self.compiled(select(*columns).where(*this_one))
        new_values: dict[str, Any] = {name: bindparam(name) for name in mutable}
        new_values["revision"] = self._next_revision(mutable_rows, bindparam("revision", type_=BigInteger))
        self.update_mutable = self.compiled(update(mutable_rows).where(*as_expected).values(new_values))
        self.delete_mutable = self.compiled(delete(mutable_rows).where(*as_expected))
        self.list_mutable = self.compiled(
            select(*columns)
            .where(
                mutable_rows.c.realm == bindparam("realm"),
                mutable_rows.c.type == bindparam("type"),
                mutable_rows.c.key > bindparam("after"),
            )
            .order_by(mutable_rows.c.key)
            .limit(bindparam("limit"))
        )

    def _upsert_object(self) -> Any:
        insert = self._insert(objects)
        replaced = {name: insert.excluded[name] for name in ("type", "parts", "created_at", "payload")}
        revision = self._next_revision(objects, insert.excluded.revision)
        return insert.on_conflict_do_update(index_elements=["realm", "id", "part"], set_={**replaced, "revision": revision})


def _page(table: Table, after: bool, bounded: bool) -> ClauseElement:
    sql_table = TABLES[table]
    columns = KEY_COLUMNS[table]
    key = tuple_(*[sql_table.c[name] for name in columns])

    def bound(prefix: str) -> ClauseElement:
        return tuple_(*[bindparam(f"{prefix}_{name}", type_=sql_table.c[name].type) for name in columns])

    page: Any = select(*[sql_table.c[name] for name in scanned_columns(table)])
    page = page.where(key > bound("from") if after else key >= bound("from"))
    if bounded:
        page = page.where(key < bound("to"))
    return page.order_by(*[sql_table.c[name] for name in columns]).limit(bindparam("limit"))  # type: ignore[no-any-return]
