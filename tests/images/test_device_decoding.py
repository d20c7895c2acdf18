"""Images that are decoded when a batch is moved to a device: ``ImageFeature(decoder="cuda")``."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils._pytree import tree_map

import torchrec_io as tio
from tests.support.images import encoded, oriented, record_of, smooth
from tests.support.tfrecord import write_tfrecord
from torchrec_io._tensors import encoded_images
from torchrec_io.errors import DecodeError, SchemaError

CROP = tio.RandomResizedCrop()
OPTIONS: list[dict[str, Any]] = [
    {"size": (32, 24)},
    {"size": (32, 24), "resize": "cover", "layout": "HWC"},
    {"size": (32, 24), "resize": "contain", "fill": 7, "dtype": "float32", "mean": (0.1, 0.2, 0.3)},
    {"size": (30, 30), "resize": "cover", "short_side": 37, "dtype": "float16", "std": (0.5,) * 3},
    {"size": (20, 30), "resize": None, "crop": (3, 5, 20, 30)},
    {"size": (48, 48), "channels": 1, "augment": CROP},
]


def images() -> list[bytes]:
    """Return images of all kinds that nvJPEG decodes, and that it does not."""
    photos = [smooth(40 + 3 * number, 75 - 2 * number, seed=number) for number in range(8)]
    cmyk = Image.fromarray(photos[3]).convert("CMYK")
    return [
        encoded(photos[0], "JPEG", quality=95),
        encoded(photos[1], "PNG"),
        encoded(photos[2], "JPEG", progressive=True, quality=95),
        encoded(cmyk, "JPEG"),
        encoded(photos[4], "JPEG", exif=oriented(6)),
        encoded(photos[5][:, :, 0], "JPEG"),
        encoded(photos[6], "JPEG", keep_rgb=True),
        encoded(photos[7], "JPEG", quality=95),
    ]


ON_DEVICE = [0, 2, 5, 7]


def batch_of(decoder: str, files: Sequence[bytes] = (), **options: Any) -> tio.Batch:
    schema = {"image": tio.ImageFeature(decoder=decoder, **options)}  # type: ignore[arg-type]
    return tio.parse_examples([record_of(data) for data in files or images()], schema)


class Codec:
    """A decoder of JPEGs in place of nvJPEG, like torchcodec's.

    Attributes:
        seen: JPEGs of each call.
        refused: JPEGs that it cannot decode.
    """

    def __init__(self) -> None:
        self.seen: list[list[bytes]] = []
        self.refused: list[bytes] = []

    def __call__(
        self, files: list[torch.Tensor], *, mode: str, device: torch.device
    ) -> list[torch.Tensor]:
        assert device.type == "cpu"
        self.seen.append([file.numpy().tobytes() for file in files])
        if any(data in self.refused for data in self.seen[-1]):
            raise RuntimeError("nvJPEG: bad JPEG")
        found = []
        for data in self.seen[-1]:
            with Image.open(io.BytesIO(data)) as image:
                pixels = np.array(image.convert({"RGB": "RGB", "GRAY": "L"}[mode]))
            found.append(torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1))
        return found


@pytest.fixture
def codec(monkeypatch: pytest.MonkeyPatch) -> Codec:
    codec = Codec()
    monkeypatch.setattr(encoded_images, "decoder_of", lambda _: codec)
    return codec


@pytest.mark.parametrize("options", OPTIONS)
def test_the_cpu_gives_the_pixels_of_other_decoders(options: dict[str, Any]) -> None:
    batch, expected = batch_of("cuda", **options), batch_of("auto", **options)
    assert torch.equal(batch.to("cpu")["image"], expected["image"])


@pytest.mark.parametrize("options", OPTIONS)
def test_a_device_gives_the_same_crops(codec: Codec, options: dict[str, Any]) -> None:
    """With the same decoder of JPEGs, only the filter differs, by the rounding of one level."""
    found = batch_of("cuda", **options).to("cpu")["image"].double()
    expected = batch_of("auto", **options)["image"].double()
    level = (
        1 if options.get("dtype", "uint8") == "uint8" else 1 / 255 / min(options.get("std", [1]))
    )
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= 1.01 * level
    assert codec.seen == [[images()[at] for at in ON_DEVICE]]


def test_jpegs_that_the_device_refuses(codec: Codec) -> None:
    files = images()
    codec.refused = [files[2]]
    batch, expected = batch_of("cuda", size=(32, 24)), batch_of("auto", size=(32, 24))
    found = batch.to("cpu")["image"]
    assert torch.equal(found[2], expected["image"][2])
    assert codec.seen[1:] == [[files[at]] for at in ON_DEVICE]
    cut = bytearray(files[2])
    cut[len(cut) // 2 : -2] = bytes(len(cut) - 2 - len(cut) // 2)  # the markers stay
    codec.refused = [bytes(cut)]
    with pytest.raises(DecodeError, match="cannot be decoded") as caught:
        batch_of("cuda", [files[0], bytes(cut)], size=(32, 24)).to("cpu")
    assert (caught.value.record, caught.value.feature) == (1, "image")


def test_a_device_holds_few_whole_images(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_images, "_MOST_PIXELS", 2 * 40 * 75)
    expected = batch_of("auto", size=(40, 75), resize="contain")["image"]
    found = batch_of("cuda", size=(40, 75), resize="contain").to("cpu")["image"]
    assert float((found.double() - expected.double()).abs().max()) <= 1
    assert [len(each) for each in codec.seen] == [1, 1, 1, 1]


def test_damage_is_an_error_of_the_record(tmp_path: Path) -> None:
    files = images()
    records = [record_of(data) for data in (files[0], files[0][:-40], files[7])]
    path = str(write_tfrecord(tmp_path / "a", records))
    schema = {"image": tio.ImageFeature(size=(8, 8), decoder="cuda")}
    with pytest.raises(DecodeError, match="truncated") as caught:
        list(tio.TFRecordDataset(path, schema, batch_size=3))
    assert (caught.value.path, caught.value.record) == (path, 1)
    [batch] = tio.TFRecordDataset(path, schema, batch_size=3, on_error="skip")
    assert len(batch.to("cpu")["image"]) == 2


def test_samples_are_decoded_and_can_be_joined() -> None:
    expected = batch_of("auto", size=(32, 24))["image"]
    batch = batch_of("cuda", size=(32, 24))
    assert "uint8[8, 3, 32, 24]" in repr(batch["image"])
    samples = batch.samples()
    assert torch.equal(samples[3]["image"], expected[3])
    assert torch.equal(tio.collate(samples[2:5]).to("cpu")["image"], expected[2:5])
    assert torch.equal(batch.select([6, 1]).to("cpu")["image"], expected[[6, 1]])
    assert batch[:0].to("cpu")["image"].shape == (0, 3, 32, 24)


@pytest.mark.parametrize("is_first", [True, False])
def test_boxes_of_a_group_do_not_change_its_images(is_first: bool) -> None:
    """Also those that the CPU decodes when it parses."""
    augment = tio.RandomResizedCrop(group="view")
    records = [record_of(each, at) for at, each in enumerate(images())]
    for decoder in ("cuda", "auto"):
        boxes = {"boxes": tio.BoxFeature(group="view")}
        options: Any = {"size": (32, 24), "augment": augment, "decoder": decoder}
        image = {"image": tio.ImageFeature(**options)}
        schema = {**boxes, **image} if is_first else {**image, **boxes}
        found = tio.parse_examples(records, schema).to("cpu")["image"]
        expected = tio.parse_examples(records, image).to("cpu")["image"]
        assert torch.equal(found, expected)


def test_batches_of_every_origin(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", [record_of(each, at) for at, each in enumerate(images())])
    expected = batch_of("auto", size=(32, 24))["image"]
    schema = {"image": tio.ImageFeature(size=(32, 24), decoder="cuda")}
    options: Any = {"batch_size": 8, "device": "cpu"}
    [(keys, batch)] = tio.make_loader(tio.TFRecordDataset(path, schema, with_key=True), **options)
    assert len(keys) == 8
    assert torch.equal(batch["image"], expected)
    [batch] = tio.make_loader(tio.TFRecordMapDataset(path, schema), **options)
    assert torch.equal(batch["image"], expected)
    parts = [tio.TFRecordDataset(path, schema), tio.TFRecordDataset(path, schema)]
    mixed = tio.mix(parts, weights=[1, 1], batch_size=4, source="part")
    batch = next(iter(tio.make_loader(mixed, device="cpu")))
    counts = [int((batch["part"] == part).sum()) for part in range(2)]
    rows = [row for part in range(2) for row in batch["image"][batch["part"] == part]]
    assert all(map(torch.equal, rows, [*expected[: counts[0]], *expected[: counts[1]]]))
    stored = tio.parse_examples([record_of(images()[0])], schema)
    copies = [pickle.loads(pickle.dumps(stored)), tree_map(torch.clone, stored)]
    for copy in copies:
        assert torch.equal(copy.to("cpu")["image"], expected[:1])
    assert torch.equal(stored.to_tensordict()["image"], expected[:1])
    assert stored.to("meta")["image"].shape == (1, 3, 32, 24)


@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_loaders_decode_and_resume(tmp_path: Path, method: str | None) -> None:
    path = write_tfrecord(tmp_path / "a", [record_of(each, at) for at, each in enumerate(images())])
    options: dict[str, Any] = {"num_workers": int(method is not None), "device": "cpu"}
    options["multiprocessing_context"] = method

    def loader_of(decoder: Any) -> Any:
        feature = tio.ImageFeature(size=(32, 24), augment=CROP, decoder=decoder)
        schema = {"image": feature, "id": tio.FixedLenFeature([], "int64")}
        dataset = tio.TFRecordDataset(path, schema, batch_size=3, shuffle=True, seed=1)
        return tio.make_loader(dataset, **options)

    expected = [batch["image"] for batch in loader_of("auto")]
    loader = loader_of("cuda")
    assert "images: JPEGs are decoded by nvJPEG" in loader.describe()
    batches = iter(loader)
    assert torch.equal(next(batches)["image"], expected[0])
    state = loader.state_dict()
    batches.close()
    resumed = loader_of("cuda")
    resumed.load_state_dict(state)
    found = [batch["image"] for batch in resumed]
    assert all(map(torch.equal, found, expected[1:]))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs size"),
        ({"size": (8, 8), "channels": 4}, "channels=1 or 3"),
        ({"size": (8, 8), "dtype": "uint16", "resize": None}, "other than uint16"),
        ({"size": (8, 8), "fast": True}, "excludes fast"),
        ({"size": (8, 8), "filter": "nearest"}, "excludes filter"),
        ({"size": (8, 8), "apply_exif_orientation": True}, "excludes apply_exif_orientation"),
    ],
)
def test_what_a_device_does_not_decode(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        tio.ImageFeature(decoder="cuda", **options)


def test_a_sequence_of_images_is_refused() -> None:
    with pytest.raises(SchemaError, match="excludes decoder='cuda'"):
        tio.Schema({"x": tio.SequenceFeature(tio.ImageFeature(size=(8, 8), decoder="cuda"))})


def test_without_torchcodec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torchcodec.decoders", None)
    with pytest.raises(ImportError, match=r"install torchrec-io\[cuda\]"):
        encoded_images.decoder_of(torch.device("cuda"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("options", OPTIONS)
def test_a_real_device(options: dict[str, Any]) -> None:
    pytest.importorskip("torchcodec")
    found = batch_of("cuda", **options).to("cuda")["image"]
    expected = batch_of("auto", **options)["image"]
    assert (found.device.type, found.dtype, found.shape) == ("cuda", expected.dtype, expected.shape)
    scale = 1 if found.dtype == torch.uint8 else 255
    far = (found.cpu().double() - expected.double()).abs() * scale
    assert float(far.mean()) < 4
