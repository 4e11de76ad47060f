"""Makes a private CA with a server's and a client's certificate, as PEM files for one local server."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.dev.state import LOOPBACK, ServerRecord, made_whole, write_private
from headwater.schemas.extras import needs_extra

DAYS = 3_650


def tls_folder(record: ServerRecord) -> Path:
    """`ca.pem`, `client.pem`, `client.key`, and `other-ca.pem`, which signed nothing here."""
    return Path(record.folder) / "tls"


@contextmanager
def connected_with_certificate(record: ServerRecord, port: int) -> Iterator[ssl.SSLSocket]:
    """A connection over TLS that shows the client's certificate."""
    folder = tls_folder(record)
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / "client.pem", folder / "client.key")
    with (
        socket.create_connection((LOOPBACK, port), timeout=2) as plain,
        context.wrap_socket(plain, server_hostname=LOOPBACK) as connection,
    ):
        yield connection


def ensure_certificates(folder: Path) -> None:
    """`ca.pem`, `server.pem` and `client.pem`, their keys in `*.key`, and `other-ca.pem`, which signed none of them."""
    if folder.exists():
        return
    with needs_extra("a local server with TLS", "service"):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.datetime.now(datetime.UTC)

    def issue(
        name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None
    ) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if issuer is None else issuer[0].subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=DAYS))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        if issuer is None:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key())
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost")])
            usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(authority, critical=False).add_extension(names, critical=False)
            builder = builder.add_extension(usages, critical=False)
        return builder.sign(key if issuer is None else issuer[1], hashes.SHA256()), key

    authority = issue("Headwater dev CA", None)
    with made_whole(folder) as unfinished:
        for name, pair in {
            "ca": authority,
            "other-ca": issue("Another CA", None),
            "server": issue("server", authority),
            "client": issue("headwater", authority),
        }.items():
            (unfinished / f"{name}.pem").write_bytes(pair[0].public_bytes(serialization.Encoding.PEM))
            secret = pair[1].private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            if name in ("server", "client"):
                write_private(unfinished / f"{name}.key", secret)
        both = (unfinished / "server.key").read_bytes() + (unfinished / "server.pem").read_bytes()
        write_private(unfinished / "server-both.pem", both)
