"""Parses `cassandra://user:password@host:port,host:port/keyspace?option=value` into checked options."""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, unquote

import msgspec

from headwater.schemas.errors import InvalidStoreUrl

PORT = 9042
PASSWORD_VARIABLE = "HEADWATER_CASSANDRA_PASSWORD"  # noqa: S105  the name of the variable
TIMEOUT_SECONDS = 12.0
"""Above every timeout of the server (range reads: 10 s), so that it is the server that gives up first, and says how."""

_KEYSPACE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
_SHAPE = re.compile(r"cassandra://(?:(?P<user>[^/?#@]*)@)?(?P<hosts>[^/?#@]*)/?(?P<keyspace>[^/?#]*)(?:\?(?P<query>[^#]*))?")
_TLS_FILES = ("tls_ca", "tls_certificate", "tls_key")
_OPTIONS = {"consistency", "datacenter", "replication", "timeout", "user", "tls", *_TLS_FILES}
KEY_PASSWORD_VARIABLE = "HEADWATER_CASSANDRA_KEY_PASSWORD"  # noqa: S105  the name of the variable


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files; the system's certificates where no CA is named."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None


class CassandraOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL asks for. The password is a field, and never part of `where`."""

    hosts: list[tuple[str, int]]
    keyspace: str
    local: bool = False
    """LOCAL_QUORUM and LOCAL_SERIAL in `datacenter`, instead of QUORUM and SERIAL over all."""
    datacenter: str | None = None
    replication: int = 1
    user: str | None = None
    password: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    tls: TlsFiles | None = None
    """Plaintext if None."""

    @property
    def where(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.hosts)
        return f"cassandra://{hosts}/{self.keyspace}"


def parse_url(url: str) -> CassandraOptions:
    shape = _SHAPE.fullmatch(url)
    if shape is None:
        raise _invalid("the URL has not the form of a Cassandra store.")
    options = _options(shape["query"] or "")
    user, _, password = (shape["user"] or "").partition(":")
    return CassandraOptions(
        hosts=[_host(host) for host in (shape["hosts"] or "127.0.0.1").split(",")],
        keyspace=_keyspace(shape["keyspace"]),
        local=_is_local(options),
        datacenter=options.get("datacenter"),
        replication=int(_number(options, "replication", 1, whole=True)),
        user=unquote(user) or options.get("user"),
        password=unquote(password) or os.environ.get(PASSWORD_VARIABLE),
        timeout_seconds=_number(options, "timeout", TIMEOUT_SECONDS, whole=False),
        tls=_tls(options),
    )


def _tls(options: dict[str, str]) -> TlsFiles | None:
    """⚠ Files without tls=require are refused: a CA with plaintext is a mistake."""
    mode = options.get("tls", "off")
    if mode not in ("off", "require"):
        raise _invalid(f"tls is {mode!r}; it is 'off' or 'require'.")
    ca, certificate, key = (options.get(name) or None for name in _TLS_FILES)
    if mode == "off":
        if ca or certificate or key:
            raise _invalid("tls_ca, tls_certificate and tls_key need tls=require.")
        return None
    if bool(certificate) != bool(key):
        raise _invalid("tls_certificate and tls_key go together.")
    return TlsFiles(ca=ca, certificate=certificate, key=key, key_password=os.environ.get(KEY_PASSWORD_VARIABLE))


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise _invalid(f"unknown option {unknown[0]!r}.")
    return options


def _is_local(options: dict[str, str]) -> bool:
    consistency = options.get("consistency", "global")
    if consistency not in ("global", "local"):
        raise _invalid(f"consistency is {consistency!r}; it is 'global' or 'local'.")
    if consistency == "local" and not options.get("datacenter"):
        raise _invalid("consistency=local needs datacenter=<name>.")
    return consistency == "local"


def _host(text: str) -> tuple[str, int]:
    bracketed = re.fullmatch(r"\[(?P<host>[^\]]+)\](?::(?P<port>\d+))?", text)
    host, port = (bracketed["host"], bracketed["port"]) if bracketed else _split_port(text)
    if not host or not 0 < int(port or PORT) < 65_536:
        raise _invalid(f"{text!r} is not host:port.")
    return host, int(port or PORT)


def _split_port(text: str) -> tuple[str, str | None]:
    host, colon, port = text.partition(":")
    if colon and not port.isdecimal():
        raise _invalid(f"{text!r} is not host:port.")
    return host, port or None


def _keyspace(text: str) -> str:
    if not _KEYSPACE.fullmatch(text):
        raise _invalid(f"{text!r} is not a keyspace name." if text else "the URL names no keyspace.")
    return text


def _number(options: dict[str, str], name: str, default: float, *, whole: bool) -> float:
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,4}" if whole else r"\d{1,4}(\.\d{1,3})?", text) or float(text) <= 0:
        raise _invalid(f"{name} is {text!r}; it is a {'whole ' if whole else ''}number above 0.")
    return float(text)


def _invalid(message: str) -> InvalidStoreUrl:
    """Says what is wrong without repeating the URL, which may hold a password."""
    return InvalidStoreUrl(
        message,
        field="store",
        remedy="Use cassandra://host:port/keyspace[?consistency=global|local&datacenter=…&replication=…&timeout=…&user=…&tls=require&tls_ca=…].",
    )
