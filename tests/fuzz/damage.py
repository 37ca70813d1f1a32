"""Damage to the bytes of a file, as transfers, editors, disks and attackers do it."""

_TOKENS = [
    *(b'"', b"'", b"\\", b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf"),
    *(b"\r", b"\n", b"\n\n", b"\r\n", b",", b"\t", b";", b"#"),
    *(b"-1", b"0", b"1.7", b"1e400", b"NaN", b"inf", b"null", b"9223372036854775807", b"9" * 5000, b"\x1b[31m"),
    *(b"{", b"[" * 3000, b'{"a":' * 1500, b"\x1f\x8b\x08", b"PK\x03\x04", b"PAR1", b"\x93NUMPY", b"\xed\xa0\x80"),
]  # fmt: skip


def _truncate(content, rng, donor):
    return content[: rng.randrange(len(content) + 1)]


def _flip(content, rng, donor):
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(content, rng, donor):
    start = rng.randrange(len(content) + 1)
    length = rng.choice([1, 2, 4, 8, 16])
    return (
        content[:start]
        + rng.choice([rng.randbytes(length), b"\0" * length, b"\xff" * length])
        + content[start + length :]
    )


def _insert(content, rng, donor):
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.choice([*_TOKENS, rng.randbytes(rng.randrange(1, 100))]) + content[start:]


def _delete(content, rng, donor):
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice([1, 1, 2, 10, 100, 1000]) :]


def _duplicate(content, rng, donor):
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice([1, 10, 100, 1000])]
    return content[:start] + part * rng.choice([2, 2, 3, 100]) + content[start:]


def _splice(content, rng, donor):
    return content[: rng.randrange(len(content) + 1)] + donor[rng.randrange(len(donor) + 1) :]


_WAYS = [_truncate, _flip, _overwrite, _insert, _delete, _duplicate, _splice]


def damaged(content, rng, donor):
    """Return the content after one or a few accidents; `donor` is another file, of which a part may get into it."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        content = rng.choice(_WAYS)(content, rng, donor)
    return content
