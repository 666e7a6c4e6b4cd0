"""Who wrote it: named to the line where that can be known, and said why where it cannot."""

from __future__ import annotations

import sys

import pytest

from stdout_guard.testing.strays import matching


@pytest.fixture
def dependency(tmp_path, monkeypatch):
    """A dependency in a site-packages folder that greets at import."""
    package = tmp_path / "site-packages" / "dep"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("\n" * 11 + "print('loading optional extension')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site-packages"))
    return tmp_path


def test_a_dependency_is_named_with_the_line_that_loaded_it(check, servers, dependency):
    """`line 1, offset 0: b'loading...' — written by dep/__init__.py:12 in <module>, from server.py:3`."""
    script = dependency / "server.py"
    script.write_text(
        f"import sys\nsys.path.insert(1, {str(servers)!r})\nimport dep\nimport mcpbase\n\nmcpbase.serve()\n"
    )
    result = check([sys.executable, "server.py"], cwd=str(dependency))
    (problem,) = result.outcomes[0].problems
    assert (problem.line, problem.offset, problem.raw) == (1, 0, b"loading optional extension\n")
    assert problem.culprits == ["written by site-packages/dep/__init__.py:12 in <module>, from server.py:3"]
    assert problem.blame == [("site-packages/dep/__init__.py", 12)]


def test_the_same_text_from_two_places_names_both(check, servers, tmp_path):
    """No choice is made between two writers of the same text."""
    script = tmp_path / "server.py"
    script.write_text(
        f"import sys\nsys.path.insert(1, {str(servers)!r})\nprint('hi')\nprint('hi')\nimport mcpbase\nmcpbase.serve()\n"
    )
    (outcome,) = check([sys.executable, str(script)]).outcomes
    assert [p.raw for p in outcome.problems] == [b"hi\n", b"hi\n"]
    told = " ".join(outcome.problems[0].culprits)
    assert "server.py:3" in told and "server.py:4" in told


def test_an_interpreter_that_ignores_the_environment_is_said_to(check, command_of):
    """With -I no sitecustomize of ours is loaded: nobody is named, and the report says why."""
    python, script = command_of("print_in_tool")
    code = (
        f"import sys, runpy; sys.path.insert(0, {script.rpartition('/')[0]!r})\n"
        f"runpy.run_path({script!r}, run_name='__main__')"
    )
    (outcome,) = check([python, "-I", "-c", code]).outcomes
    assert "could not be guarded" in outcome.problems[0].culprits[0] and "-I" in outcome.problems[0].culprits[0]


def test_a_program_that_is_no_python_is_said_to_be_none(check, tmp_path):
    """A shell script that prints instead of serving: dirty all the same, and nobody is named."""
    script = tmp_path / "server.sh"
    script.write_text("#!/bin/sh\necho hello from sh\ncat > /dev/null\n")
    script.chmod(0o755)
    result = check([str(script)], limits={"start": 2.0, "quiet": 0.5})
    (problem,) = result.outcomes[0].problems
    assert problem.raw == b"hello from sh\n" and "no Python process" in problem.culprits[0]
    assert result.status == "broken"


def test_text_that_depends_on_the_first_run_is_said_to(check, servers, tmp_path):
    """Where the second run does not write it again, that is what the report says."""
    (outcome,) = check("first_start", env={"HOME": str(tmp_path)}).outcomes
    assert "did not write this" in outcome.problems[0].culprits[0]


@pytest.mark.parametrize(
    ("raw", "texts", "expected"),
    [
        (b"hello\n", ["hello", "hello world"], ["hello"]),
        (b"working...{\"id\":1}\n", ["working...", "ing"], ["working..."]),
        (b"10%\r50%\r100%\n", ["100%"], ["100%"]),
        (b"\x1b[1mbold\x1b[0m\n", ["\\x1b[1mbold\\x1b[0m"], ["\\x1b[1mbold\\x1b[0m"]),
        (b"caf\xe9\n", ["caf\\xe9"], ["caf\\xe9"]),
        (b"\n", ["", "x"], [""]),
        (b"nothing\n", ["no", "other"], []),
    ],
)  # fmt: skip
def test_matching_is_by_text(raw, texts, expected):
    """Whole lines first, else the longest part; two letters in a line prove nothing."""
    assert [stray["text"] for stray in matching(raw, [{"text": text} for text in texts])] == expected
