"""What the guard prints is safe to show: escapes, CI commands, invalid text, secrets, and the log file's own safety."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from faults.harness import Child, frames

ATTACKS = {
    "ansi": b"\x1b[31mred\x1b[0m",
    "osc title": b"\x1b]0;owned\x07",
    "osc 52 clipboard": b"\x1b]52;c;ZXZpbA==\x1b\\",
    "c1 csi": "\x9b31mred".encode(),
    "backspace": b"evil\x08\x08\x08\x08good",
    "nul": b"a\x00b",
    "form feed": b"a\x0cb\x0bc",
    "bidi": "a\u202egnp.exe\u2066b".encode(),
    "line separators": "a\u2028b\u2029c\x85d".encode(),
    "zero width": "a\u200bb\ufeffc".encode(),
    "invalid": b"\xff\xfe broken \xc3",
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "github": b"::set-output name=x::evil",
    "github error": b"  ::error file=a.py::evil",
    "azure": b"##vso[task.setvariable variable=x]evil",
    "azure group": b"say ##[command]evil",
    "teamcity": b"##teamcity[message text='evil']",
    "our own prefix": b"\x1estdout-guard\x1fforged",
    "carriage return": b"hidden\rshown",
}
WAYS = {
    "python": "sys.stdout.buffer.write(data)",
    "fd 1": "os.write(1, data)",
    "child": "import subprocess; subprocess.run(['/bin/cat'], input=data)",
    "worker": "import os\nif not os.fork():\n    sys.stdout.buffer.write(data)\n    os._exit(0)\nos.wait()",
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["text", "json", "raw"])
def test_attacks_arrive_escaped(launch: Callable[..., Child], attack: str, way: str, form: str) -> None:
    """Control characters, ANSI and OSC sequences, CI commands and invalid UTF-8 in stray text reach stderr escaped,
    from every source and in every format.

    Seen to fail with escape() returning its argument.
    """
    child = launch(
        f"data = {ATTACKS[attack] + bytes([10])!r}\n{WAYS[way]}\nsend(1)\n", env={"STDOUT_GUARD_FORMAT": form}
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    text = child.text  # strict UTF-8
    bad = [c for c in text if not c.isprintable() and c != "\n"]
    assert not bad, bad
    assert not re.search(r"^\s*::", text, re.M)
    assert "##[" not in text and "##vso[" not in text and "##teamcity[" not in text
    assert "evil" in text if b"evil" in ATTACKS[attack] else text


SECRETS = {
    "bearer": ("Authorization: Bearer abcdefgh12345678ijklmnop", "abcdefgh12345678"),
    "password": ("password=hunter2hunter2", "hunter2hunter2"),
    "json password": ('{"password": "hunter2hunter2"}', "hunter2hunter2"),
    "url": ("fetching https://user:s3cretpass@example.org/x", "s3cretpass"),
    "github": ("token ghp_0123456789abcdefghijABCDEFGHIJ012345", "ghp_0123456789abcdef"),
    "openai": ("key sk-0123456789abcdefghijABCDEFGHIJ0123456789", "0123456789abcdefghijABCD"),
    "aws": ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r", "eyJzdWIiOiIxIn0"),
    "private key": (
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    ),
    "api key": ("api_key: 9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("way", ["python", "fd 1", "child", "worker"])
@pytest.mark.parametrize("log", ["stderr", "log"])
def test_secrets_do_not_leave(launch: Callable[..., Child], secret: str, way: str, log: str) -> None:
    """With redaction on, tokens, passwords, private keys and URL credentials in stray text are on neither stderr nor in
    the log file, whoever wrote them.

    Seen to fail with the redactor not asked for children's lines.
    """
    text, hidden = SECRETS[secret]
    path = "report.log"
    child = launch(
        f"data = {('around ' + text + ' it' + chr(10)).encode()!r}\n{WAYS[way]}\nsend(1)\n",
        env={"STDOUT_GUARD_REDACT": "1"} | ({"STDOUT_GUARD_LOG": path} if log == "log" else {}),
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    told = (child.folder / path).read_text() if log == "log" else child.text
    assert "around" in told
    assert hidden not in told + child.text


def test_the_log_file_is_private(launch: Callable[..., Child]) -> None:
    """The log file is appended to, made with mode 0600, and nothing of the report is on stderr then.

    Seen to fail with the file made with the umask's mode.
    """
    child = launch("os.umask(0)\nprint('logged')\nsend(1)\n", env={"STDOUT_GUARD_LOG": "report.log"})
    assert child.finish() == 0
    path = child.folder / "report.log"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "in <module>: logged" in path.read_text()
    assert child.text == ""


@pytest.mark.parametrize(
    "kind", ["symlink", "dangling symlink", "fifo", "directory", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]
)
def test_log_files_that_are_refused(launch: Callable[..., Child], tmp_path: Path, kind: str, wire: str) -> None:
    """A symlink is not followed, a FIFO nobody reads does not hang, the wire is never the log: install raises by name
    and leaves stdout as it was.

    Seen to fail with O_NOFOLLOW left out, and with the comparison with fd 1 left out.
    """
    path = tmp_path / "log"
    if kind == "symlink":
        (tmp_path / "target").write_text("")
        path.symlink_to(tmp_path / "target")
    elif kind == "dangling symlink":
        path.symlink_to(tmp_path / "target")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path = Path(kind)
    child = launch(
        """
try: stdout_guard.install()
except stdout_guard.GuardStateError as error: os.write(2, b"refused: " + str(error).encode())
os.write(1, b'{"jsonrpc":"2.0","id":1,"result":0}\\n')
""",
        prelude="import os, sys, stdout_guard\n",
        wire=wire,
        env={"STDOUT_GUARD_LOG": str(path)},
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert "refused: log" in child.text and "STDOUT_GUARD_LOG" in child.text
    if "symlink" in kind:
        assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == ""


def test_the_wires_own_file_as_the_log(launch: Callable[..., Child], tmp_path: Path) -> None:
    """A log path that names the file stdout goes to is refused: the report would be in the middle of the frames.

    Seen to fail with the comparison with fd 1 left out.
    """
    path = tmp_path / "out"
    child = launch(
        "try: stdout_guard.install()\n"
        "except stdout_guard.GuardStateError as e: os.write(2, b'refused: ' + str(e).encode())\n",
        prelude="import os, sys, stdout_guard\n",
        shell=f'exec "$@" >>{path}',
        env={"STDOUT_GUARD_LOG": str(path)},
    )
    assert child.finish() == 0
    assert "refused: log" in child.text and path.read_bytes() == b""


@pytest.mark.parametrize("rotation", ["rename", "delete", "replace by symlink"])
def test_rotation(launch: Callable[..., Child], tmp_path: Path, rotation: str) -> None:
    """Rotation is noticed by inode: after a rename or a deletion a new file is begun (0600), nothing is lost; a
    symlink put in its place is not followed.

    Seen to fail with the descriptor kept for good.
    """
    path, target = tmp_path / "log", tmp_path / "target"
    child = launch(
        "for line in sys.stdin:\n    print('line', line.strip())\n    os.write(1, b'below ' + line.encode())\n"
        "    send(int(line))\n",
        env={"STDOUT_GUARD_LOG": str(path)},
    )
    child.order("1")
    child.wait_frame(1)
    if rotation == "rename":
        path.rename(tmp_path / "log.1")
    else:
        path.unlink()
    if rotation == "replace by symlink":
        path.symlink_to(target)
    child.order("2")
    child.wait_frame(2)
    assert child.finish() == 0
    assert child.ids() == [1, 2]
    if rotation == "replace by symlink":
        assert not target.exists()
    else:
        assert "in <module>: line 2" in path.read_text() and "below 2" in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if rotation == "rename":
        assert "in <module>: line 1" in (tmp_path / "log.1").read_text()


@pytest.mark.parametrize("form", ["text", "json", "raw"])
def test_long_lines(launch: Callable[..., Child], form: str) -> None:
    """A line of 1 MiB is cut in the middle with its length said; JSON log lines stay whole JSON up to 64 KiB in raw.

    Seen to fail with the line cut without a word.
    """
    child = launch(
        'print("begin" + "x" * (1 << 20) + "end")\n'
        'print(\'{"level":"info","text":"\' + "y" * 20_000 + \'"}\')\nsend(1)\n',
        env={"STDOUT_GUARD_FORMAT": form},
    )
    assert child.finish() == 0
    assert child.ids() == [1]
    assert max(map(len, child.text.splitlines())) < (70_000 if form == "raw" else 4096)
    assert "begin" in child.text and "end" in child.text
    if form == "text":
        assert re.search(r"\[\d+ of 10485\d\d characters cut\]", child.text)
    if form == "raw":
        assert '{"level":"info","text":"' + "y" * 20_000 + '"}\n' in child.text


INNER = """
import os, sys, stdout_guard
guard = stdout_guard.install()
assert guard.role == "owner", guard.role
print("inner noise")
os.write(1, b"inner below\\n")
for line in guard.take_stdin():
    os.system("echo inner shell")
    guard.wire.write(line)
"""


@pytest.mark.parametrize("channel", ["thread", "dup"])
def test_a_proxy_before_a_server(launch: Callable[..., Child], wire: str, channel: str) -> None:
    """A guarded proxy that starts a guarded server over pipes: both wires are clean, both name their own lines.

    Seen to fail with a child that finds the marker taken for a worker without looking at its fd 1.
    """
    child = launch(
        f"""
import subprocess
open("inner.py", "w").write({INNER!r})
inner = subprocess.Popen([sys.executable, "inner.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print("outer noise")
for number in range(3):
    print("outer again")
    inner.stdin.write(frame(number))
    inner.stdin.flush()
    answer = inner.stdout.readline()
    assert answer == frame(number), answer
    guard.wire.write(answer)
inner.stdin.close()
assert inner.stdout.read() == b""
assert inner.wait() == 0
""",
        wire=wire,
        channel=channel,
    )
    assert child.finish() == 0
    assert child.ids() == [0, 1, 2]
    assert "stdout-guard: inner.py:5 in <module>: inner noise" in child.text
    assert f"server.py:{child.line('outer noise')} in <module>: outer noise" in child.text
    assert child.text.count("inner shell") == 3 and "inner below" in child.text


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("reader", ["null", "dead"])
@pytest.mark.parametrize("way", ["native", "python"])
def test_a_flood_of_one_gibibyte(launch: Callable[..., Child], reader: str, way: str) -> None:
    """1 GiB of stray output, with stderr in the null device or never read: memory grows by at most 8 MiB.

    Seen to fail with the sink buffering what it cannot write.
    """
    write = "libc.write(1, data, len(data))" if way == "native" else "sys.stdout.buffer.write(data)"
    child = launch(
        f"""
import ctypes, resource
libc = ctypes.CDLL(None)
data = (b"x" * 1023 + b"\\n") * 64
def flood(size):
    for _ in range(size // len(data)):
        {write}
flood(16 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
flood(1 << 30)
send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""",
        shell='exec "$@" 2>/dev/null' if reader == "null" else "",
        read_stderr=reader != "dead",
    )
    assert child.wire.wait_for(lambda data: b"\n" in data, 800)
    assert frames(bytes(child.wire.data))[0]["id"] <= 8 << 10  # KiB
    child.close_stdin()
    assert child.wait_exit() == 0
