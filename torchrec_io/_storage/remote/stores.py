"""Stores of obstore, and the credentials that they use. Runs in the helper process alone."""

from __future__ import annotations

import base64
import importlib
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

from .attempts import OWN_OPTIONS, most_attempts, seconds_to_wait
from .aws_files import keys_of, login_of, profile_name, profile_provider, read_profile
from .endpoints import account_of, endpoint_of, with_endpoint
from .option_names import bare_name
from .redirects import aws_hosts, azure_hosts, google_hosts, has_secret_headers, host_of, only_hosts
from .urls import is_web_url, scheme_of

# An attempt may take this many times as long in all as it may be without progress.
_WHOLE_ATTEMPT = 10
_CONNECT_TIMEOUT = timedelta(seconds=10)
_AWS_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "access key", "AWS_WEB_IDENTITY_TOKEN_FILE": "web identity",
}  # fmt: skip
_EVERYTHING_OF_AWS = (
    "AWS_ACCESS_KEY_ID, the AWS files, and the role of the container or machine; for public "
    "data pass storage_options={'skip_signature': True}"
)
_ANONYMOUS_VARIABLES = {
    "s3": "AWS_SKIP_SIGNATURE", "gs": "GOOGLE_SKIP_SIGNATURE", "az": "AZURE_SKIP_SIGNATURE",
}  # fmt: skip
# The helper tries again itself: it resumes inside a range, and counts the attempts.
_NO_RETRIES: Mapping[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
# An upload is not answered before all of it was sent, so it needs more time without an answer.
_LONGER_TO_SEND = 10
_RETRY_TIMEOUT = timedelta(minutes=10)


def make_writable(root: str, options: Mapping[str, Any]) -> Any:
    """Return a store of obstore that tries again itself, for objects that are sent in parts."""
    seconds = _LONGER_TO_SEND * seconds_to_wait(options)
    retries = {"max_retries": most_attempts(options) - 1, "retry_timeout": _RETRY_TIMEOUT}
    return make_store(root, {**options, "timeout": seconds}, retries)[0]


def make_store(
    root: str, options: Mapping[str, Any], retries: Mapping[str, Any] = _NO_RETRIES
) -> tuple[Any, str]:
    """Return a store of obstore, and the credentials that its requests have, in words.

    Args:
        root: The store, such as ``"s3://bucket"``; of HTTP, the server with what is secret.
        options: The user's ``storage_options``.
        retries: Options of obstore's own attempts.

    Raises:
        ValueError: If an option is unknown or invalid.
    """
    # An optional package, whose options are what the user gave.
    stores: Any = importlib.import_module("obstore.store")
    config = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    named = {bare_name(option): value for option, value in config.items()}
    server = root if is_web_url(root) else endpoint_of(scheme_of(root), config)
    given = _client_options(options, server)
    keywords: dict[str, Any] = {"client_options": given, "retry_config": retries}
    if is_web_url(root):
        if config:
            raise ValueError(f"storage_options of HTTP has no {', '.join(sorted(config))}")
        url, headers = _without_user(root)
        given["default_headers"] = {**headers, **given.get("default_headers", {})}
        if urlsplit(url).query or has_secret_headers(given["default_headers"]):
            given |= only_hosts([host_of(url)], given)
        tried = "the user of the URL" if headers else "the URL and the headers as they were given"
        return stores.HTTPStore(url, **keywords), tried
    scheme, _, name = root.partition("://")
    if scheme == "s3":
        tried, more, keywords["credential_provider"] = _aws_credentials(named)
        config = {**more, **config}
        region = _region(named) or more.get("region", "us-east-1")
        hosts = aws_hosts(name, region, server)
        make = stores.S3Store
    elif scheme == "gs":
        tried = _tried(scheme, named, "Google")
        hosts, make = google_hosts(server), stores.GCSStore
    else:
        tried = _tried(scheme, named, "Azure")
        hosts, make = azure_hosts(account_of(config), server), stores.AzureStore
    # Those of Google are all in a header that no other host gets.
    has_secrets = scheme != "gs" and not _is_anonymous(scheme, named)
    if has_secrets or has_secret_headers(given.get("default_headers", {})):
        hosts += [host_of(str(value)) for option, value in named.items() if _is_server(option)]
        given |= only_hosts(hosts, given)
    return make(name, config=with_endpoint(scheme, config, server), **keywords), tried


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without its user and password, and the header that stands for them."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if not user:
        return url, {}
    encoded = base64.b64encode(unquote_to_bytes(user)).decode("ascii")
    return urlunsplit(parts._replace(netloc=host)), {"authorization": f"Basic {encoded}"}


def _client_options(options: Mapping[str, Any], server: str) -> dict[str, Any]:
    """Return the options of HTTP that all stores have; ``server`` is the URL of it, if given."""
    seconds = seconds_to_wait(options)
    return {
        **({"allow_http": True} if server.startswith("http://") else {}),
        "timeout": timedelta(seconds=_WHOLE_ATTEMPT * seconds),
        "connect_timeout": _CONNECT_TIMEOUT,
        "read_timeout": timedelta(seconds=seconds),
        **(options.get("client_options") or {}),
    }


def _is_server(option: str) -> bool:
    """Return whether an option is the URL of a server, also of one that gives credentials."""
    return option.endswith(("endpoint", "_uri", "_url", "_host", "_sts"))


def _region(named: Mapping[str, Any]) -> str:
    """Return the region of S3 that requests go to."""
    given = [named.get(name) for name in ("region", "default_region")]
    given += [os.environ.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION")]
    return str(next(filter(None, given), ""))


def _is_anonymous(scheme: str, named: Mapping[str, Any]) -> bool:
    """Return whether requests have no credentials."""
    given = named.get("skip_signature", os.environ.get(_ANONYMOUS_VARIABLES[scheme]))
    return str(given).lower() == "true"


def _aws_credentials(
    named: Mapping[str, Any],
) -> tuple[str, dict[str, Any], Callable[[], dict[str, Any]] | None]:
    """Describe the credentials of requests to S3, and return those that obstore does not find.

    obstore finds credentials of the environment and of the machine, but does not read the files of
    the AWS tools.

    Returns:
        The credentials in words, options, and a function that returns credentials that change.
    """
    profile = read_profile()
    more: dict[str, Any] = {}
    if "region" in profile and not _region(named):
        more["region"] = profile["region"]
    of_profile = f"of profile {profile_name()!r} of the AWS files"
    if _is_anonymous("s3", named):
        return "no credentials (skip_signature)", more, None
    if named.get("access_key_id"):
        return "the access key of storage_options", more, None
    for variable, what in _AWS_VARIABLES.items():
        if os.environ.get(variable):
            return f"the {what} of {variable}", more, None
    if login := login_of(profile):
        return f"{login} {of_profile}", more, profile_provider(login)
    if keys := keys_of(profile):
        return f"the access key {of_profile}", {**more, **keys}, None
    return _EVERYTHING_OF_AWS, more, None


def _tried(scheme: str, named: Mapping[str, Any], tool: str) -> str:
    """Describe the credentials of requests to GCS and Azure, all of which obstore finds."""
    if _is_anonymous(scheme, named):
        return "no credentials (skip_signature)"
    given = "storage_options, " if named else ""
    return f"{given}the environment, the files of {tool}'s tools, and the role of the machine"
