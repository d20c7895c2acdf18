"""Files of the AWS tools, which obstore does not read."""

from __future__ import annotations

import configparser
import functools
import importlib
import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

NOT_RENEWED = "the credentials of the AWS profile could not be renewed"
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
# botocore renews credentials 10 minutes before they end, or earlier.
_VALID = timedelta(minutes=9)


def profile_name() -> str:
    """Return the name of the profile that is used."""
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def read_config() -> dict[str, str]:
    """Return the options of the profile in the configuration file; empty if there are none."""
    return _profile("AWS_CONFIG_FILE", "config")


def read_credentials() -> dict[str, str]:
    """Return the options of the profile in the credentials file; empty if there are none."""
    return _profile("AWS_SHARED_CREDENTIALS_FILE", "credentials")


def profile_keys() -> dict[str, str]:
    """Return the keys that the profile has in the files; empty if it has none."""
    for options in (read_credentials(), read_config()):
        if "aws_access_key_id" in options:
            return {name: options[name] for name in _KEYS if name in options}
    return {}


def login_of_profile() -> str:
    """Return how the profile gets its credentials; ``""`` if it has keys, or nothing at all.

    The order is that of the AWS tools.
    """
    credentials, config = read_credentials(), read_config()
    both = {**config, **credentials}
    if "role_arn" in both:
        return "a role (role_arn)"
    if "sso_session" in both or "sso_start_url" in both:
        return "SSO"
    is_by_process = "credential_process" in both and "aws_access_key_id" not in credentials
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


def _profile(variable: str, name: str) -> dict[str, str]:
    path = os.environ.get(variable) or os.path.join(os.path.expanduser("~"), ".aws", name)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return {}
    parser = _parse(path, status.st_mtime_ns, status.st_size)
    profile = profile_name()
    for section in (profile, f"profile {profile}"):
        if parser.has_section(section):
            return dict(parser.items(section))
    return {}


@functools.lru_cache(maxsize=8)
def _parse(path: str, _mtime_ns: int, _size: int) -> configparser.RawConfigParser:
    """Return the content of a file, which is read once while it stays the same."""
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, "utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return configparser.RawConfigParser()
    return parser
