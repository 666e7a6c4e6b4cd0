"""What must not leave the process in a report: tokens, passwords, private keys, credentials in URLs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import cast

HIDDEN = "[redacted]"
_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|secret|client[_-]?secret|token|access[_-]?token|refresh[_-]?token|id[_-]?token"
    r"|api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?key|private[_-]?key|auth|authorization"
    r"|credentials?|session[_-]?(?:id|key)?|cookie|set-cookie|x-api-key|signature|sig"
)
_KEY = "[A-Z ]*PRIVATE KEY(?: BLOCK)?-----"
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?"
# Each pattern keeps group "keep" and hides the rest of the match. Sources: the token formats their issuers publish.
PATTERNS = [
    re.compile(r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s/?#]+@", re.I),  # everything up to the authority's last @
    re.compile(r"(?P<keep>\b(?:set-)?cookie[\"']?\s*[:=]\s*).+", re.I),  # all of its values
    re.compile(r"(?P<keep>\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?)(?:[a-z]+\s+)?[^\s\"',;]+", re.I),
    re.compile(r"(?P<keep>\b(?:bearer|basic|digest|negotiate)\s+)[A-Za-z0-9._~+/=-]{6,}", re.I),
    re.compile(rf"(?P<keep>[\"']?\b[\w-]*(?:{_NAMES})[\"']?\s*(?:=>|[:=])\s*)(?:{_QUOTED}|[^\s,;&\"')}}\]]+)", re.I),
    re.compile(rf"(?P<keep>--?[\w-]*(?:{_NAMES})\s+)(?:{_QUOTED}|(?!-)\S+)", re.I),  # a command line
    re.compile(r"(?P<keep>)\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),  # JSON web token
    re.compile(r"(?P<keep>)\b(?:gh[pousr]_\w{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,})"),
    re.compile(r"(?P<keep>)\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}"),
    re.compile(r"(?P<keep>)\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}"),
    re.compile(
        r"(?P<keep>)\b(?:AIza[\w-]{30,}|ya29\.[\w-]{20,}|npm_\w{30,}|pypi-[\w-]{40,}|hf_\w{30,}|dop_v1_\w{40,})"
    ),
    re.compile(
        r"(?P<keep>)-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)",
        re.S,
    ),
]
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"\s*(?:[A-Za-z0-9+/=]*|[A-Za-z0-9-]+: .*)\s*")  # base64, its checksum, or a header of the key
_KEY_LINES = 200  # the longest key, with lines of others in between


def withholding(redact: bool | Callable[[str], str]) -> Callable[[str], str]:
    """``redact`` (True: ours), made safe: one that fails, or prints, withholds the text, lets nothing out and breaks
    nothing."""
    redactor = cast("Callable[[str], object]", redact if callable(redact) else Redactor())  # whatever the user's gives
    local = threading.local()

    def redacted(text: str) -> str:
        if getattr(local, "inside", False):
            return "[not shown: printed by the redact callable itself]"
        local.inside = True
        try:
            hidden = redactor(text)
            return hidden if isinstance(hidden, str) else f"[not shown: redact returned a {type(hidden).__name__}]"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return f"[not shown: redact failed: {type(error).__name__}]"
        finally:
            local.inside = False

    return redacted


class Redactor:
    """Callable from text to text. It remembers that a private key began, and hides its lines until it ends; what other
    threads and children say meanwhile is shown."""

    def __init__(self) -> None:
        self._left = 0

    def __call__(self, text: str) -> str:
        """``text`` with its secrets replaced by ``[redacted]``."""
        if self._left:
            self._left -= 1
            if end := _KEY_END.search(text):
                self._left = 0
                return HIDDEN + self._hide(text[end.end() :])
            if _KEY_LINE.fullmatch(text):
                return HIDDEN
        begun = _KEY_BEGIN.search(text)
        if begun and not _KEY_END.search(text, begun.end()):
            self._left = _KEY_LINES
        return self._hide(text)

    def _hide(self, text: str) -> str:
        for pattern in PATTERNS:
            text = pattern.sub(lambda match: match["keep"] + HIDDEN, text)
        return text
