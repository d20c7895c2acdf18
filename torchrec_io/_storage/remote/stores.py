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
from .aws_files import has_login, keys_of, profile_name, profile_provider, read_profile
from .endpoints import account_of, endpoint_of, with_endpoint
from .option_names import bare_name
from .redirects import has_secret_headers, host_of, hosts_of, only_hosts
from .urls import is_web_url

# An attempt may take this many times as long in all as it may be without progress.
_WHOLE_ATTEMPT = 10
_CONNECT_TIMEOUT = timedelta(seconds=10)
_AWS_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "access key", "AWS_WEB_IDENTITY_TOKEN_FILE": "web identity",
}  # fmt: skip
# Credentials that obstore finds, in words.
_TRIED = {
    "s3": "AWS_ACCESS_KEY_ID, the AWS files, and the role of the container or machine; for public "
    "data pass storage_options={'skip_signature': True}",
    "gs": "storage_options, the environment, the files of Google's tools, and the role of the "
    "machine",
    "az": "storage_options, the environment, the files of Azure's tools, and the role of the "
    "machine",
}
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
    if is_web_url(root):
        if config:
            raise ValueError(f"storage_options of HTTP has no {', '.join(sorted(config))}")
        url, headers = _without_user(root)
        given = _client_options(options, url)
        given["default_headers"] = {**headers, **given.get("default_headers", {})}
        if urlsplit(url).query or has_secret_headers(given["default_headers"]):
            given |= only_hosts([host_of(url)], given)
        tried = "the user of the URL" if headers else "the URL and the headers as they were given"
        return stores.HTTPStore(url, client_options=given, retry_config=retries), tried
    scheme, _, name = root.partition("://")
    named = {bare_name(option): value for option, value in config.items()}
    server, place = endpoint_of(scheme, config), account_of(config)
    given = _client_options(options, server)
    keywords: dict[str, Any] = {"client_options": given, "retry_config": retries}
    is_anonymous = _is_anonymous(scheme, named)
    tried = "no credentials (skip_signature)" if is_anonymous else _TRIED[scheme]
    if scheme == "s3":
        profile = read_profile()
        place = _region(named) or profile.get("region", "us-east-1")
        config |= {} if _region(named) else {"region": place}
        if not is_anonymous:
            tried, keys, keywords["credential_provider"] = _aws_credentials(named, profile)
            config |= keys
    # Credentials of Google are all in a header that no other host gets.
    has_secrets = scheme != "gs" and not is_anonymous
    if has_secrets or has_secret_headers(given.get("default_headers", {})):
        servers = [host_of(str(value)) for option, value in named.items() if _is_server(option)]
        given |= only_hosts([*hosts_of(scheme, name, place, server), *servers], given)
    make = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[scheme]
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
    named: Mapping[str, Any], profile: Mapping[str, str]
) -> tuple[str, dict[str, str], Callable[[], dict[str, Any]] | None]:
    """Return the credentials of requests to S3 that are in the AWS files.

    obstore finds credentials of the environment and of the machine, but does not read these files.

    Returns:
        The credentials in words, keys, and a function that returns credentials that change.
    """
    if named.get("access_key_id"):
        return "the access key of storage_options", {}, None
    for variable, what in _AWS_VARIABLES.items():
        if os.environ.get(variable):
            return f"the {what} of {variable}", {}, None
    of_profile = f"of profile {profile_name()!r} of the AWS files"
    if has_login(profile):
        return f"the login {of_profile}", {}, profile_provider()
    keys = keys_of(profile)
    return f"the access key {of_profile}" if keys else _TRIED["s3"], keys, None
