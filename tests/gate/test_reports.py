"""The same findings in every report, and none of them can be attacked by what a server printed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from stdout_guard.testing import artefacts, github, jsonreport, junit, text
from stdout_guard.testing.safe import HIDDEN, Redactor, plain

UGLY = (
    b"::error file=x,line=1::owned\n"
    b"##[add-mask]hello\n"
    b"\x1b]0;title\x07\x1b[31mred\x1b[0m\n"
    b"<![CDATA[ ]]> & <script> \x00\x01\x0b\xff\xfe\n"
    b"caf\xc3\xa9 \xe2\x80\xae \xef\xbf\xbe \xe2\x80\xa8 \xed\xa0\x80\n"
    b"password=hunter2secret token: ghp_abcdefghijklmnopqrstuvwxyz0123\n" + b"x" * 100_000 + b"\n"
)


@pytest.fixture
def ugly(check, servers, tmp_path, monkeypatch):
    """The result for a server that prints the ugliest bytes, with a secret in its environment."""
    monkeypatch.setenv("ACME_API_KEY", "s3cr3t-value-of-the-key")
    script = tmp_path / "ugly.py"
    script.write_text(
        f"import os, sys\nsys.path.insert(1, {str(servers)!r})\nimport mcpbase\n"
        f"os.write(1, {UGLY!r})\nos.write(1, os.environ['ACME_API_KEY'].encode() + b'\\n')\n"
        "print('::warning::from stderr ' + os.environ['ACME_API_KEY'] + chr(0) + chr(27), file=sys.stderr)\n"
        "mcpbase.serve()\n"
    )
    return check([sys.executable, str(script), "--token", "tok-in-argv-12345"], find_culprits=False)


@pytest.fixture
def redactor():
    """Knows the secret of the environment."""
    return Redactor.from_environment({"ACME_API_KEY": "s3cr3t-value-of-the-key"})


def _all(result, redactor, tmp_path):
    """Every report as text."""
    attached = artefacts.write(str(tmp_path / "out"), [result], redactor)
    yield "text", text.render([result], redactor)
    yield "json", json.dumps(jsonreport.render([result], redactor))
    yield "junit", junit.render([result], redactor, attached).decode()
    yield "summary", github.summary([result], redactor)
    yield from (("annotation", line) for line in github.commands([result], redactor))
    for path in (path for paths in attached.values() for path in paths):
        with open(path, encoding="latin-1") as file:
            yield path.rpartition("/")[2], file.read()


def test_no_report_carries_a_secret(ugly, redactor, tmp_path):
    """Values of secret variables, secret arguments and well-known shapes are hidden, in artefacts too."""
    for name, report in _all(ugly, redactor, tmp_path):
        for secret in ("s3cr3t-value-of-the-key", "hunter2secret", "ghp_abcdefghij", "tok-in-argv"):
            assert secret not in report, (name, secret)


def test_no_report_can_command_a_ci_or_a_terminal(ugly, redactor, tmp_path):
    """Raw control characters and live workflow commands are in no report; only our own annotations are commands."""
    for name, report in _all(ugly, redactor, tmp_path):
        if name.endswith(".bin"):
            continue
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", report), name
        lines = report.splitlines()
        if name == "annotation":
            assert len(lines) == 1 and report.count("::") == 2 and report.startswith("::error title=")
        else:
            assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines), name


def test_offsets_stay_true_in_the_redacted_stdout(ugly, redactor, tmp_path):
    """A secret is overwritten in place: stdout.bin is as long as what came."""
    written = artefacts.write(str(tmp_path), [ugly], redactor)
    (paths,) = written.values()
    data = open(next(path for path in paths if path.endswith("stdout.bin")), "rb").read()  # noqa: SIM115
    run = ugly.outcomes[0].run
    assert len(data) == len(run.stdout)
    assert data != run.stdout and data.replace(b"*", b"") != b""


def test_long_lines_and_logs_are_capped(ugly, redactor):
    """A line of 100,000 bytes is cut in the middle, its length said."""
    report = text.render([ugly], redactor)
    assert max(map(len, report.splitlines())) < 2000 and "characters] ..." in report


def test_junit_is_read_by_a_standard_parser(ugly, redactor, tmp_path):
    """A case for each condition and check; the counts are true; attachments and stderr are where Jenkins looks."""
    attached = artefacts.write(str(tmp_path), [ugly], redactor)
    root = ET.fromstring(junit.render([ugly], redactor, attached))
    (suite,) = root
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == ["framing", "shape", "effects", "session", "exit"]
    assert {case.get("classname") for case in cases} == {"server.plain"}
    assert suite.get("failures") == str(len(suite.findall("testcase/failure"))) != "0"
    order = ["skipped", "error", "failure", "system-out", "system-err"]
    for case in cases:
        tags = [child.tag for child in case]
        assert tags == sorted(tags, key=order.index)
        assert "[[ATTACHMENT|" in case.findtext("system-out", "")
    assert "from stderr" in cases[0].findtext("system-err", "")


TALK = """
def test_talk(stdio_server):
    stdio_server.request("tools/list")
    stdio_server.call("get_answer")
"""
KINDS = {
    "print": "not-json",
    "indented": "spread-message",
    "bom": "byte-order-mark",
    "nul-in-tool": "nul-bytes",
    "utf-16": "utf-16",
    "array": "batch",
    "glued": "glued-messages",
    "text-id": "unknown-id",
    "traceback": "not-json",
    "echo-and-serve": "echoes-input",
}


@pytest.mark.parametrize("kind", KINDS)
def test_cli_json_junit_and_pytest_tell_the_same(kind, command_of, command_line, tmp_path):
    """A server's finding is the same check, code, bytes, reason, culprit and cure in the four reports of it."""
    command = command_of("print_in_tool") if kind == "print" else [*command_of("odd"), kind]
    done = command_line("--condition", "plain", "--json", "report.json", "--junit", "report.xml", "--", *command)
    assert done.returncode == 1
    problems = json.loads((tmp_path / "report.json").read_text())["servers"][0]["conditions"][0]["problems"]
    problem = problems[0]
    assert problem["code"] == KINDS[kind]
    (failure,) = ET.parse(tmp_path / "report.xml").getroot().iter("failure")
    assert (failure.get("type"), failure.get("message")) == (problem["code"], problem["message"])
    (tmp_path / "test_talk.py").write_text(TALK)
    plugin = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--stdout-guard-command={shlex.join(command)}"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    print(plugin.stdout, plugin.stderr)
    assert "1 passed, 1 error" in plugin.stdout
    why = problem["why"].partition(" (")[0]  # how often it came differs with what was sent
    for report in (done.stdout, plugin.stdout):
        assert f"{problem['check']}/{problem['code']}: " in report
        assert problem["raw"] in report and why in report
    for report in (done.stdout, failure.text, plugin.stdout):
        assert problem["writtenBy"][0] in report and f"fix: {problem['fix']}" in report
    assert all(one["message"] in failure.text for one in problems)


def test_artefacts_reproduce_the_finding_without_us(command_of, command_line, tmp_path):
    """repro.sh sends the same bytes to the same command, and the same line comes back."""
    command_line("--condition", "empty-cwd", "--no-culprit", "--out", "out", "--", *command_of("print_in_tool"))
    folder = tmp_path / "out" / "print_in_tool.py" / "empty-cwd"
    assert {path.name for path in folder.iterdir()} == {
        "stdin.bin", "stdout.bin", "stderr.txt", "report.json", "repro.sh", "env.txt",
    }  # fmt: skip
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    done = subprocess.run([folder / "repro.sh"], capture_output=True, text=True, timeout=60)
    print(done.stdout, done.stderr)
    again = (folder / "stdout.again").read_bytes()
    assert b"listing tables\n" in again and sorted(again.splitlines()) == sorted(
        (folder / "stdout.bin").read_bytes().splitlines()
    )
    assert "=" not in (folder / "env.txt").read_text()


def test_annotations_and_summary_appear_only_inside_github_actions(command_of, command_line, tmp_path):
    """With GITHUB_ACTIONS=true: one ::error at the culprit's line, and a table on the job's page."""
    arguments = ("--condition", "plain", "--", *command_of("print_in_tool"))
    assert "::error" not in command_line(*arguments).stdout
    done = command_line(*arguments, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert "print_in_tool.py,line=7,title=print_in_tool.py%3A not-json::" in line
    assert "| plain | broken |" in (tmp_path / "summary.md").read_text()


def test_the_headline_keeps_the_wording(check):
    """`non-protocol stdout on line N: b'...'`, then who wrote it, at that line and offset."""
    result = check("banner_at_import")
    report = text.render([result], Redactor())
    assert r"non-protocol stdout on line 1: b'loading optional extension\n'" in report
    assert re.search(
        r"line 1, offset 0: b'loading optional extension\\n' — written by \S*noisydep/__init__.py:3 in <module>", report
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\x00b", "a\\x00b"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("\ufffe", "\\ufffe"),
    ],
)
def test_what_xml_cannot_hold_is_spelled_out(given, shown):
    """Illegal characters are escaped, never dropped; what is legal stays."""
    assert plain(given) == shown


def test_redaction_knows_arguments_and_urls():
    """--token X, --token=X, KEY=X and passwords in URLs."""
    argv = Redactor().argv(
        ["srv", "--token", "abc", "--api-key=def", "DB_PASSWORD=ghi", "postgres://u:pw@h/db", "--name", "x"]
    )
    assert argv == ["srv", "--token", HIDDEN, f"--api-key={HIDDEN}", f"DB_PASSWORD={HIDDEN}", f"postgres://u:{HIDDEN}@h/db",
                    "--name", "x"]  # fmt: skip
