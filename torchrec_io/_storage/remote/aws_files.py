"""Files of the AWS tools, which obstore does not read."""

from __future__ import annotations

import configparser
import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

# The second counts where both have an option.
_FILES = (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials"))
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_LOGINS = ("role_arn", "sso_session", "sso_start_url")
# botocore renews credentials 10 minutes before they end, or earlier.
_VALID = timedelta(minutes=9)


def profile_name() -> str:
    """Return the name of the profile that is used."""
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def read_profile() -> dict[str, str]:
    """Return the options of the profile in both files; empty if there are none."""
    profile = profile_name()
    options: dict[str, str] = {}
    for variable, name in _FILES:
        path = os.environ.get(variable) or os.path.join(os.path.expanduser("~"), ".aws", name)
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(path)
            parser = _parse(path, status.st_mtime_ns, status.st_size)
            for section in (profile, f"profile {profile}"):
                if parser.has_section(section):
                    options |= parser.items(section)
    return options


def keys_of(profile: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that a profile has; empty if it has none."""
    return {name: profile[name] for name in _KEYS if name in profile}


def has_login(profile: Mapping[str, str]) -> bool:
    """Return whether a profile gets credentials from SSO, a role, or a program."""
    is_by_process = "credential_process" in profile and not keys_of(profile)
    return is_by_process or any(name in profile for name in _LOGINS)


def profile_provider() -> Callable[[], dict[str, Any]]:
    """Return a function for obstore that returns the present credentials of the profile.

    Raises:
        ImportError: If botocore is not installed, which is needed for that.
    """
    profile = profile_name()
    try:
        sessions: Any = importlib.import_module("botocore.session")
    except ImportError as error:
        raise ImportError(
            f"profile {profile!r} of the AWS files uses SSO, a role or a program, which needs the "
            "package botocore: pip install botocore"
        ) from error

    @functools.cache
    def credentials() -> Any:
        return sessions.Session(profile=profile).get_credentials()

    def provide() -> dict[str, Any]:
        key, secret, token = credentials().get_frozen_credentials()[:3]  # renews them
        expires = datetime.now(UTC) + _VALID
        return {
            "access_key_id": key, "secret_access_key": secret, "token": token,
            "expires_at": expires,
        }  # fmt: skip

    return provide


@functools.lru_cache(maxsize=8)
def _parse(path: str, _mtime_ns: int, _size: int) -> configparser.RawConfigParser:
    """Return the content of a file, which is read once while it stays the same."""
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        parser.read(path, "utf-8")
    return parser
