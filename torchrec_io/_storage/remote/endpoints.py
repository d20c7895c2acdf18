"""Servers of object stores, as options, the environment and files name them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .aws_files import read_profile
from .option_names import bare_name

# In the order in which they count, without the prefix of the store.
_ENDPOINT_OPTIONS = {
    "s3": ("endpoint_url_s3", "endpoint_url", "endpoint"),
    "gs": ("base_url",),
    "az": ("endpoint",),
}
_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_EMULATOR = "http://127.0.0.1:10000"


def endpoint_of(scheme: str, options: Mapping[str, Any]) -> str:
    """Return the URL of the server of a store; ``""`` for that of its provider.

    Args:
        scheme: Scheme of the store's URL.
        options: The user's ``storage_options``.

    Raises:
        ValueError: If it is not a URL of HTTP.
    """
    named = {bare_name(name): str(value) for name, value in options.items()}
    if scheme == "az" and _is_emulated(named):
        return os.environ.get("AZURITE_BLOB_STORAGE_URL") or _EMULATOR
    given = [named.get(name) for name in _ENDPOINT_OPTIONS.get(scheme, ())]
    given += [os.environ.get(name) for name in _ENDPOINT_VARIABLES.get(scheme, ())]
    endpoint = next(filter(None, given), "")
    if not endpoint and scheme == "s3":
        endpoint = read_profile().get("endpoint_url", "")
    if endpoint and re.match(r"https?://[^/\s]+", endpoint, re.IGNORECASE) is None:
        raise ValueError("the endpoint of a store must be a URL, such as https://host:9000")
    return endpoint


def with_endpoint(scheme: str, options: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
    """Return options of obstore that name one server, so that it looks for no other one."""
    first, *_ = names = _ENDPOINT_OPTIONS[scheme]
    rest = {name: value for name, value in options.items() if bare_name(name) not in names}
    return {**rest, f"aws_{first}" if scheme == "s3" else first: endpoint} if endpoint else rest


def account_of(options: Mapping[str, Any]) -> str:
    """Return the account of Azure; ``""`` if it is not known."""
    given = (value for name, value in options.items() if bare_name(name) == "account_name")
    return str(next(given, "") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""))


def place_of(scheme: str, options: Mapping[str, Any]) -> str:
    """Return text that is equal for options that lead to the same server and account."""
    account = account_of(options) if scheme == "az" else ""
    return repr((endpoint_of(scheme, options).rpartition("@")[2], account))


def _is_emulated(named: Mapping[str, str]) -> bool:
    given = named.get("use_emulator") or os.environ.get("AZURE_STORAGE_USE_EMULATOR") or ""
    return given.lower() in {"true", "1", "yes", "on", "y", "t"}
