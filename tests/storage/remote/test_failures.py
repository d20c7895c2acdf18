"""Meanings of failed requests, and errors without secrets."""

from __future__ import annotations

from torchrec_io._storage.remote.failures import Kind, classify, error_of

SIGNED = "https://bucket.s3.amazonaws.com/a?X-Amz-Signature=5f2a"


class GenericError(Exception):
    """An error that has the name and the text of one of obstore."""


def answered(status: str, body: str = "") -> GenericError:
    return GenericError(
        f"Generic S3 error: Error performing GET {SIGNED} in 5ms - Server returned non-2xx status "
        f"code: {status}: {body}\n\nDebug source:\nretries: 0, retry_timeout: 1s"
    )


def failed(cause: str) -> GenericError:
    return GenericError(
        f"Generic S3 error: Error performing GET {SIGNED} in 5ms - HTTP error: error sending "
        f"request\n\nDebug source:\nretry_timeout: 1s, {cause}"
    )


def test_meanings() -> None:
    for error, kind, reason in (
        (answered("429 Too Many Requests"), Kind.temporary, "HTTP 429"),
        (answered("500 x", "<Code>InternalError</Code>"), Kind.temporary, "HTTP 500 InternalError"),
        (answered("400 x", "<Code>RequestTimeout</Code>"), Kind.temporary, "RequestTimeout"),
        (answered("409 x", "<Code>ConditionalRequestConflict</Code>"), Kind.temporary, "HTTP 409"),
        (answered("400 x", "<Code>ExpiredToken</Code>"), Kind.denied, "HTTP 400 ExpiredToken"),
        (answered("403 x", "<Code>AccessDenied</Code>"), Kind.denied, "HTTP 403 AccessDenied"),
        (answered("404 x", "<Code>NoSuchBucket</Code>"), Kind.missing, "HTTP 404 NoSuchBucket"),
        (answered("412 Precondition Failed"), Kind.changed, "HTTP 412"),
        (answered("400 Bad Request"), Kind.refused, "HTTP 400"),
        (TimeoutError(), Kind.temporary, "no answer in time"),
        (failed("kind: ConnectionReset"), Kind.temporary, "the connection was reset"),
        (failed("source: TimedOut"), Kind.temporary, "no answer in time"),
        (failed("dns error: failed to lookup address"), Kind.temporary, "host was not found"),
        (failed("invalid peer certificate: UnknownIssuer"), Kind.refused, "certificate"),
        (failed("URL scheme is not allowed"), Kind.refused, "allow_http"),
        (failed("kind: Builder, source: BadScheme"), Kind.refused, "allow_http"),
        (GenericError("HTTP error: builder error"), Kind.refused, "the request is not valid"),
        (ValueError('Could not parse path: Path "a//b" is'), Kind.refused, "a name with '//'"),
        (ValueError("5f2a"), Kind.refused, "the request is not valid"),
        (failed("something new"), Kind.temporary, "the request failed"),
        (
            GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1s - x"),
            Kind.denied,
            "no credentials were found",
        ),
    ):
        failure = classify(error)
        assert (failure.kind, reason in failure.reason) == (kind, True), (failure, reason)
        text = str(error_of(failure, "s3://b/a"))
        assert "5f2a" not in text
        assert "s3://b/a" in text
