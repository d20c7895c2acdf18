"""Check of an installed wheel: the package is whole, typed, and reads real data.

``check_wheel.py DIGITS [SITE]``, with the folder of examples and the folder where it is installed.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

# An editable install of the same name would be found first.
sys.meta_path[:] = [
    finder for finder in sys.meta_path if "_editable" not in type(finder).__module__
]

import torchrec_io as tio  # noqa: E402  # after the finder is gone


def main() -> None:
    """Check the wheel by reading the digits."""
    digits, site = sys.argv[1], Path(*sys.argv[2:3] or [sysconfig.get_path("platlib")])
    package = site / "torchrec_io"
    assert tio.__file__ == str(package / "__init__.py"), tio.__file__
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()
    assert (package / "messages.pyi").exists()
    assert not list(package.rglob("*.cpp")), "sources do not belong into the wheel"

    schema = {"label": tio.FixedLenFeature([], "int64"), "id": tio.FixedLenFeature([], "int64")}
    dataset = tio.TFRecordDataset(digits, schema, batch_size=100)
    ids = [i for batch in dataset for i in batch["id"].tolist()]
    assert sorted(ids) == list(range(1797))
    command = [sys.executable, "-c", "from torchrec_io.cli import main; main()", "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"the wheel is good: {package}")


if __name__ == "__main__":
    main()
