"""Make what a server wrote safe to show: escaped, redacted, capped.

Raw bytes are only ever shown as repr or hex. A terminal, a CI log that obeys ``::command::`` and ``##[command]`` lines,
and an XML reader must not be reached by them. Secrets are the values of variables whose name says so, arguments of
options whose name says so, and a few well-known shapes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

CAP = 400  # characters of one shown value
TAIL = 8000  # characters of stderr shown
SEEN = 1 << 16  # bytes or characters before and behind what is shown that are searched for secrets with it
HIDDEN = "[redacted]"
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_\-.])(?:api[_-]?key|key|token|secret|passw(?:or)?d|credentials?|auth(?:orization)?|cookie|dsn|"
    r"private|pat)(?:$|[_\-.\d])|_pwd$|password|apikey|secret|token"
)
_SHAPES = re.compile(
    r"(?i:bearer|basic)\s+[\w\-.=+/~]{8,}"
    r"|\b(?:sk|pk|rk)[-_][\w\-]{12,}|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bxox[abprs]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\beyJ[\w-]{8,4096}+\.[\w-]{8,8192}+\.[\w-]*|\bAIza[\w-]{30,}|\bglpat-[\w-]{16,}|\bnpm_\w{30,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z ]*PRIVATE KEY-----)?"
)
# these two begin with what cannot be missing: a free run before it would be tried from each of its characters
_URL_PASSWORD = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(@)")
_ASSIGNED = re.compile(
    r"(?i)((?:password|passwd|secret|token|api_?key|authorization)[\"']?\s*[=:]\s*[\"']?)([^\s\"',;&]{4,})"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class Redactor:
    """Hides secrets in text and bytes; ``values`` are hidden wherever they occur."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = sorted({value for value in values if len(value) >= 6}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, known))) if known else None
        raw = [re.escape(value.encode("utf-8", "surrogateescape")) for value in known]
        self._bytes = re.compile(b"|".join(raw)) if raw else None

    @classmethod
    def from_environment(cls, *environments: Mapping[str, str | None]) -> Redactor:
        """Hide the values of variables with a secret's name."""
        merged = [(name, value) for env in environments for name, value in env.items()]
        return cls(value for name, value in merged if value and _SECRET_NAME.search(name))

    def text(self, text: str) -> str:
        """``text`` without secrets."""
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        text = _SHAPES.sub(HIDDEN, text)
        text = _URL_PASSWORD.sub(rf"\1{HIDDEN}\2", text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)

    def data(self, data: bytes) -> bytes:
        """``data`` with secrets overwritten by asterisks, so that every offset stays true."""
        if self._bytes is not None:
            data = self._bytes.sub(lambda match: b"*" * len(match[0]), data)
        text = data.decode("latin-1")  # one character for each byte
        for pattern in (_SHAPES, _URL_PASSWORD, _ASSIGNED):
            text = pattern.sub(_starred, text)
        return text.encode("latin-1")

    def show(self, raw: bytes, cap: int = CAP) -> str:
        """Bytes as a literal that no terminal, log or CI obeys; cut in the middle; hex beside it when not UTF-8."""
        if len(raw) <= 2 * (cap + SEEN):
            shown = cut(quote(self.text(ascii_literal(raw))), cap)
        else:
            head, tail = (quote(self.text(ascii_literal(end))) for end in (raw[: cap + SEEN], raw[-cap - SEEN :]))
            shown = f"{head[: cap // 2]}... [{len(raw)} bytes in all] ...{tail[-(cap // 2) :]}"
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            start = max(error.start - 8, 0)
            return f"{shown} (hex from byte {start}: {raw[start : start + 24].hex(' ')})"
        return shown

    def argv(self, command: Sequence[str]) -> list[str]:
        """A command line without secrets: ``--token X``, ``--token=X``, ``KEY=X`` and the known shapes."""
        words: list[str] = []
        hide = False
        for word in command:
            name, equals, _ = word.partition("=")
            if hide and not word.startswith("-"):
                words.append(HIDDEN)
            elif equals and _SECRET_NAME.search(name.lstrip("-")) and " " not in name:
                words.append(f"{name}={HIDDEN}")
            else:
                words.append(self.text(word))
            hide = not equals and word.startswith("-") and bool(_SECRET_NAME.search(word.lstrip("-")))
        return words

    def lines(self, data: bytes, cap: int = TAIL) -> str:
        """Text of a log for people: redacted, its newest ``cap`` characters, control characters escaped."""
        whole = data.decode("utf-8", "backslashreplace")
        text = self.text(whole[-cap - SEEN :])
        missing = max(len(whole) - cap - SEEN, 0) + max(len(text) - cap, 0)
        if missing:
            text = f"[{missing} characters cut]\n" + text[-cap:]
        return quote(plain(text))


def _starred(match: re.Match[str]) -> str:
    """The match with its secret part (between or behind the groups that are kept) overwritten."""
    if not match.re.groups:
        return "*" * len(match[0])
    kept, tail = match[1], match[2] if match.re is _URL_PASSWORD else ""
    return kept + "*" * (len(match[0]) - len(kept) - len(tail)) + tail


def ascii_literal(raw: bytes) -> str:
    """``repr`` of bytes, with UTF-8 text beyond ASCII readable."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return repr(raw)
    if text.isascii():
        return repr(raw)
    return _CONTROL.sub(_escape, f"b{text!r}")


def quote(text: str) -> str:
    """Break the two prefixes by which CI systems find commands in a log."""
    return text.replace("##", "#\\x23").replace("::", ":\\x3a")


def plain(text: str) -> str:
    """Control, direction and XML-illegal characters as escapes; newline and tab stay."""
    return _CONTROL.sub(_escape, text.replace("\r\n", "\n"))


def cut(text: str, cap: int = CAP) -> str:
    """Head and tail of a long text, with the length of what is missing."""
    if len(text) <= cap:
        return text
    half = cap // 2
    return f"{text[:half]}... [{len(text) - 2 * half} characters] ...{text[-half:]}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def environment_names(changes: Mapping[str, str | None]) -> list[str]:
    """Names only, sorted: what the environment held, never its values."""
    return sorted({*os.environ, *(name for name, value in changes.items() if value is not None)})
