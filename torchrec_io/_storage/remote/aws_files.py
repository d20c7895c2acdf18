"""Files of the AWS tools, which obstore does not read."""

from __future__ import annotations

import configparser
import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

NOT_RENEWED = "the credentials of the AWS profile could not be renewed"
# The second counts where both have an option.
_FILES = (("AWS_CONFIG_FILE", "config"), ("AWS_SHARED_CREDENTIALS_FILE", "credentials"))
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
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


def login_of(profile: Mapping[str, str]) -> str:
    """Return the way a profile gets credentials, in words; ``""`` if it has keys or no way."""
    if "role_arn" in profile:
        return "a role (role_arn)"
    if "sso_session" in profile or "sso_start_url" in profile:
        return "SSO"
    is_by_process = "credential_process" in profile and not keys_of(profile)
    return "credential_process" if is_by_process else ""


def profile_provider(login: str) -> Callable[[], dict[str, Any]]:
    """Return a function for obstore that returns the present credentials of the profile.

    Args:
        login: How the profile gets its credentials, in words.

    Raises:
        ImportError: If botocore is not installed, which is needed for that.
        ValueError: If there are no credentials.
    """
    profile = profile_name()
    try:
        sessions: Any = importlib.import_module("botocore.session")
    except ImportError as error:
        raise ImportError(
            f"profile {profile!r} of the AWS files uses {login}, which needs the package botocore: "
            "pip install botocore"
        ) from error

    try:
        credentials = sessions.Session(profile=profile).get_credentials()
        credentials.get_frozen_credentials()
    except Exception as error:  # noqa: BLE001  # it has many of its own
        # The text may have the output of a program.
        raise ValueError(
            f"botocore found no credentials for profile {profile!r}, which uses {login} "
            f"({type(error).__name__}); sign in again, for example by aws sso login"
        ) from None

    def provide() -> dict[str, Any]:
        try:
            key, secret, token = credentials.get_frozen_credentials()[:3]  # renews them
        except Exception as error:  # noqa: BLE001  # as above
            raise RuntimeError(f"{NOT_RENEWED} ({type(error).__name__})") from None
        expires = datetime.now(timezone.utc) + _VALID
        return {
            "access_key_id": key,
            "secret_access_key": secret,
            "token": token,
            "expires_at": expires,
        }

    return provide


@functools.lru_cache(maxsize=8)
def _parse(path: str, _mtime_ns: int, _size: int) -> configparser.RawConfigParser:
    """Return the content of a file, which is read once while it stays the same."""
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        parser.read(path, "utf-8")
    return parser
