"""One family of errors. Codes, categories, severities and suggestions come from the server."""

import re


class MicrosandboxWrapperError(Exception):
    category = "system"
    severity = "medium"

    def __init__(self, message, context=None, recovery_suggestions=None, original_error=None,
                 category=None, severity=None):
        super().__init__(message)
        self.message = message
        self.context = context or {}
        self.recovery_suggestions = list(recovery_suggestions or [])
        self.original_error = original_error
        self.category = category or self.category
        self.severity = severity or self.severity

    @property
    def error_code(self):
        return re.sub("(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).upper()

    def to_dict(self):
        return {
            "error_code": self.error_code,
            "message": self.message,
            "category": self.category,
            "severity": self.severity,
            "recovery_suggestions": self.recovery_suggestions,
            "context": self.context,
            "original_error": str(self.original_error) if self.original_error else None,
        }

    def get_user_friendly_message(self):
        """The message, and below it what to do, numbered."""
        if not self.recovery_suggestions:
            return self.message
        steps = [f"  {i}. {text}" for i, text in enumerate(self.recovery_suggestions, 1)]
        return "\n".join([self.message, "", "Suggested actions:", *steps])


class SandboxCreationError(MicrosandboxWrapperError):
    category = "resource"
    severity = "high"


class CodeExecutionError(MicrosandboxWrapperError):
    category = "execution"


class CommandExecutionError(MicrosandboxWrapperError):
    category = "execution"


class ResourceLimitError(MicrosandboxWrapperError):
    category = "resource"
    severity = "high"


class SessionNotFoundError(MicrosandboxWrapperError):
    category = "session"
    severity = "low"


class ConfigurationError(MicrosandboxWrapperError):
    category = "configuration"
    severity = "high"


class ConnectionError(MicrosandboxWrapperError):  # noqa: A001 - the name that users know
    category = "network"
    severity = "high"


CLASSES = {
    "SANDBOX_CREATION_ERROR": SandboxCreationError,
    "CODE_EXECUTION_ERROR": CodeExecutionError,
    "COMMAND_EXECUTION_ERROR": CommandExecutionError,
    "RESOURCE_LIMIT_ERROR": ResourceLimitError,
    "SESSION_NOT_FOUND_ERROR": SessionNotFoundError,
    "CONFIGURATION_ERROR": ConfigurationError,
    "CONNECTION_ERROR": ConnectionError,
}


def from_server(error):
    """The error that a SandboxError stands for."""
    data = error.data
    kind = CLASSES.get(data.get("error_code"), MicrosandboxWrapperError)
    suggestions = data.get("recovery_suggestions") or ([error.hint] if error.hint else [])
    return kind(str(error), data.get("context"), suggestions, error, data.get("category"),
                data.get("severity"))
