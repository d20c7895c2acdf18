"""Redirects to other hosts, which must not get secrets. Runs in the helper process alone.

obstore follows all redirects. It leaves out the ``Authorization`` header at another host, but sends
all others, such as the token of a temporary AWS session, and the URL with its query as ``Referer``.
It has no option for that. But it has one for a proxy, and one for the hosts that need no proxy: so
the hosts that a store consists of are reached, and all others through a proxy that cannot exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

# Nobody can listen at port 0.
NOWHERE = "127.0.0.1:0"
# Headers that obstore does not send to another host.
_DROPPED = frozenset({"authorization", "cookie", "cookie2", "proxy-authorization"})
# Machines that give credentials to the programs that run on them.
METADATA_HOSTS = (
    "169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23",
    "metadata.google.internal", "metadata",
)  # fmt: skip
# Hosts of stores, and of logins to them. `{}` is the region of S3, or the account of Azure.
_STORES = {
    "s3": ("s3.{}.amazonaws.com", "s3.amazonaws.com"),
    "gs": ("storage.googleapis.com",),
    "az": ("{}.blob.core.windows.net", "{}.dfs.core.windows.net", "{}.fabric.microsoft.com"),
}
_LOGINS = {
    "s3": ("sts.{}.amazonaws.com", "sts.amazonaws.com"),
    "gs": ("googleapis.com", "accounts.google.com"),
    "az": ("login.microsoftonline.com",),
}
# Variables with the URL of a server that gives credentials.
_SERVER_VARIABLES = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL_STS", "AWS_METADATA_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AZURE_AUTHORITY_HOST", "AZURE_AUTHORITY_HOST_URL",
    "AZURE_STORAGE_AUTHORITY_HOST", "AZURE_IDENTITY_ENDPOINT", "AZURE_MSI_ENDPOINT",
    "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "GCE_METADATA_HOST",
)  # fmt: skip


def has_secret_headers(headers: Mapping[str, Any]) -> bool:
    """Return whether another host would get headers of the user."""
    return any(name.lower() not in _DROPPED for name in headers)


def only_hosts(hosts: Iterable[str], client_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of HTTP with which only some hosts, and hosts below them, are reached.

    Behind a proxy of the user there are none: obstore has one proxy for all hosts.
    """
    allowed = [*dict.fromkeys(host for host in hosts if host)]
    if client_options.get("proxy_url") or _has_proxy(allowed[0]):
        return {}
    return {"proxy_url": f"http://{NOWHERE}", "proxy_excludes": ",".join(allowed)}


def host_of(url: str) -> str:
    """Return the host of a URL, or of a host with a port."""
    return urlsplit(url if "//" in url else f"//{url}").hostname or ""


def hosts_of(scheme: str, name: str, place: str, endpoint: str) -> list[str]:
    """Return the hosts that requests to a store go to, with those that give credentials.

    Args:
        scheme: Scheme of the store's URL.
        name: Name of the store.
        place: Region of S3, or account of Azure; ``""`` if it is not known.
        endpoint: URL of the server; ``""`` for that of its provider.
    """
    known = [host_of(endpoint)] if endpoint else [*_STORES[scheme]]
    if name.endswith("--x-s3"):  # a directory bucket of a zone
        known.append(f"s3express-{name.split('--')[-2]}.{{}}.amazonaws.com")
    given = (host_of(os.environ.get(variable, "")) for variable in _SERVER_VARIABLES)
    hosts = [each.format(place).removeprefix(".") for each in (*known, *_LOGINS[scheme])]
    return [*hosts, *METADATA_HOSTS, *given]


def _has_proxy(host: str) -> bool:
    """Return whether the environment has a proxy for a host."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    if not any(os.environ.get(name) or os.environ.get(name.upper()) for name in names):
        return False
    from urllib.request import proxy_bypass  # noqa: PLC0415  # takes long to load

    return not proxy_bypass(host)
