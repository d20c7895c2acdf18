"""Failures of requests: their causes, without secrets, and whether to try again."""

from __future__ import annotations

import errno
import re
from enum import Enum
from typing import NamedTuple

from ...errors import StaleIndexError
from .redirects import METADATA_HOSTS, NOWHERE

# The status and the error code of an answer, in the text of an error of obstore. The text itself
# is never shown: it has URLs, and bodies that the server wrote.
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_RETRIES = re.compile(r"after (\d+) retries")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>|\"(?:code|error)\"\s*:\s*\"(\w{1,60})\"")
_TEMPORARY_CODES = frozenset({
    "SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable",
    "ConditionalRequestConflict",
})  # fmt: skip
_EXPIRED_CODES = frozenset({"ExpiredToken", "TokenRefreshRequired", "RequestExpired"})


class Kind(Enum):
    """Meaning of a failed request."""

    missing = 1
    denied = 2
    changed = 3
    refused = 4
    temporary = 5
    exists = 6


class Failure(NamedTuple):
    """A request that failed for good.

    Attributes:
        kind: Meaning of the failure.
        reason: The last reason, as the end of a sentence, without secrets.
        attempts: Number of attempts.
        tried: Credentials that the request had, in words, if it was denied.
    """

    kind: Kind
    reason: str
    attempts: int = 1
    tried: str = ""


class RequestError(Exception):
    """A request failed.

    Attributes:
        failure: Why.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


class FetchError(RequestError):
    """A range could not be fetched.

    Attributes:
        begin: First byte that was requested.
        end: Byte after the last one.
    """

    def __init__(self, failure: Failure, begin: int, end: int) -> None:
        super().__init__(failure)
        self.begin = begin
        self.end = end


class HelperError(ConnectionError):
    """The helper process ended before it answered."""


_REDIRECTED = (
    "the server redirects to another host, which must not get this request's headers and query"
)
# Words of obstore's errors that show the cause if there is no status. The first match counts.
_CAUSES = {
    f"{NOWHERE},": Failure(Kind.refused, _REDIRECTED),
    "scheme is not allowed|badscheme": Failure(
        Kind.refused, "http:// is used without allow_http in storage_options"
    ),
    "builder error": Failure(Kind.refused, "the request is not valid"),
    "certificate": Failure(Kind.refused, "the certificate of the server is not valid"),
    "connection refused": Failure(Kind.temporary, "connection refused"),
    "connection ?reset|broken pipe": Failure(Kind.temporary, "the connection was reset"),
    "dns error|failed to lookup": Failure(Kind.temporary, "the name of the host was not found"),
    "incompletemessage|connection closed": Failure(Kind.temporary, "the connection was closed"),
    "end of file|unexpectedeof": Failure(Kind.temporary, "the body ended early"),
    "timed ?out|kind: timeout": Failure(Kind.temporary, "no answer in time"),
    "kind: body": Failure(Kind.temporary, "the body could not be read"),
    "kind: connect": Failure(Kind.temporary, "no connection"),
    "": Failure(Kind.temporary, "the request failed"),
}
_INVALID = Failure(Kind.refused, "the request is not valid")
# Errors of obstore that need no further look, by the names of their classes.
_BY_CLASS = {
    "FileNotFoundError": Failure(Kind.missing, "HTTP 404"),
    "PreconditionError": Failure(Kind.changed, "HTTP 412"),
    "AlreadyExistsError": Failure(Kind.exists, "the object exists"),
    "NotSupportedError": Failure(Kind.refused, "the server sends whole files only, no ranges"),
    "TimeoutError": Failure(Kind.temporary, "no answer in time"),
    "TypeError": _INVALID,
    "ValueError": _INVALID,
    "PanicException": _INVALID,  # of obstore itself, to which invalid names and endpoints lead
}


def classify(error: BaseException) -> Failure:
    """Return the failure that an error of obstore stands for, without the text of the error."""
    if isinstance(error, RequestError):
        return error.failure
    if str(error).startswith("Could not parse path"):
        return Failure(
            Kind.refused, "a name with '//', or with '.' or '..' between slashes, cannot be read"
        )
    known = _BY_CLASS.get(type(error).__name__)
    if known is not None:
        return known
    # The rest repeats it with other words, such as "retry_timeout", that would be misread.
    text = str(error).partition("Debug source")[0]
    if any(f"//{host}/" in text or f"//[{host}]/" in text for host in METADATA_HOSTS):
        return Failure(Kind.denied, "no credentials were found")
    if "External AWS credential provider" in text:
        return Failure(
            Kind.denied, "the AWS profile has no valid credentials; sign in, as by aws sso login"
        )
    found = _STATUS.search(text)
    code = next((a or b for a, b in _CODE.findall(text)), "")
    if found is None:
        lowered = str(error).lower()
        failure = next(each for words, each in _CAUSES.items() if re.search(words, lowered))
    else:
        failure = classify_status(int(found[1]), code)
    retries = _RETRIES.search(text)  # of obstore itself
    return failure if retries is None else failure._replace(attempts=int(retries[1]) + 1)


def classify_status(status: int, code: str = "") -> Failure:
    """Return the failure that an error response of a server stands for.

    Args:
        status: The status of HTTP.
        code: The code of the store, if the response has one.
    """
    reason = f"HTTP {status} {code}".rstrip()
    if status == 404:
        return Failure(Kind.missing, reason)
    if status == 412:
        return Failure(Kind.changed, reason)
    if status in {401, 403} or code in _EXPIRED_CODES:
        return Failure(Kind.denied, reason)
    if status in {408, 425, 429} or status >= 500 or code in _TEMPORARY_CODES:
        return Failure(Kind.temporary, reason)
    return Failure(Kind.refused, reason)


def error_of(failure: Failure, url: str, needs: str = "read and list objects") -> Exception:
    """Return the error to raise for a failed request.

    Args:
        failure: The failure.
        url: Public URL of the object.
        needs: Actions that the credentials must allow.
    """
    if failure.kind is Kind.exists:
        return FileExistsError(errno.EEXIST, "the object exists", url)
    if failure.kind is Kind.missing:
        return FileNotFoundError(errno.ENOENT, "no such object", url)
    if failure.kind is Kind.changed:
        return StaleIndexError(
            "the object was replaced or changed after it was first opened", path=url
        )
    if failure.kind is Kind.denied:
        return PermissionError(
            errno.EACCES,
            f"access denied ({failure.reason}); tried {failure.tried}. Check the credentials and "
            f"that they may {needs}, or pass storage_options",
            url,
        )
    if failure.kind is Kind.refused:
        return OSError(errno.EIO, f"the request was refused ({failure.reason})", url)
    attempts = "1 attempt" if failure.attempts == 1 else f"{failure.attempts} attempts"
    return ConnectionError(
        errno.EIO, f"the request failed after {attempts}; last reason: {failure.reason}", url
    )
