"""Files of an HTTP server: ranges, faults, changes and secrets."""

from __future__ import annotations

import base64
import contextlib
import gzip
import multiprocessing
import pickle
import re
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchrec_io as tio
from tests.support.tfrecord import frame
from tests.support.threads import threads_of_other_tests, wait_until_threads_end
from tests.support.web import WebServer
from torchrec_io import RecordIndex, StaleIndexError, TFRecordDataset, TFRecordStream
from torchrec_io._storage.byte_source import read_bytes
from torchrec_io._storage.location import Location
from torchrec_io._storage.remote.process import close_connections

RECORDS = [b"%07d" % number * 1000 for number in range(300)]  # 2.1 MB
DATA = b"".join(map(frame, RECORDS))
SOME = 1_000_000  # is a single request
FEW = {"max_attempts": 3, "timeout": 5}


def read(url: str, options: dict[str, Any] | None = None, size: int = 1 << 30) -> bytes:
    file = Location.of(url, {**FEW, **(options or {})}).open()
    try:
        return read_bytes(file, 0, min(size, file.stamp.size))
    finally:
        file.close()


# ---- reading ----


def test_names_are_sent_as_they_are(web: WebServer) -> None:
    for path in ("/a%20b/c%2Bd+e=f", "/%C3%A9/x~y", "/a/b.c-d_e", "/p//q"):
        assert read(web.put(path, b"content")) == b"content"


def test_servers_that_answer_no_head(web: WebServer) -> None:
    web.has_head = False
    assert read(web.put("/a?X-Amz-Signature=1", b"signed for GET alone")) == b"signed for GET alone"


def test_server_without_ranges(web: WebServer) -> None:
    web.has_ranges = False
    with pytest.raises(OSError, match=r"the request was refused \(.*whole files only, no ranges"):
        read(web.put("/a", DATA))


def test_a_body_that_is_too_long_is_an_error(web: WebServer) -> None:
    size = 100_000

    def send_too_much(handler: Any) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 0-{size - 1}/{len(DATA)}")
        handler.send_header("Content-Length", str(2 * size))
        handler.send_header("ETag", '"v1"')
        handler.end_headers()
        handler.wfile.write(DATA[: 2 * size])

    url = web.put("/a", DATA)
    web.faults = [send_too_much]
    with pytest.raises(OSError, match="the server sent more bytes than were asked for"):
        read(url, size=size)
    assert read(url, size=size) == DATA[:size]


@pytest.mark.parametrize("url", ["/dir/", "/dir/*.tfrecord"])
def test_an_http_server_has_no_listing(web: WebServer, url: str) -> None:
    with pytest.raises(ValueError, match="an HTTP server has no listing"):
        TFRecordDataset(web.url(url))


def test_sequential_reading_is_fetched_ahead_in_large_ranges(web: WebServer) -> None:
    data = b"".join(map(frame, [bytes(50_000)] * 800))  # 40 MB
    assert len(list(TFRecordStream(web.put("/big", data)))) == 800
    sizes = [end - begin for begin, end in (r.range or (0, 0) for r in web.gets())]
    assert sum(sizes) < 1.02 * len(data)
    assert len(sizes) < 24
    assert max(sizes) == 8 << 20


def test_scattered_records_share_requests_also_where_these_fail(web: WebServer) -> None:
    close_connections()
    records = [b"%07d" % number * 2000 for number in range(3000)]  # 42 MB, 16 are read ahead
    url = web.put("/big", b"".join(map(frame, records)))
    dataset = TFRecordDataset(url, shuffle=True, batch_size=8, cache_bytes=64 << 20)
    len(dataset)  # is indexed
    web.requests.clear()
    web.faults = [("short", 50_000), "reset", ("short", 300_000)] * 4
    assert sorted(bytes(record) for batch in dataset for record in batch) == records
    assert web.faults == []
    assert len(web.gets()) < len(records) / 4


def test_a_child_does_not_wait_for_what_its_parent_reads_ahead(web: WebServer) -> None:
    file = Location.of(web.put("/a", DATA * 4)).open()
    step = 1 << 18
    at = 1 << 20  # where the first chunk begins that is read ahead
    is_forked = threading.Event()

    def hold_back(handler: Any) -> bool:
        if int(re.findall(r"\d+", handler.headers.get("Range", "0"))[0]) >= at:
            is_forked.wait(30)
        return False  # then answers

    web.answering = hold_back
    read_bytes(file, 0, step)
    read_bytes(file, step, step)  # starts to read ahead
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send_bytes(read_bytes(file, 2 * step, at)))
    child.start()
    is_forked.set()
    answer = receiver.recv_bytes() if receiver.poll(20) else None
    child.kill()
    child.join()
    assert answer == (DATA * 4)[2 * step : 2 * step + at]


def test_a_record_that_is_larger_than_the_memory(web: WebServer) -> None:
    close_connections()
    data = DATA * 3
    [whole] = tio.WholeFileDataset(web.put("/a", data), cache_bytes=1 << 20)
    assert whole == data
    url = web.put("/b", frame(data) + frame(b"x"))
    dataset = TFRecordDataset(url, cache_bytes=1 << 20, num_threads=4)
    assert list(dataset) == [data, b"x"]


# ---- indexes ----


def test_an_index_is_built_once(web: WebServer) -> None:
    url = web.put("/a.tfrecord", DATA)
    assert len(TFRecordDataset(url)) == 300
    before = len(web.requests)
    assert len(TFRecordDataset(url)) == 300
    assert [r.range for r in web.requests[before:]] == [(0, 1)]  # the ETag says the rest
    web.put("/a.tfrecord", DATA[: len(frame(RECORDS[0])) * 100], etag='"v2"')
    assert len(TFRecordDataset(url)) == 100


def test_an_index_beside_the_object_is_used(web: WebServer, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    index = RecordIndex.build(tmp_path / "a")
    url = web.put("/a.tfrecord", DATA)
    web.put("/a.tfrecord.tfidx", index.file_bytes.tobytes())
    assert len(TFRecordDataset(url)) == 300
    read_bytes = sum(end - begin for begin, end in (r.range or (0, 0) for r in web.gets()))
    assert read_bytes < 200_000
    assert len(RecordIndex.load(url)) == 300
    assert RecordIndex.load(f"{url}.tfidx").offsets.tolist() == index.offsets.tolist()
    index.to_text(tmp_path / "text")
    text = web.put("/text.idx", (tmp_path / "text").read_bytes())
    assert len(RecordIndex.from_text(text, url)) == 300


# ---- faults ----


@pytest.mark.parametrize("fault", [503, 408, "reset", ("short", 100_000)])
def test_temporary_faults(web: WebServer, fault: Any) -> None:
    url = web.put("/a", DATA)
    web.faults = [fault] * 2
    assert read(url) == DATA


def test_a_body_that_breaks_off_is_resumed_inside_the_range(web: WebServer) -> None:
    url = web.put("/a", DATA)
    web.faults = [("short", 700_000)]
    assert read(url, size=SOME) == DATA[:SOME]
    first, second = (r.range for r in web.gets())
    assert first == (0, SOME)
    assert second is not None
    assert 400_000 < second[0] <= 700_000
    assert second[1] == SOME


def test_a_server_that_does_not_answer(web: WebServer) -> None:
    url = web.put("/a", DATA)
    web.faults = ["stall"]
    assert read(url, {"timeout": 2}) == DATA


@pytest.mark.parametrize(
    ("fault", "attempts", "error", "message"),
    [
        (503, 3, ConnectionError, "after 3 attempts; last reason: HTTP 503"),
        ("reset", 3, ConnectionError, "after 3 attempts; last reason: the connection was closed"),
        (("short", 10), 3, ConnectionError, "after 3 attempts; last reason: the body"),
        (403, 1, PermissionError, r"access denied \(HTTP 403\); tried the URL"),
        (404, 1, FileNotFoundError, "no such object"),
    ],
)
def test_faults_that_stay(
    web: WebServer, fault: Any, attempts: int, error: type[Exception], message: str
) -> None:
    url = web.put("/a", DATA)
    web.faults = [fault] * 99
    with pytest.raises(error, match=message) as caught:
        read(url, size=SOME)
    assert repr(url) in str(caught.value)
    assert len(web.gets()) == attempts
    web.faults = []
    assert read(url) == DATA  # a failed range is tried again


def test_no_server() -> None:
    with pytest.raises(ConnectionError, match="after 3 attempts; last reason: connection refused"):
        read("http://127.0.0.1:1/a")


# ---- changes ----


@pytest.mark.parametrize(
    "fields",
    [
        {"etag": '"v2"'},
        {"etag": 'W/"v2"'},
        {"etag": None, "changed": "Tue, 03 Nov 2026 10:00:00 GMT"},
    ],
)
def test_an_object_that_is_replaced_is_stale(web: WebServer, fields: dict[str, Any]) -> None:
    etag = fields["etag"]
    first = {"etag": None if etag is None else etag.replace("2", "1")}
    url = web.put("/a", DATA, **first)
    # Less is fetched ahead than the object has. Few attempts: threads go on after the test.
    options: dict[str, Any] = {
        "batch_size": 10,
        "cache_bytes": 1 << 20,
        "storage_options": FEW,
    }
    dataset = TFRecordDataset(url, **options)
    skipping = TFRecordDataset(url, on_error="skip", **options)
    items = iter(dataset)
    next(items)
    web.put("/a", DATA, **fields)
    with pytest.raises(StaleIndexError, match="the object was replaced or changed"):
        list(items)
    for each in (dataset, skipping):
        with pytest.raises(StaleIndexError):
            list(each)


@pytest.mark.parametrize(("case", "num_threads"), [("stored", 1), ("blocks", 2), ("gzip", 2)])
def test_a_range_that_failed_for_good_is_not_asked_for_again(
    web: WebServer, case: str, num_threads: int
) -> None:
    """Neither by other threads, nor for batches that are loaded together with others."""
    arrays = np.random.default_rng(0).standard_normal((300, 10_000), np.float32)
    data = b"".join(frame(tio.encode_example({"x": array})) for array in arrays)
    dataset = TFRecordDataset(
        web.put("/a.tfrecord", gzip.compress(data, 1) if case == "gzip" else data),
        {"x": tio.FixedLenFeature([10_000], "float32")},
        batch_size=2,
        shuffle=tio.Shuffle(block=20, window=60) if case == "blocks" else False,
        num_threads=num_threads,
        storage_options=FEW,
    )
    web.lost_from = 5_000_000
    others = threads_of_other_tests()
    for _ in range(2):  # another epoch asks again
        wait_until_threads_end(others)
        web.requests.clear()
        with pytest.raises(ConnectionError, match="after 3 attempts"):
            list(dataset)
        attempts = np.zeros(len(data) + (1 << 20), int)
        for begin, end in (get.range or (0, 0) for get in web.gets()):
            attempts[begin:end] += end > web.lost_from
        # A request that is dropped, as its thread ends, has made up to two attempts.
        assert 3 <= attempts.max() <= 8
    web.lost_from = None
    assert sum(len(batch["x"]) for batch in dataset) == 300


def test_a_stream_reads_each_object_as_it_is(web: WebServer) -> None:
    url = web.put("/a", DATA)
    stream = TFRecordStream(url)
    assert len(list(stream)) == 300
    web.put("/a", frame(b"new"), etag='"v2"')
    assert list(stream) == [b"new"]


def test_an_object_that_shrinks_without_an_identity(web: WebServer) -> None:
    url = web.put("/a", DATA, etag=None, changed=None)
    file = Location.of(url).open()
    web.put("/a", DATA[:-1], etag=None, changed=None)
    with pytest.raises(StaleIndexError):
        read_bytes(file, 0, 100)


# ---- secrets ----


def test_a_signed_query_appears_nowhere(
    web: WebServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "cache"))
    caplog.set_level("DEBUG")
    url = web.put("/a.tfrecord?X-Amz-Signature=5f2a5f2a", DATA)
    dataset = TFRecordDataset(url, with_key=True, shuffle=True, storage_options=FEW)
    keys = [key for key, _ in dataset]
    assert len(keys) == 300
    web.faults = [503] * 99
    with pytest.raises(ConnectionError) as caught:
        list(dataset)
    texts = [
        repr(dataset), str(dataset.paths), *keys, repr(dataset.state_dict()), caplog.text,
        "".join(traceback.format_exception(caught.value)),
        str(list((tmp_path / "cache").iterdir())),
    ]  # fmt: skip
    assert [text for text in texts if "5f2a" in text] == []
    assert b"5f2a" not in pickle.dumps(dataset)
    assert all(b"5f2a" not in path.read_bytes() for path in (tmp_path / "cache").iterdir())


def test_a_user_in_the_url_is_sent_as_a_header(web: WebServer) -> None:
    web.put("/a", DATA)
    url = f"http://me:sesame%20@127.0.0.1:{web.port}/a"
    assert read(url) == DATA
    wanted = "Basic " + base64.b64encode(b"me:sesame ").decode()
    assert {request.headers.get("authorization") for request in web.requests} == {wanted}
    web.faults = [403]
    with pytest.raises(PermissionError, match="tried the user of the URL") as caught:
        read(url)
    assert "sesame" not in str(caught.value)


def test_wrong_options(web: WebServer) -> None:
    url = web.put("/a", DATA)
    with pytest.raises(ValueError, match="storage_options of HTTP has no nonsense") as caught:
        read(url, {"nonsense": "secret-5f2a"})
    assert "5f2a" not in str(caught.value)
    with pytest.raises(ValueError, match="max_attempts must be") as caught:
        read(url, {"max_attempts": 0})
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds, got 0"):
        read(url, {"timeout": 0})
    headers = {"client_options": {"default_headers": {"x": "secret-5f2a\n"}}}
    with pytest.raises(ValueError, match="header") as caught:
        read(url, headers)
    assert "5f2a" not in str(caught.value)


# ---- servers that lie, or never end ----


@pytest.mark.parametrize("status", [200, 204])
def test_a_size_of_zero_is_not_believed_if_there_is_a_body(web: WebServer, status: int) -> None:
    url = web.put("/a.tfrecord", DATA)
    web.has_ranges = False

    def lying(handler: Any) -> bool:
        if handler.command == "HEAD":
            handler.status(status)
        return bool(handler.command == "HEAD")

    web.answering = lying
    for read_all in (TFRecordDataset, TFRecordStream):
        with pytest.raises(OSError, match="the server sends whole files only, no ranges"):
            list(read_all(url, storage_options=FEW))


def test_an_empty_file_is_empty(web: WebServer) -> None:
    for name, has_ranges in (("/a", True), ("/b", False)):
        web.has_ranges = has_ranges
        assert list(TFRecordDataset(web.put(name, b""))) == []


def endless(block: bytes, pause: float) -> Callable[[Any], bool]:
    """Return an answer with the status 500 and a body that does not end."""

    def answer(handler: Any) -> bool:
        handler.send_response(500)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
                time.sleep(pause)
        handler.close_connection = True
        return True

    return answer


def test_a_first_request_without_end_has_a_deadline(web: WebServer) -> None:
    url = web.put("/a.tfrecord", DATA)
    web.answering = endless(b"x", 0.01)
    with pytest.raises(ConnectionError, match="after 2 attempts; last reason: no answer in time"):
        TFRecordDataset(url, storage_options={"max_attempts": 2, "timeout": 0.3})


@pytest.mark.slow
def test_the_body_of_an_error_is_bounded(web: WebServer) -> None:
    url = web.put("/a.tfrecord", DATA)
    web.answering = endless(b"x" * (1 << 20), 0)
    with pytest.raises(OSError, match="the answers of a server need too much memory"):
        TFRecordDataset(url, storage_options={"max_attempts": 1, "timeout": 100})
    web.answering = lambda _: False
    assert list(TFRecordDataset(url)) == RECORDS
