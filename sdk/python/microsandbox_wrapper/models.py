"""What goes in and comes out."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Dict, List, Optional


class SandboxFlavor(Enum):
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"

    def get_memory_mb(self):
        return {"small": 1024, "medium": 2048, "large": 4096}[self.value]

    def get_cpus(self):
        return {"small": 1, "medium": 2, "large": 4}[self.value]


class SessionStatus(Enum):
    CREATING = "creating"
    READY = "ready"
    RUNNING = "running"
    PROCESSING = "processing"
    ERROR = "error"
    STOPPED = "stopped"


@dataclass
class ExecutionResult:
    session_id: str
    stdout: str
    stderr: str
    success: bool
    execution_time_ms: int
    session_created: bool
    template: str
    results: List[dict] = field(default_factory=list)


@dataclass
class CommandResult:
    session_id: str
    stdout: str
    stderr: str
    exit_code: int
    success: bool
    execution_time_ms: int
    session_created: bool
    command: str
    args: List[str]


@dataclass
class SessionInfo:
    session_id: str
    template: str
    flavor: SandboxFlavor
    created_at: datetime
    last_accessed: datetime
    status: SessionStatus
    namespace: str
    sandbox_name: str


@dataclass
class ResourceStats:
    active_sessions: int
    max_sessions: int
    sessions_by_flavor: Dict[SandboxFlavor, int]
    total_memory_mb: int
    total_cpus: float
    uptime_seconds: int


@dataclass
class VolumeMapping:
    host_path: str
    container_path: str

    @classmethod
    def from_string(cls, text):
        """"host:guest", split at the first colon."""
        host, colon, guest = text.partition(":")
        if not colon or not host or not guest:
            raise ValueError(f"{text!r} is no volume mapping; write host_path:container_path")
        return cls(host, guest)

    def __str__(self):
        return f"{self.host_path}:{self.container_path}"


def session_info(record):
    return SessionInfo(
        session_id=record["session_id"],
        template=record.get("template"),
        flavor=SandboxFlavor(record["flavor"]),
        created_at=datetime.fromisoformat(record["created_at"]),
        last_accessed=datetime.fromisoformat(record["last_accessed"]),
        status=SessionStatus(record["status"]),
        namespace=record["namespace"],
        sandbox_name=record["sandbox_name"])


def resource_stats(record, limit: Optional[int]):
    return ResourceStats(
        active_sessions=record["active_sessions"],
        max_sessions=limit or record["max_sessions"],
        sessions_by_flavor={SandboxFlavor(name): count
                            for name, count in record["sessions_by_flavor"].items()},
        total_memory_mb=record["total_memory_mb"],
        total_cpus=record["total_cpus"],
        uptime_seconds=record["uptime_seconds"])
