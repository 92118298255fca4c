"""Bundles for crun and runsc: what their spec commands write, in the root of our image."""
import json
import os
import subprocess
import tempfile

from contender import INSIDE, SCRATCH
from steps import Failed

PROFILE = "/usr/share/containers/seccomp.json"
# What podman leaves a container's root.
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE",
                "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"]


def applies(rule):
    """Whether a rule of the profile is for this processor and podman's capabilities."""
    wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
    return (set(wanted.get("caps", [])) <= set(CAPABILITIES) and
            not set(unwanted.get("caps", [])) & set(CAPABILITIES) and
            "amd64" in wanted.get("arches", ["amd64"]))


def podman_filter():
    with open(PROFILE) as file:
        profile = json.load(file)
    rules = []
    for rule in filter(applies, profile["syscalls"]):
        kept = {"names": rule["names"], "action": rule["action"], "args": rule.get("args") or []}
        if rule.get("errnoRet"):
            kept["errnoRet"] = rule["errnoRet"]
        rules.append(kept)
    return {"defaultAction": profile["defaultAction"], "defaultErrnoRet": profile["defaultErrnoRet"],
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"], "syscalls": rules}


def binds():
    return [{"destination": "/media", "source": INSIDE, "type": "bind", "options": ["bind", "ro"]},
            {"destination": "/srv", "source": SCRATCH, "type": "bind", "options": ["bind", "rw"]}]


class Bundles:
    """Folders with a config.json, one for each command, below /run of the step's own mounts."""

    def __init__(self, program, root, like_podman=False):
        self.program, self.root, self.like_podman = program, root, like_podman
        self.folders = {}
        self.spec = None

    def spec_of_program(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([self.program, "spec"], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise Failed(done.stderr)
            with open(os.path.join(folder, "config.json")) as file:
                return json.load(file)

    def config(self, args, folders):
        self.spec = self.spec or self.spec_of_program()
        config = json.loads(json.dumps(self.spec))
        config["root"] = {"path": self.root, "readonly": True}
        config["process"].update(args=list(args), terminal=False, cwd="/")
        if self.like_podman:
            kinds = ("bounding", "effective", "permitted")
            config["process"]["capabilities"] = {kind: CAPABILITIES for kind in kinds}
            config["linux"]["seccomp"] = podman_filter()
        if folders:
            config["mounts"] += binds()
        return config

    def folder(self, args, folders=False):
        key = (os.getpid(), tuple(args), folders)
        if key not in self.folders:
            self.folders[key] = tempfile.mkdtemp(dir="/run")
            with open(os.path.join(self.folders[key], "config.json"), "w") as file:
                json.dump(self.config(args, folders), file)
        return self.folders[key]
