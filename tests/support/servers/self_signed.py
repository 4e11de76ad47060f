"""Creates certificates and their keys for one test: self-signed ones, and ones that an authority has signed."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(folder: Path) -> tuple[str, str]:
    """For an hour, and for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("headwater test")
    return _written(folder, _certificate(name, name, key.public_key(), is_authority=True).sign(key, hashes.SHA256()), key)


def signed_by(authority: tuple[str, str], folder: Path, *names: str, common_name: str = "headwater server") -> tuple[str, str]:
    """For 127.0.0.1 or these names, for an hour, by the authority with this certificate and key."""
    certificate = x509.load_pem_x509_certificate(Path(authority[0]).read_bytes())
    signing = serialization.load_pem_private_key(Path(authority[1]).read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    made = _certificate(_name(common_name), certificate.subject, key.public_key(), names, is_authority=False)
    return _written(folder, made.sign(signing, hashes.SHA256()), key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, names: tuple[str, ...] = (), *, is_authority: bool
) -> x509.CertificateBuilder:
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names] or addresses), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )


def _written(folder: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> tuple[str, str]:
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(files[0]), str(files[1])
