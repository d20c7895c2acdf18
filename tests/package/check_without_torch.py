"""Check of an installed wheel where PyTorch is missing: what needs no PyTorch works.

``check_without_torch.py``, run by wheels.py with Python versions for which there is no PyTorch.
"""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import torchrec_io as tio


def main() -> None:
    """Write, index, verify and read records."""
    assert importlib.util.find_spec("torch") is None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.tfrecord"
        records = [tio.encode_example({"id": i, "values": [0.5, i]}) for i in range(100)]
        with tio.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
        index = tio.RecordIndex.build(path)
        assert index.lengths.tolist() == [len(record) for record in records]
        data = path.read_bytes()
        for i, offset in enumerate(index.offsets.tolist()):
            message = tio.Example.FromString(data[offset + 12 : offset + 12 + len(records[i])])
            assert message.features.feature["id"].int64_list.value[:] == [i]
        command = [sys.executable, "-c", "from torchrec_io.cli import main; main()", "verify"]
        subprocess.run([*command, str(path)], check=True, stdout=subprocess.DEVNULL)
    print(f"the wheel is good without torch: {tio.__file__}")


if __name__ == "__main__":
    main()
