"""Stores of obstore, and the credentials that they use. Runs in the helper process alone."""

from __future__ import annotations

import base64
import configparser
import importlib
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

from ...checks import check_integer
from .redirects import aws_hosts, azure_hosts, google_hosts, has_secret_headers, host_of, only_hosts
from .urls import is_web_url, scheme_of

# Options of storage_options that are this package's own. The others are obstore's.
OWN_OPTIONS = frozenset({"max_attempts", "timeout", "client_options"})
# One attempt may take this long in all; an attempt without progress ends much earlier.
_WHOLE_ATTEMPT = timedelta(minutes=15)
_CONNECT_TIMEOUT = timedelta(seconds=10)
_DEFAULT_ATTEMPTS, _DEFAULT_TIMEOUT = 10, 30.0
# Options that are the URL of a server.
_SERVER = re.compile(r"endpoint(_url)?$|base_url$")
_GOOGLE_VARIABLES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS")
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
    if scheme == "s3":
        tried, more = _aws_credentials(config)
        config = {**more, **config}
        server = _server(config) or os.environ.get("AWS_ENDPOINT_URL") or ""
        if not _is_anonymous(config) or has_secret_headers(given.get("default_headers", {})):
            given |= only_hosts(aws_hosts(name, _region(config), server), given)
        return Store(stores.S3Store(name, config=config, **_common(server, given, retries)), tried)
    make, tool, variables = {
        "gs": (stores.GCSStore, "Google", _GOOGLE_VARIABLES),
        "az": (stores.AzureStore, "Azure", _AZURE_VARIABLES),
    }[scheme]
    server = _server(config)
    has_headers = has_secret_headers(given.get("default_headers", {}))
    if scheme == "gs" and has_headers:
        given |= only_hosts(google_hosts(server), given)
    if scheme == "az" and (has_headers or not _is_anonymous(config)):
        given |= only_hosts(azure_hosts(_account(config), server), given)
    common = _common(server, given, retries)
    return Store(make(name, config=config, **common), _tried(config, tool, variables))


def _without_user(url: str) -> tuple[str, dict[str, str]]:
    """Return a URL without its user and password, and the header that stands for them."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    if not user:
        return url, {}
    encoded = base64.b64encode(unquote_to_bytes(user)).decode("ascii")
    return urlunsplit(parts._replace(netloc=host)), {"authorization": f"Basic {encoded}"}


def most_attempts(options: Mapping[str, Any]) -> int:
    """Return the largest number of attempts of a request.

    Raises:
        ValueError: If the option is not a positive integer.
    """
    return check_integer("max_attempts", options.get("max_attempts", _DEFAULT_ATTEMPTS), 1)


def seconds_to_wait(options: Mapping[str, Any]) -> float:
    """Return the time without progress after which an attempt ends.

    Raises:
        ValueError: If the option is not a positive number.
    """
    given = options.get("timeout", _DEFAULT_TIMEOUT)
    if not isinstance(given, (int, float)) or not given > 0:
        raise ValueError(f"timeout must be a positive number of seconds, got {given!r}")
    return float(given)


def _client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of HTTP that all stores have."""
    most_attempts(options)
    return {
        "timeout": _WHOLE_ATTEMPT,
        "connect_timeout": _CONNECT_TIMEOUT,
        "read_timeout": timedelta(seconds=seconds_to_wait(options)),
        **(options.get("client_options") or {}),
    }


def _common(
    server: str, client_options: Mapping[str, Any], retries: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments that all stores have; ``server`` is the URL of the server, if given."""
    plain = {"allow_http": True} if server.startswith("http://") else {}
    return {"client_options": {**plain, **client_options}, "retry_config": retries}


def _server(config: Mapping[str, Any]) -> str:
    """Return the URL of the server that options name; ``""`` if they name none."""
    return next((str(value) for name, value in config.items() if _SERVER.search(name.lower())), "")


def _option(config: Mapping[str, Any], name: str) -> Any:
    """Return an option of S3 under any of its names."""
    names = {name, f"aws_{name}"}
    return next((value for key, value in config.items() if key.lower() in names), None)


def _region(config: Mapping[str, Any]) -> str:
    """Return the region of S3 that requests go to."""
    given = _option(config, "region") or _option(config, "default_region")
    names = ("AWS_REGION", "AWS_DEFAULT_REGION")
    return str(given or next(filter(None, map(os.environ.get, names)), "us-east-1"))


def _account(config: Mapping[str, Any]) -> str:
    """Return the account of Azure; ``""`` if it is not known."""
    names = ("account_name", "azure_storage_account_name")
    given = next((value for key, value in config.items() if key.lower() in names), None)
    return str(given or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""))


def _is_anonymous(config: Mapping[str, Any]) -> bool:
    """Return whether requests have no credentials."""
    given = (value for key, value in config.items() if "skip_sig" in key.lower())
    return any(str(value).lower() == "true" for value in given)


def _aws_credentials(config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return which credentials requests to S3 have, and options that obstore does not find.

    obstore finds those of the environment and of the machine, but does not read the files of the
    AWS tools.
    """
    more: dict[str, Any] = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    if endpoint and not (_option(config, "endpoint") or _option(config, "endpoint_url")):
        more["endpoint"] = endpoint
    profile = os.environ.get("AWS_PROFILE", "default")
    has_endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL") or _option(config, "endpoint")
    for name, value in _profile("AWS_CONFIG_FILE", "config", profile).items():
        is_known = _option(config, name) or (name == "endpoint_url" and has_endpoint)
        if name in {"region", "endpoint_url"} and not is_known:
            more[name] = value
    if os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        more.pop("region", None)
    if str(_option(config, "skip_signature")).lower() == "true":
        return "no credentials (skip_signature)", more
    if _option(config, "access_key_id"):
        return "the access key of storage_options", more
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return "the access key of AWS_ACCESS_KEY_ID", more
    if os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return "the web identity of AWS_WEB_IDENTITY_TOKEN_FILE", more
    found = _profile("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile)
    if "aws_access_key_id" in found:
        names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        more.update({name: found[name] for name in names if name in found})
        return f"the access key of profile {profile!r} of the AWS files", more
    return (
        "AWS_ACCESS_KEY_ID, the AWS files, and the role of the container or machine; for public "
        "data pass storage_options={'skip_signature': True}"
    ), more


def _profile(variable: str, name: str, profile: str) -> dict[str, str]:
    """Return a profile of a file of the AWS tools; empty if there is none."""
    path = os.environ.get(variable) or os.path.join(os.path.expanduser("~"), ".aws", name)
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, "utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    for section in (profile, f"profile {profile}"):
        if parser.has_section(section):
            return dict(parser.items(section))
    return {}


def _tried(config: Mapping[str, Any], tool: str, variables: tuple[str, ...]) -> str:
    if _is_anonymous(config):
        return "no credentials (skip_signature)"
    if config:
        return "storage_options and the environment"
    found = next((name for name in variables if os.environ.get(name)), None)
    if found is not None:
        return f"the credentials of {found}"
    return f"the environment, the files of {tool}'s tools, and the role of the machine"
