"""The packaged form: installed into a fresh environment, run from there, the checkout out of reach."""

from __future__ import annotations

import base64
import hashlib
import zipfile

import pytest

from stdout_guard.testing import gate
from stdout_guard.testing.conditions import CONDITIONS
from stdout_guard.testing.config import Plan
from stdout_guard.testing.packaged import PackagingError, installed
from stdout_guard.testing.run import Server


@pytest.fixture
def wheel(servers, tmp_path):
    """Build a wheel of the clean server, with what ``extra`` adds to it, by hand: no build tool, no network."""

    def build(extra: str = "", scripts: str = "acme-server = acme_server:main") -> str:
        base = (servers / "mcpbase.py").read_text()
        files = {
            "acme_server/__init__.py": f"{extra}\nfrom acme_server.base import serve\n\ndef main():\n    serve()\n",
            "acme_server/base.py": base,
            "acme_server-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme-server\nVersion: 1.0\n",
            "acme_server-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "acme_server-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{scripts}\n",
        }
        record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in files.items())
        path = tmp_path / "acme_server-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in {**files, "acme_server-1.0.dist-info/RECORD": record}.items():
                archive.writestr(name, text)
        return str(path)

    return build


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def _check(wheel: str, command: tuple[str, ...] = ()) -> gate.ServerResult:
    return gate.check(Plan(Server("acme", command), (CONDITIONS["plain"],), wheel=wheel))


def test_a_wheel_is_run_by_its_console_script_out_of_reach_of_the_checkout(wheel, tmp_path, monkeypatch):
    """The same import name in the checkout, on PYTHONPATH even, is not what runs."""
    checkout = tmp_path / "checkout"
    (checkout / "acme_server").mkdir(parents=True)
    (checkout / "acme_server" / "__init__.py").write_text("print('from the checkout')\nraise SystemExit(5)\n")
    monkeypatch.setenv("PYTHONPATH", str(checkout))
    monkeypatch.chdir(checkout)
    result = _check(wheel())
    assert result.status == "clean", result.outcomes[0].problems
    assert result.plan.server.command[0].endswith("/bin/acme-server")
    assert b"from the checkout" not in result.outcomes[0].run.stdout


def test_noise_of_the_packaged_form_is_named_inside_the_package(wheel):
    """The culprit run works in an environment that holds neither this package nor what it needs."""
    result = _check(wheel("print('acme 1.0 ready')"))
    (problem,) = result.outcomes[0].problems
    assert problem.raw == b"acme 1.0 ready\n"
    assert "acme_server/__init__.py:1 in <module>" in problem.culprits[0]


def test_a_wheel_with_several_scripts_asks_which(wheel):
    """No guess among console scripts: the error names them, and nothing is called clean."""
    result = _check(wheel(scripts="acme-a = acme_server:main\nacme-b = acme_server:main"))
    assert result.status == "untested" and "acme-a, acme-b" in result.packaging
    assert gate.status([result]) == 3
    assert _check(wheel(scripts="acme-a = acme_server:main\nacme-b = acme_server:main"), ("acme-b",)).status == "clean"


def test_a_file_that_is_no_wheel_is_said_to_be_none(tmp_path):
    """The error names the file."""
    path = tmp_path / "x.whl"
    path.write_text("not a zip")
    with pytest.raises(PackagingError, match=r"x\.whl"), installed(Server("x", ()), wheel=str(path)):
        pass
