"""Names of the options of stores."""

from __future__ import annotations

from typing import Any

# Options that are no secrets; without the prefix of the store. All others are treated as secrets.
_PUBLIC = frozenset({
    "account_name", "allow_http", "anon", "base_url", "bucket", "default_region", "endpoint",
    "endpoint_url", "endpoint_url_s3", "max_attempts", "region", "request_payer", "skip_signature",
    "timeout", "use_emulator", "virtual_hosted_style_request",
})  # fmt: skip
_PREFIXES = ("aws_", "azure_storage_", "azure_", "google_")


def is_public(name: str, value: Any) -> bool:
    """Return whether an option is known to be no secret."""
    return bare_name(name) in _PUBLIC and "@" not in str(value)


def bare_name(name: str) -> str:
    """Return the name of an option without the prefix of the store."""
    bare = name.lower()
    for prefix in _PREFIXES:
        bare = bare.removeprefix(prefix)
    return bare
