"""Stores of obstore, and the credentials that they use. Runs in the helper process alone."""

from __future__ import annotations

import base64
import importlib
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

from .attempts import OWN_OPTIONS, most_attempts, seconds_to_wait
from .aws_files import (
    login_of_profile,
    profile_keys,
    profile_name,
    profile_provider,
    read_config,
)
from .endpoints import account_of, endpoint_of, with_endpoint
from .options import bare_name
from .redirects import aws_hosts, azure_hosts, google_hosts, has_secret_headers, host_of, only_hosts
from .urls import is_web_url, scheme_of

# An attempt may take this many times as long in all as it may be without progress.
_WHOLE_ATTEMPT = 10
_CONNECT_TIMEOUT = timedelta(seconds=10)
_GOOGLE_VARIABLES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS")
_EVERYTHING_OF_AWS = (
    "AWS_ACCESS_KEY_ID, the AWS files, and the role of the container or machine; for public "
    "data pass storage_options={'skip_signature': True}"
)
_ANONYMOUS_VARIABLES = {
    "s3": "AWS_SKIP_SIGNATURE", "gs": "GOOGLE_SKIP_SIGNATURE", "az": "AZURE_SKIP_SIGNATURE",
}  # fmt: skip
_AZURE_VARIABLES = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN")
# The helper tries again itself: it resumes inside a range, and counts the attempts.
_NO_RETRIES: Mapping[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
# An upload is not answered before all of it was sent, so it needs more time without an answer.
_LONGER_TO_SEND = 10
_RETRY_TIMEOUT = timedelta(minutes=10)
_PAUSES = {
    "init_backoff": timedelta(seconds=0.1),
    "max_backoff": timedelta(seconds=15),
    "base": 2.0,
}


class Store(NamedTuple):
    """A store of obstore and its credentials.

    Attributes:
        client: The store of obstore.
        tried: Credentials that requests have, in words.
        is_web: True for an HTTP server.
    """

    client: Any
    tried: str
    is_web: bool = False


def make_writable(root: str, options: Mapping[str, Any]) -> Any:
    """Return a store of obstore that tries again itself, for objects that are sent in parts."""
    seconds = _LONGER_TO_SEND * seconds_to_wait(options)
    retries = {
        "max_retries": most_attempts(options) - 1,
        "retry_timeout": _RETRY_TIMEOUT,
        "backoff": _PAUSES,
    }
    return make_store(root, {**options, "timeout": seconds}, retries).client


def make_store(
    root: str, options: Mapping[str, Any], retries: Mapping[str, Any] = _NO_RETRIES
) -> Store:
    """Return a store.

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
    given = _client_options(options)
    if is_web_url(root):
        if config:
            raise ValueError(f"storage_options of HTTP has no {', '.join(sorted(config))}")
        url, headers = _without_user(root)
        given["default_headers"] = {**headers, **given.get("default_headers", {})}
        if urlsplit(url).query or has_secret_headers(given["default_headers"]):
            given |= only_hosts([host_of(url)], given)
        tried = "the user of the URL" if headers else "the URL and the headers as they were given"
        return Store(stores.HTTPStore(url, **_common(root, given, retries)), tried, is_web=True)
    name = root.partition("://")[2]
    scheme = scheme_of(root)
    server = endpoint_of(scheme, config)
    has_headers = has_secret_headers(given.get("default_headers", {}))
    named = [host_of(str(value)) for option, value in config.items() if _is_server(option)]
    if scheme == "s3":
        tried, more, provider = _aws_credentials(config)
        config = with_endpoint(scheme, {**more, **config}, server)
        if has_headers or not _is_anonymous(scheme, config):
            given |= only_hosts([*aws_hosts(name, _region(config), server), *named], given)
        common = _common(server, given, retries)
        client = stores.S3Store(name, config=config, credential_provider=provider, **common)
        return Store(client, tried)
    make, tool, variables = {
        "gs": (stores.GCSStore, "Google", _GOOGLE_VARIABLES),
        "az": (stores.AzureStore, "Azure", _AZURE_VARIABLES),
    }[scheme]
    if scheme == "gs" and has_headers:
        given |= only_hosts([*google_hosts(server), *named], given)
    if scheme == "az" and (has_headers or not _is_anonymous(scheme, config)):
        given |= only_hosts([*azure_hosts(account_of(config), server), *named], given)
    tried = _tried(scheme, config, tool, variables)
    config = with_endpoint(scheme, config, server)
    return Store(make(name, config=config, **_common(server, given, retries)), tried)


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without its user and password, and the header that stands for them."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if not user:
        return url, {}
    encoded = base64.b64encode(unquote_to_bytes(user)).decode("ascii")
    return urlunsplit(parts._replace(netloc=host)), {"authorization": f"Basic {encoded}"}


def _client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of HTTP that all stores have."""
    seconds = seconds_to_wait(options)
    return {
        "timeout": timedelta(seconds=_WHOLE_ATTEMPT * seconds),
        "connect_timeout": _CONNECT_TIMEOUT,
        "read_timeout": timedelta(seconds=seconds),
        **(options.get("client_options") or {}),
    }


def _common(
    server: str, client_options: Mapping[str, Any], retries: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that all stores have; ``server`` is the URL of the server, if given."""
    plain = {"allow_http": True} if server.startswith("http://") else {}
    return {"client_options": {**plain, **client_options}, "retry_config": retries}


def _is_server(option: str) -> bool:
    """Return whether an option is the URL of a server, also of one that gives credentials."""
    return bare_name(option).endswith(("endpoint", "_uri", "_url", "_host", "_sts"))


def _option(config: Mapping[str, Any], name: str) -> Any:
    """Return an option of S3 under any of its names."""
    names = {name, f"aws_{name}"}
    return next((value for key, value in config.items() if key.lower() in names), None)


def _region(config: Mapping[str, Any]) -> str:
    """Return the region of S3 that requests go to."""
    given = _option(config, "region") or _option(config, "default_region")
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    return str(given or next(filter(None, map(os.environ.get, names)), "us-east-1"))


def _is_anonymous(scheme: str, config: Mapping[str, Any]) -> bool:
    """Return whether requests have no credentials."""
    given = (value for name, value in config.items() if bare_name(name) == "skip_signature")
    return str(next(given, os.environ.get(_ANONYMOUS_VARIABLES[scheme]))).lower() == "true"


def _aws_credentials(
    config: Mapping[str, Any],
) -> tuple[str, dict[str, Any], Callable[[], dict[str, Any]] | None]:
    """Return which credentials requests to S3 have, and what obstore does not find.

    obstore finds those of the environment and of the machine, but does not read the files of the
    AWS tools.

    Returns:
        The credentials in words, options, and a function that returns credentials that change.
    """
    more: dict[str, Any] = {}
    variables = ("AWS_REGION", "AWS_DEFAULT_REGION")
    if not _option(config, "region") and not any(map(os.environ.get, variables)):
        more = {name: value for name, value in read_config().items() if name == "region"}
    known = _known_credentials(config)
    if known:
        return known, more, None
    if login := login_of_profile():
        tried = f"{login} of profile {profile_name()!r} of the AWS files"
        return tried, more, profile_provider(login)
    if keys := profile_keys():
        tried = f"the access key of profile {profile_name()!r} of the AWS files"
        return tried, {**more, **keys}, None
    return _EVERYTHING_OF_AWS, more, None


def _known_credentials(config: Mapping[str, Any]) -> str:
    """Return which credentials obstore finds in options and the environment; ``""`` if none."""
    if _is_anonymous("s3", config):
        return "no credentials (skip_signature)"
    if _option(config, "access_key_id"):
        return "the access key of storage_options"
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return "the access key of AWS_ACCESS_KEY_ID"
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return "the web identity of AWS_WEB_IDENTITY_TOKEN_FILE"
    return ""


def _tried(scheme: str, config: Mapping[str, Any], tool: str, variables: tuple[str, ...]) -> str:
    if _is_anonymous(scheme, config):
        return "no credentials (skip_signature)"
    if config:
        return "storage_options and the environment"
    found = next((name for name in variables if os.environ.get(name)), None)
    if found is not None:
        return f"the credentials of {found}"
    return f"the environment, the files of {tool}'s tools, and the role of the machine"
