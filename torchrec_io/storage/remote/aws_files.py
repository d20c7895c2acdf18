"""Files of the AWS tools, which obstore does not read."""

from __future__ import annotations

import configparser
import functools
import os


def profile_name() -> str:
    """Return the name of the profile that is used."""
    return os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"


def read_config() -> dict[str, str]:
    """Return the options of the profile in the configuration file; empty if there are none."""
    return _profile("AWS_CONFIG_FILE", "config")


def read_credentials() -> dict[str, str]:
    """Return the options of the profile in the credentials file; empty if there are none."""
    return _profile("AWS_SHARED_CREDENTIALS_FILE", "credentials")


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
