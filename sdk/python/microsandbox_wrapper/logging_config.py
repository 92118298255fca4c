"""Logs on stderr, and in a file that is rotated, as MSB_LOG_* say."""

import json
import logging
import logging.handlers
import os
import sys

ROOT = "microsandbox_wrapper"


class _Structured(logging.Formatter):
    def format(self, record):
        entry = {"time": self.formatTime(record), "level": record.levelname.lower(),
                 "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _wants(key):
    return os.environ.get(key, "true").lower() in ("true", "1", "yes", "on", "enabled")


def setup_logging(level=None, log_file=None):
    """Makes the loggers of this package write. What is not given is taken from the environment."""
    root = logging.getLogger(ROOT)
    root.setLevel((level or os.environ.get("MSB_LOG_LEVEL") or "INFO").upper())
    root.propagate = False
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    path = log_file or os.environ.get("MSB_LOG_FILE")
    handlers = [logging.StreamHandler(sys.stderr)] if _wants("MSB_LOG_CONSOLE") else []
    if path:
        handlers.append(logging.handlers.RotatingFileHandler(
            path, maxBytes=int(os.environ.get("MSB_LOG_MAX_SIZE") or 10485760),
            backupCount=int(os.environ.get("MSB_LOG_BACKUP_COUNT") or 5)))
    for handler in handlers:
        handler.setFormatter(_Structured() if _wants("MSB_LOG_STRUCTURED")
                             else logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        root.addHandler(handler)
    return root


def get_logger(name=None):
    return logging.getLogger(f"{ROOT}.{name}" if name else ROOT)
