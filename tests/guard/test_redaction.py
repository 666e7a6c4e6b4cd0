"""STDOUT_GUARD_REDACT: secrets do not leave the process in a report, whoever printed them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from guard.harness import FRAME, Result

REDACT = {"STDOUT_GUARD_REDACT": "1"}
KEY_BODY = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4", "cXV4cXV4cQ=="]

# what is printed, what must be nowhere in the report, what must still be readable
SECRETS = [
    ("password=hunter2secret", "hunter2secret", "password="),
    ("PASSWORD: hunter2secret", "hunter2secret", "PASSWORD"),
    ("db_password = 'hunter2 with spaces'", "with spaces", "db_password"),
    ('{"password": "hunter2secret", "user": "joe"}', "hunter2secret", '"user": "joe"'),
    (r'{"password": "hunter2\"secret", "user": "joe"}', "secret", '"user": "joe"'),
    ("{'api_key': 'hunter2secret', 'user': 'joe'}", "hunter2secret", "'user': 'joe'"),
    ("connecting to https://joe:hunter2secret@example.org/x", "hunter2secret", "example.org/x"),
    ("postgres://joe:hunter2@secret@db.example.org/x", "secret", "db.example.org/x"),
    ("git clone https://hunter2secrettoken@example.org/x.git", "hunter2secrettoken", "example.org/x.git"),
    ("redis://:hunter2secret@localhost:6379", "hunter2secret", "localhost:6379"),
    ("Authorization: Bearer hunter2secret.token-x", "hunter2secret", "Authorization"),
    ("authorization: Basic aHVudGVyMjpzZWNyZXQ=", "aHVudGVyMjpzZWNyZXQ", "authorization"),
    ("curl -H 'Authorization: Bearer hunter2secret' x", "hunter2secret", "curl"),
    ("Cookie: session=hunter2secret; other=second2secret", "2secret", "Cookie"),
    ("tool --token hunter2secret --verbose", "hunter2secret", "--verbose"),
    ("tool --api-key=hunter2secret --verbose", "hunter2secret", "--verbose"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlc2lnbmF0dXJl", "c2lnbmF0dXJl", ""),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnop", ""),
    ("github_pat_11ABCDEFG0abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnop", ""),
    ("glpat-abcdefghijklmnopqrst", "abcdefghijklmnop", ""),
    ("xoxb-123456789012-abcdefghijklmnop", "abcdefghijklmnop", ""),
    ("sk-proj-abcdefghijklmnopqrstuvwx", "abcdefghijklmnop", ""),
    ("sk_live_abcdefghijklmnopqrstuvwx", "abcdefghijklmnop", ""),
    ("AKIAIOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE", ""),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtnFEMI", "aws_secret_access_key"),
    ("AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "abcdefghijklmnop", ""),
    ("hf_abcdefghijklmnopqrstuvwxyz01234567", "abcdefghijklmnop", ""),
    ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnop", ""),
    (
        "-----BEGIN PRIVATE KEY-----\\n" + "\\n".join(KEY_BODY) + "\\n-----END PRIVATE KEY----- after",
        KEY_BODY[0],
        "after",
    ),
    ('"private_key": "-----BEGIN RSA PRIVATE KEY-----\\n' + KEY_BODY[0] + '", "x": 1', KEY_BODY[0], ""),
]


def test_each_kind_of_secret_is_replaced(run: Callable[..., Result]) -> None:
    """Passwords, tokens, cookies, credentials in URLs, the issuers' token formats and keys are replaced; what stands
    beside them stays."""
    calls = "".join(f"print({text!r})\n" for text, _, _ in SECRETS)
    done = run(f"{calls}answer()\n", env=REDACT)
    assert done.wire == FRAME
    assert len(done.report) == len(SECRETS)
    wrong = [
        (line, secret if secret in line else kept)
        for line, (_, secret, kept) in zip(done.report, SECRETS, strict=True)
        if secret in line or kept not in line or "[redacted]" not in line
    ]
    assert not wrong, "\n".join(map(str, wrong))


HARMLESS = [
    "listing 3 tables", "http://example.org/path?x=1", "mail joe@example.org", "12:30:45 started", "tokens used: 5",
    "the author: joe", "12 passes, 3 failures", "a/b/c:12: warning", "sha256:0123456789abcdef", "user@host:22 ready",
]  # fmt: skip


def test_harmless_text_stays_as_it_is(run: Callable[..., Result]) -> None:
    """Text without a secret is not changed."""
    done = run("".join(f"print({text!r})\n" for text in HARMLESS) + "answer()\n", env=REDACT)
    assert [line.partition("<module>: ")[2] for line in done.report] == HARMLESS


KEYS = [
    ("rsa", "RSA PRIVATE KEY"),
    ("openssh", "OPENSSH PRIVATE KEY"),
    ("encrypted", "ENCRYPTED PRIVATE KEY"),
    ("plain", "PRIVATE KEY"),
    ("pgp", "PGP PRIVATE KEY BLOCK"),
]


@pytest.mark.parametrize("way", ["print", "lines", "child", "fd1"])
@pytest.mark.parametrize("label", [row[1] for row in KEYS], ids=[row[0] for row in KEYS])
def test_a_private_key_over_several_lines(run: Callable[..., Result], label: str, way: str) -> None:
    """A private key printed over several lines is hidden from its first line to its last, short one included; the line
    after it is shown."""
    lines = ["before", f"-----BEGIN {label}-----", *KEY_BODY, f"-----END {label}-----", "after"]
    if label == "ENCRYPTED PRIVATE KEY":
        lines[2:2] = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,0123456789ABCDEF", ""]
    text = "\n".join(lines)
    write = {
        "print": "print(text)",
        "lines": "for line in text.split(chr(10)): print(line)",
        "child": "import subprocess; subprocess.run(['echo', text])",
        "fd1": "import os; os.write(1, text.encode() + b'\\n')",
    }[way]
    done = run(f"text = {text!r}\n{write}\nanswer()\n", env=REDACT)
    assert done.wire == FRAME
    assert not [part for part in KEY_BODY if part in done.text], done.text
    assert done.report[0].endswith(": before") and done.report[-1].endswith(": after")


def test_a_line_of_another_thread_does_not_end_a_key(run: Callable[..., Result]) -> None:
    """While one thread prints a key line by line, another thread's line in between is shown and the rest of the key is
    still hidden."""
    done = run(f"""
import threading
def other():
    t = threading.Thread(target=print, args=("a line of another thread",)); t.start(); t.join()
print("-----BEGIN PRIVATE KEY-----")
print({KEY_BODY[0]!r})
other()
for line in {KEY_BODY[1:]!r}: print(line)
print("-----END PRIVATE KEY-----")
print("after")
answer()
""", env=REDACT)  # fmt: skip
    assert done.wire == FRAME
    assert not [part for part in KEY_BODY if part in done.text], done.text
    assert any(line.endswith("a line of another thread") for line in done.report)
    assert done.report[-1].endswith(": after")


@pytest.mark.parametrize("way", ["print", "child", "fd1", "fork", "strict", "json", "raw"])
def test_secrets_are_hidden_on_every_way_out(run: Callable[..., Result], way: str) -> None:
    """Children, C code, forked workers, the strict error's text and every format are redacted alike."""
    write = {
        "child": "import subprocess; subprocess.run(['echo', 'password=hunter' + '2secret'])",
        "fd1": "import os; os.write(1, b'password=hunter' + b'2secret' + bytes([10]))",
        "fork": "import os\nif os.fork() == 0: print('password=hunter' + '2secret'); os._exit(0)\nos.wait()",
    }.get(way, "print('password=hunter' + '2secret')")
    env = {**REDACT, **({"STDOUT_GUARD": "strict"} if way == "strict" else {})}
    if way in ("json", "raw"):
        env["STDOUT_GUARD_FORMAT"] = way
    done = run(f"{write}\nassert 'hunter2secret' not in str(guard.strays)\nanswer()\n", env=env)
    assert "hunter2secret" not in done.text
    assert "password=[redacted]" in done.text


def test_a_callable_of_ones_own(run: Callable[..., Result]) -> None:
    """redact= takes a callable from text to text, which then is all that is done."""
    done = run(f"""
import stdout_guard
guard = stdout_guard.install(redact=lambda text: text.replace("joe", "***"))
print("joe password=x")  #@a
guard.wire.write({FRAME!r})
""", prelude="")  # fmt: skip
    assert done.wire == FRAME
    assert done.report == done.at("server.py:{a} in <module>: *** password=x")


BROKEN = [
    ("raises", "def redact(text): raise ValueError('broken')"),
    ("returns-none", "def redact(text): return None"),
    ("returns-bytes", "def redact(text): return b'x'"),
    ("prints", "def redact(text): print('in redact'); return text.replace('hunter2secret', '***')"),
]


@pytest.mark.parametrize("way", ["print", "write", "os.write", "child"])
@pytest.mark.parametrize("redact", [row[1] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_callable_leaks_nothing_and_breaks_nothing(run: Callable[..., Result], redact: str, way: str) -> None:
    """When the callable fails, the text is withheld rather than shown as it was, the server's print succeeds, the
    channel lives on and the write is counted."""
    write = {
        "print": "print('password=hunter2secret')",
        "write": "sys.stdout.write('password=hunter2secret\\n')",
        "os.write": "os.write(1, b'password=hunter2secret\\n')",
        "child": "subprocess.run(['echo', 'password=hunter2secret'])",
    }[way]
    done = run(f"""
import os, subprocess, sys, stdout_guard
{redact}
guard = stdout_guard.install(redact=redact)
{write}
{write}
guard.wire.write({FRAME!r})
""", prelude="")  # fmt: skip
    assert (done.wire, done.status) == (FRAME, 0), done.text
    shown = "\n".join(line for line in done.lines if "echo" not in line or "[child" in line)
    assert "hunter2secret" not in shown
    assert "channel broke" not in done.text
    assert done.summary.startswith(("2 stray", "4 stray")), done.text


@pytest.mark.parametrize("ending", ["", "guard.uninstall()", "guard.wire.write(FRAME); os.execv('/bin/true', ['x'])"])
def test_a_callable_that_prints_while_the_process_ends(run: Callable[..., Result], ending: str) -> None:
    """What the callable prints in the pump is one line, also when the main thread shows unfinished lines meanwhile."""
    done = run(f"""
import os, sys, time, stdout_guard
def redact(text):
    sys.stdout.write('in ')  #@a
    begun.append(1)
    time.sleep(0.1)
    sys.stdout.write('redact\\n')
    return text.replace('hunter2secret', '***')
begun, FRAME = [], {FRAME!r}
guard = stdout_guard.install(redact=redact)
os.write(1, b'password=hunter2secret\\n')
while not begun:
    time.sleep(0.01)
{ending}
""", prelude="")  # fmt: skip
    assert done.wire == (FRAME if "exec" in ending else b"")
    withheld = "server.py:{a} in redact: [not shown: printed by the redact callable itself]"
    assert done.report == done.at(withheld, "[fd 1]: password=***")
