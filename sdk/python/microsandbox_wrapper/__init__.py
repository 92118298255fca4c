"""Sessions of an msb server: code and commands in one call, without caring for sandboxes."""

from . import exceptions
from .config import WrapperConfig
from .exceptions import (
    CodeExecutionError,
    CommandExecutionError,
    ConfigurationError,
    ConnectionError,
    MicrosandboxWrapperError,
    ResourceLimitError,
    SandboxCreationError,
    SessionNotFoundError,
)
from .logging_config import get_logger, setup_logging
from .models import (
    CommandResult,
    ExecutionResult,
    ResourceStats,
    SandboxFlavor,
    SessionInfo,
    SessionStatus,
    VolumeMapping,
)
from .tools import SessionTools, create_sandbox_tools
from .wrapper import MicrosandboxWrapper

__all__ = [
    "CodeExecutionError",
    "CommandExecutionError",
    "CommandResult",
    "ConfigurationError",
    "ConnectionError",
    "ExecutionResult",
    "MicrosandboxWrapper",
    "MicrosandboxWrapperError",
    "ResourceLimitError",
    "ResourceStats",
    "SandboxCreationError",
    "SandboxFlavor",
    "SessionInfo",
    "SessionNotFoundError",
    "SessionStatus",
    "SessionTools",
    "VolumeMapping",
    "WrapperConfig",
    "create_sandbox_tools",
    "exceptions",
    "get_logger",
    "setup_logging",
]
