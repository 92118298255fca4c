"""How a wrapper's sessions are to be. What is set here travels with the calls."""

import json
import os
from dataclasses import dataclass, field
from typing import List, Optional

from .exceptions import ConfigurationError
from .models import SandboxFlavor, VolumeMapping

TRUE = ("true", "1", "yes", "on", "enabled")
FALSE = ("false", "0", "no", "off", "disabled")


def _refuse(key, value, advice):
    raise ConfigurationError(f"{key} is {value!r}", {"config_key": key, "config_value": str(value)},
                             [f"Set {key} to {advice}"])


def _text(key, default):
    return os.environ.get(key) or default


def _number(key, default, kind=int):
    value = os.environ.get(key)
    if not value:
        return default
    try:
        number = kind(value)
    except ValueError:
        _refuse(key, value, "a number, for example " + str(default or 8192))
    if number <= 0:
        _refuse(key, value, "a number above 0")
    return number


def _flag(key, default):
    value = os.environ.get(key, "").lower()
    if value and value not in TRUE + FALSE:
        _refuse(key, value, "true or false")
    return value in TRUE if value else default


def _flavor(key, default):
    value = _text(key, default.value)
    try:
        return SandboxFlavor(value.lower())
    except ValueError:
        _refuse(key, value, "small, medium or large")


def _volumes(key):
    value = os.environ.get(key, "").strip()
    if value[:1] in ("[", "{") or value[-1:] in ("]", "}"):
        try:
            found = json.loads(value)
        except ValueError:
            found = None
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            _refuse(key, value, 'a JSON array such as ["/data:/data"]')
    else:
        found = [one.strip() for one in value.split(",") if one.strip()]
    for one in found:
        try:
            VolumeMapping.from_string(one)
        except ValueError:
            _refuse(key, one, "host_path:container_path")
    return found


@dataclass
class WrapperConfig:
    server_url: Optional[str] = None
    api_key: Optional[str] = None
    session_timeout: int = 3600
    max_concurrent_sessions: int = 10
    cleanup_interval: int = 60
    default_flavor: SandboxFlavor = SandboxFlavor.SMALL
    sandbox_start_timeout: float = 180.0
    default_execution_timeout: int = 1800
    max_total_memory_mb: Optional[int] = None
    shared_volume_mappings: List[str] = field(default_factory=list)
    orphan_cleanup_interval: int = 600
    enable_lru_eviction: bool = True

    @classmethod
    def from_env(cls):
        config = cls(
            server_url=_text("MSB_SERVER_URL", "http://127.0.0.1:5555"),
            api_key=_text("MSB_API_KEY", None),
            session_timeout=_number("MSB_SESSION_TIMEOUT", 1800),
            max_concurrent_sessions=_number("MSB_MAX_SESSIONS", 10),
            cleanup_interval=_number("MSB_CLEANUP_INTERVAL", 60),
            default_flavor=_flavor("MSB_DEFAULT_FLAVOR", SandboxFlavor.SMALL),
            sandbox_start_timeout=_number("MSB_SANDBOX_START_TIMEOUT", 180.0, float),
            default_execution_timeout=_number("MSB_EXECUTION_TIMEOUT", 300),
            max_total_memory_mb=_number("MSB_MAX_TOTAL_MEMORY_MB", None),
            shared_volume_mappings=_volumes("MSB_SHARED_VOLUME_PATH"),
            orphan_cleanup_interval=_number("MSB_ORPHAN_CLEANUP_INTERVAL", 600),
            enable_lru_eviction=_flag("MSB_ENABLE_LRU_EVICTION", True))
        config.validate()
        return config

    def validate(self):
        if self.server_url and not self.server_url.startswith(("http://", "https://")):
            _refuse("MSB_SERVER_URL", self.server_url, "an address with http:// or https://")
        if self.session_timeout <= self.cleanup_interval:
            _refuse("MSB_SESSION_TIMEOUT", self.session_timeout,
                    f"more than the cleanup interval, {self.cleanup_interval} seconds")
        least = self.default_flavor.get_memory_mb()
        if self.max_total_memory_mb is not None and self.max_total_memory_mb < least:
            _refuse("MSB_MAX_TOTAL_MEMORY_MB", self.max_total_memory_mb,
                    f"at least the {least} MB of one {self.default_flavor.value} sandbox")

    def get_parsed_volume_mappings(self):
        return [VolumeMapping.from_string(text) for text in self.shared_volume_mappings]
