"""The stores that URLs belong to."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from .options import RemoteOptions
from .urls import OBJECT_STORES, ObjectName, is_web_url, scheme_of, split_url

# Paths that obstore sends as they are. It would encode the percent signs of others again.
_PLAIN_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9_~!$&'()*+,;=:@.-]+)+", re.ASCII)


def store_of(url: str, options: RemoteOptions) -> ObjectName:
    """Return the store, with its secrets, and the key of a public URL.

    The objects of a server share a store, and so its connections, where that is possible. Any other
    URL of HTTP is a store with one object, which has no name.
    """
    address = options.address(url)
    if scheme_of(url) not in OBJECT_STORES:  # a filesystem takes whole URLs
        return ObjectName(split_url(url).root, url)
    if not is_web_url(url):
        return split_url(address)
    path = urlsplit(address).path
    if address == url and _PLAIN_PATH.fullmatch(path):
        return split_url(address)
    return ObjectName(address, "")
