"""Files around the package: workflows, templates, versions."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from tests.package import wheels
from tests.package.check_release import find_problems

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
VERSIONED = ["pyproject.toml", "CITATION.cff", "CHANGELOG.md"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def commands_of(workflow: Path) -> list[str]:
    """Return the shell commands of all steps."""
    jobs = load(workflow)["jobs"].values()
    return [step["run"] for job in jobs for step in job.get("steps", []) if "run" in step]


def makefile_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([a-z][a-z-]*)(?: [a-z-]+)*:(?!=)", text, re.MULTILINE))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows(workflow: Path) -> None:
    """They run what exists, and their jobs have least permissions and a time limit."""
    for run in commands_of(workflow):
        assert {*re.findall(r"^make ([a-z-]+)", run, re.MULTILINE)} <= makefile_targets()
        assert all((ROOT / program).exists() for program in re.findall(r"python (\S+\.py)", run))
    loaded = load(workflow)
    assert loaded["permissions"] == {}
    for job in loaded["jobs"].values():
        assert job["permissions"]
        assert "uses" in job or job["timeout-minutes"] <= 350


def test_ci_runs_the_same_commands_everywhere() -> None:
    commands = [run for run in commands_of(ROOT / ".github/workflows/test.yml") if "make" in run]
    assert commands == ["make test", "make slow", "make demo"]
    assert commands == re.findall(r"^make .*$", read(".ci/run"), re.MULTILINE)


@pytest.mark.parametrize("target", ["test", "slow"])
def test_commands_call_targets_that_exist(target: str) -> None:
    [recipe] = re.findall(rf"^{target}:\n((?:\t.*\n)+)", read("Makefile"), re.MULTILINE)
    called = re.findall(r"[a-z-]+", " ".join(re.findall(r"\$\(MAKE\)(?: -j 2)?(.*)", recipe)))
    assert len(called) > 4
    assert set(called) <= makefile_targets()


def test_every_short_test_is_quick_or_slow() -> None:
    """The expressions of both commands select each test that is not marked long, once."""
    [quick, slow] = re.findall(r"\$\(PYTEST\) -m \"(.*)\"", read("Makefile"))
    for marks in itertools.product([False, True], repeat=2):
        is_slow, is_long = marks
        chosen = [eval(rule, {"slow": is_slow, "long": is_long}) for rule in (quick, slow)]  # noqa: S307  # of the Makefile
        assert sum(chosen) == (not is_long)


@pytest.mark.slow
def test_a_build_without_a_compiler_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", str(ROOT)]
    command += ["-w", str(tmp_path), "-C", f"build-dir={tmp_path / 'build'}"]
    environment = {**os.environ, "CXX": "/nowhere/c++"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "/nowhere/c++" in done.stdout + done.stderr
    assert (
        "a C++20 compiler (Debian: g++; macOS: xcode-select --install)" in done.stdout + done.stderr
    )


def test_the_declared_pythons_are_those_that_wheels_are_tested_with() -> None:
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert tuple(PYTHONS) == wheels.TESTED_WITH


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("python", PYTHONS)
def test_all_extras_install_without_a_compiler(python: str, tmp_path: Path) -> None:
    """PyTorch, and all else with an empty package in its place: its requirements are large."""
    name = "torch-2.13.0+empty"
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+empty"
    with zipfile.ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.dist-info/METADATA", metadata)
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    texts = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    wanted = [text.partition(";")[0] for text in texts if applies(text, python)]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--only-binary", ":all:"]
    pip += ["--python-version", python, "--target", str(tmp_path / "target")]
    subprocess.run([*pip, "--no-deps", texts[0]], check=True)
    pip += ["--find-links", str(tmp_path), "torch==2.13.0+empty"]
    subprocess.run([*pip, *wanted], check=True)


def applies(requirement: str, python: str) -> bool:
    """Return whether a Python version needs a requirement; pip evaluates markers for its own."""
    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate({"python_version": python})


def test_hooks_have_the_versions_of_the_constraints() -> None:
    constraints = dict(re.findall(r"^(\S+)==(\S+)$", read("constraints.txt"), re.MULTILINE))
    revisions = {
        repository["repo"].rpartition("/")[2]: repository["rev"]
        for repository in load(ROOT / ".pre-commit-config.yaml")["repos"]
    }
    assert revisions["ruff-pre-commit"] == f"v{constraints['ruff']}"
    assert revisions["mirrors-clang-format"] == f"v{constraints['clang-format']}"


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_versions_agree() -> None:
    assert find_problems(ROOT, None) == []


def test_release_check_ends_with_the_problems() -> None:
    def check(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "tests/package/check_release.py", *arguments]
        return subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)

    assert check().returncode == 0
    wrong = check("v9.9.9")
    assert wrong.returncode == 1
    assert "the tag must be v" in wrong.stderr


def test_release_needs_matching_versions(tmp_path: Path) -> None:
    for name in VERSIONED:
        shutil.copy(ROOT / name, tmp_path)
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## 7.8.9\n", "utf-8")
    for name in VERSIONED[:2]:
        path = tmp_path / name
        text = re.sub(r'(?m)^(version\W+)\d[\d.]*("?)$', r"\g<1>7.8.9\2", path.read_text("utf-8"))
        path.write_text(text, "utf-8")

    assert find_problems(tmp_path, "v7.8.9") == []
    assert find_problems(tmp_path, "v7.8.8") == ["the tag must be v7.8.9, got v7.8.8"]
    changelog.write_text("# Changelog\n\n## 7.8.9, 2031-02-28\n", "utf-8")
    assert find_problems(tmp_path, "v7.8.9") == []
    changelog.write_text("# Changelog\n\n## 7.8.9 (unreleased)\n", "utf-8")
    assert find_problems(tmp_path, "v7.8.9") == ["CHANGELOG.md has no heading '## 7.8.9'"]
    (tmp_path / "CITATION.cff").write_text("version: 7.8.8\n", "utf-8")
    assert find_problems(tmp_path, None) == [
        "CITATION.cff has version 7.8.8, pyproject.toml has 7.8.9"
    ]
