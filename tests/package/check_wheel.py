"""Check of an installed wheel: the package is whole, typed, and reads real data.

``check_wheel.py DIGITS [SITE [DECODER]]``, with the folder of examples, the folder where it is
installed, and how it decodes JPEGs and PNGs: "native" (the default) or "pillow".
"""

import importlib.util
import io
import subprocess
import sys
import sysconfig
from pathlib import Path

from PIL import Image

# An editable install of the same name would be found first.
sys.meta_path[:] = [
    finder for finder in sys.meta_path if "_editable" not in type(finder).__module__
]

import torchrec_io as tio  # noqa: E402  # after the finder is gone


def check_images(digits: str, decoder: str) -> None:
    """Decode a JPEG and a PNG, natively or in a package without libjpeg-turbo and libdeflate."""
    schema = {"image": tio.ImageFeature(size=(8, 8))}
    for kind, expected in (("JPEG", [0, 255, 1]), ("PNG", [0, 255, 0])):
        file = io.BytesIO()
        Image.new("RGB", (30, 20), (0, 255, 0)).save(file, kind, quality=100)
        record = tio.encode_example({"image": file.getvalue()})
        pixels = tio.parse_examples([record], schema)["image"]
        assert pixels[0, :, 4, 4].tolist() == expected
    description = tio.make_loader(
        tio.TFRecordDataset(f"{digits}/*", schema), batch_size=2
    ).describe()
    for kind in ("JPEGs are", "PNGs are"):
        is_native = f"{kind} decoded natively" in description
        assert is_native == (decoder == "native"), description


def check_reports(digits: str, package: Path) -> None:
    """Check the templates of reports, and make a report if the optional packages are installed."""
    found = {path.name for path in (package / "reports" / "templates").iterdir()}
    assert found == {"charts.html", "parts.html", "report.css", "report.html"}, found
    if all(map(importlib.util.find_spec, ("datasketches", "jinja2"))):
        assert tio.report(digits).to_html().startswith("<!DOCTYPE html>")


def main() -> None:
    """Check the wheel by reading the digits."""
    digits, site = sys.argv[1], Path(*sys.argv[2:3] or [sysconfig.get_path("platlib")])
    decoder = "".join(sys.argv[3:4]) or "native"
    package = site / "torchrec_io"
    assert tio.__file__ == str(package / "__init__.py"), tio.__file__
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()
    assert (package / "messages.pyi").exists()
    assert not list(package.rglob("*.cpp")), "sources do not belong into the wheel"
    for library in ("libdeflate", "libjpeg-turbo", "nanobind"):
        assert list(site.glob(f"torchrec_io-*.dist-info/licenses/licenses/{library}.txt")), library

    schema = {"label": tio.FixedLenFeature([], "int64"), "id": tio.FixedLenFeature([], "int64")}
    dataset = tio.TFRecordDataset(f"{digits}/*", schema, batch_size=100)
    check_images(digits, decoder)
    ids = [i for batch in dataset for i in batch["id"].tolist()]
    assert sorted(ids) == list(range(1797))
    check_reports(digits, package)
    command = [sys.executable, "-c", "from torchrec_io.cli import main; main()", "--help"]
    status = 0 if importlib.util.find_spec("typer") else 2  # without the extra
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == status
    print(f"the wheel is good: {package}")


if __name__ == "__main__":
    main()
