"""Read keys and values, as `reader.read` did, from TFRecord files, text lines and whole files.

    python examples/reading_with_keys.py [FOLDER]

A key names the position of a record, in the same form as the keys of TensorFlow's readers.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torchrec_io as tio

POEM = ["Tyger Tyger, burning bright,", "In the forests of the night;"]


def main(folder: Path) -> None:
    """Write two lines as records, as text and as two files, and read all of them with keys."""
    folder.mkdir(parents=True, exist_ok=True)
    # Indexes of text files go to this folder instead of the user's cache directory.
    os.environ.setdefault("TORCHREC_IO_CACHE", str(folder))
    with tio.TFRecordWriter(folder / "poem.tfrecord", index=True) as writer:
        for line in POEM:
            writer.write(line.encode())
    (folder / "poem.txt").write_text("The Tyger\n" + "\n".join(POEM) + "\n")
    for number, line in enumerate(POEM):
        (folder / f"line-{number}").write_text(line)

    records = tio.TFRecordDataset(folder / "poem.tfrecord", with_key=True)
    lines = tio.TextLineDataset(folder / "poem.txt", skip_header_lines=1, with_key=True)
    files = tio.WholeFileDataset(folder / "line-*", with_key=True)
    for dataset in (records, lines, files):
        print(type(dataset).__name__)
        for key, value in dataset:
            print(f"  {Path(key).name:16} {value!r}")
        assert [value.decode() for _, value in dataset] == POEM

    # "path:offset" of the record's frame, which is 16 bytes longer than the record.
    second = 16 + len(POEM[0])
    assert [key for key, _ in records] == [f"{folder}/poem.tfrecord:{at}" for at in (0, second)]
    # "path:line", counted from 1, including header lines.
    assert [key for key, _ in lines] == [f"{folder}/poem.txt:{line}" for line in (2, 3)]
    # "path".
    assert [key for key, _ in files] == [f"{folder}/line-{number}" for number in (0, 1)]

    # In batches: a list of keys, and a list of values.
    [(keys, values)] = records.replace(batch_size=2)
    assert (len(keys), len(values)) == (2, 2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1] if sys.argv[1:] else scratch))
