"""What a line that is no frame probably is, and which rule each finding rests on: two tables.

A guess helps whoever looks for the culprit; it never changes a verdict.
"""

from __future__ import annotations

import re
from typing import Final

_LOOK = 512  # bytes of a line that are looked at

_PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    (r"\s*content-(length|type)[ \t]*:", "Content-Length framing on a newline-delimited channel"),
    (r"(data|event|id|retry): ?.*", "server-sent events framing: this is the HTTP transport's"),
    (r"\x1e", "RFC 7464 json-seq framing"),
    (r"\xef\xbb\xbf", "a byte order mark (utf-8-sig, or a Windows tool)"),
    (
        r"\xff\xfe|\xfe\xff|[^\x00]\x00[^\x00]\x00|\x00[^\x00]\x00[^\x00]",
        "UTF-16 text (PowerShell redirection, wide output)",
    ),
    (r"(?s).*\(most recent call (last|first)\)", "a Python traceback: merged stderr, or print_exc(file=sys.stdout)"),
    (r'\s+File "[^"]+", line \d+', "part of a Python traceback: merged stderr, or print_exc(file=sys.stdout)"),
    (r"(\w+\.)*\w*(Error|Exception|Interrupt)(:|$)", "the last line of a Python traceback"),
    (r"\s+at .+[:(]\d+", "a stack trace"),
    (r"(?s).*\b(listening|running|serving|started|available|uvicorn)\b.*https?://", "the banner of an HTTP server"),
    (r"\(node:\d+\) ", "a warning of Node.js"),
    (r"(?s).*Warning: ", "a warning of the warnings module, sent to stdout"),
    (r"(?s).*(\d%|it/s|\[[#=>. -]{5,}\]|\r(?!\n))", "a progress bar"),
    (r"(?s)\s*\x1b", "terminal control sequences (colour, title, cursor)"),
    (r"(?is)\s*<(!doctype|html|head|body|h\d|\?xml)", "HTML or XML: an error page"),
    (r"(?i)\s*(usage:|available transports|options:)", "usage text of a command line parser"),
    (r"\s*\[?(notice|warning)\] ", "a pip notice"),
    (r"npm (warn|err!?|notice)|> \S+@\S+ ", "output of npm"),
    (r"(/\S*/)?(ba|da|z|k)?sh: |.*: command not found", "a message of the shell in a wrapper script"),
    (r"\s*\[?(\d{4}[-/.]\d\d[-/.]\d\d[T ,])?\d\d:\d\d:\d\d\b", "a log record: a handler writes to stdout"),
    (r"\s*\[?\d{4}[-/.]\d\d[-/.]\d\d[T ,]\d\d:\d\d", "a log record: a handler writes to stdout"),
    (r"SLF4J[(:]", "a log record: a handler writes to stdout"),
    (
        r"\s*\[?(trace|debug|info|warn(ing)?|error|critical|fatal|notice)\b[]:\s|-]",
        "a log record: a handler writes to stdout",
    ),
    (r'\s*\{.*"(level|levelname|severity)"\s*:', "a JSON log record: a handler writes to stdout"),
    (r"\s*(\{|\[|\()'|\s*(None|True|False)\b|\s*<\w[\w.]* (object )?at 0x", "a Python repr: print() of an object"),
    (r"(?s)\s*\{.*\b(NaN|-?Infinity)\b", "NaN or Infinity: json.dumps without allow_nan=False"),
    (r'(?s).+\{"jsonrpc"', "other text glued to a frame: print(end=''), a prompt, or two writers at once"),
    (r'\s*[\[{]?\s*"[^"]+"\s*:?.*,?\s*$|\s*[{}\[\],]+\s*$', "pretty-printed JSON, or one frame torn by another"),
    (r"(?s).*([?:>]|[\[(]y(es)?/no?[\])]) ?$", "a prompt (input(), a password question)"),
    (r"\s+$", "blank output: print() without arguments"),
    (r"-?\d+(\.\d+)?\s*$", "a number: print() of a value"),
)
_TABLE: Final = tuple((re.compile(pattern.encode("latin-1"), re.IGNORECASE), cause) for pattern, cause in _PATTERNS)

_BY_CODE: Final = {
    "wrong-direction": "an echo of the input (a pty, cat, or a proxy that sends a line back)",
    "frame-too-long": "binary output, or a result that should be split",
    "no-final-newline": "the process ended while writing, or a frame was written without its newline",
    "blank-line": "print() without arguments, or a frame that brings a newline of its own",
    "answered-twice": "a wrapper that repeats lines, or two writers for one request",
    "duplicate-key": "JSON put together by hand",
}

_RULES: Final = {
    "framing": "MCP basic/transports: messages are delimited by newlines and must not contain them",
    "encoding": "RFC 8259 8.1: JSON text is UTF-8, without a byte order mark",
    "json": "MCP basic/transports: nothing that is not a valid message may be written to stdout; RFC 8259",
    "limits": "RFC 8259 9: an implementation may set limits",
    "jsonrpc": "JSON-RPC 2.0 4 and 5",
    "method": "MCP schema",
    "session": "MCP basic/lifecycle and JSON-RPC 2.0 4.1",
}
_LENGTH_FRAMING: Final = "LSP 3.17 base protocol: header part"
_RULE_BY_CODE: Final = {
    "duplicate-key": "RFC 8259 4, RFC 7493 2.3: member names are unique",
    "lone-surrogate": "RFC 7493 2.1: no surrogates that are not a pair",
    "number-overflow": "RFC 8259 6, RFC 7493 2.2: numbers of a double",
    "not-a-number": "RFC 8259 6: NaN and Infinity are not permitted",
    "bare-cr": "MCP basic/transports: only a newline delimits; universal-newline readers split here",
    "charset": "LSP 3.17 base protocol: only utf-8",
    "error-code-retired": "MCP 2026-07-28 basic: error codes",
    "error-code-reserved": "MCP 2026-07-28 basic: error codes",
    "result-type": "MCP 2026-07-28 schema: Result",
    "no-answer": "JSON-RPC 2.0 5: a request is answered",
    "unknown-id": "JSON-RPC 2.0 5: the id is that of the request",
    "unowed-answer": "JSON-RPC 2.0 4.1: notifications are not answered",
    "answered-twice": "JSON-RPC 2.0 5: one response",
    "progress-not-increasing": "MCP basic/utilities/progress: the value must increase",
    "progress-after-end": "MCP basic/utilities/progress: must stop after completion",
    "progress-unknown-token": "MCP basic/utilities/progress: only tokens of active requests",
    "undeclared-logging": "MCP server/utilities/logging: capabilities",
    "reused-id": "MCP basic: an id is not used twice by the same requestor",
    "cancelled-not-own": "MCP basic/utilities/cancellation: a request of the same direction",
    "cancelled-initialize": "MCP basic/utilities/cancellation: initialize must not be cancelled",
    "before-initialize": "MCP basic/lifecycle: initialize is the first interaction",
    "meta": "MCP basic: _meta",
    "meta-key": "MCP basic: format of the keys of _meta",
    "batch": "MCP 2025-03-26 alone has batches",
}


def likely_cause(code: str, stage: str, raw: bytes) -> str:
    """The most probable origin of these bytes, or an empty string."""
    unfinished_text = code == "no-final-newline" and not raw.lstrip().startswith((b"{", b"["))
    if code in _BY_CODE and not unfinished_text:
        return _BY_CODE[code]
    if stage not in ("framing", "encoding", "json", "jsonrpc") or code in ("truncated-body", "duplicate-key"):
        return ""
    head = raw[:_LOOK]
    if code in ("not-a-header", "header-line-end") and head[:1] in (b"{", b"["):
        return "a message without its header: a print of one, or newline-delimited output"
    for pattern, cause in _TABLE:
        if pattern.match(head):
            return cause
    if stage == "encoding":
        return "text in another encoding (PYTHONIOENCODING, a locale other than UTF-8)"
    if stage == "jsonrpc":
        return "a JSON value that some print() or logger wrote"
    return "a banner or another line of text from print()"


def rule_of(code: str, stage: str, framing: str) -> str:
    """The source of the rule behind a finding."""
    if code in _RULE_BY_CODE:
        return _RULE_BY_CODE[code]
    if stage == "framing" and framing == "content-length":
        return _LENGTH_FRAMING
    return _RULES.get(stage, "")
