"""Peers of the jail engine for benchmarks: bubblewrap and crun, in the root of one of our images."""
import ctypes
import json
import os
import pickle
import subprocess
import tempfile

PROFILE = "/usr/share/containers/seccomp.json"
# What podman leaves a container's root.
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE",
                "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"]
CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 0x40000, 2

libc = ctypes.CDLL(None, use_errno=True)


def image_path(home, reference="microsandbox/python"):
    with open(os.path.join(home, "images/refs", reference + ".json")) as file:
        return os.path.join(home, "images/blobs", json.load(file)["digest"].replace(":", "-") + ".erofs")


def apart(image, work):
    """What work(ROOT) returns, in a process with mounts of its own: the image at ROOT, and no control groups of
    version 2 beside version 1, which crun does not want to see."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        if libc.unshare(CLONE_NEWNS) or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None):
            os._exit(1)
        libc.umount2(b"/sys/fs/cgroup/unified", MNT_DETACH)
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "rootfs")
            os.mkdir(root)
            subprocess.run(["mount", "-o", "loop,ro", image, root], check=True)
            with os.fdopen(theirs, "wb") as out:
                pickle.dump(work(root), out)
            subprocess.run(["umount", root], check=True)
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        result = pickle.load(answer)
    os.waitpid(pid, 0)
    return result


def applies(rule):
    """Whether a rule of the profile is for this processor and podman's capabilities."""
    wanted, unwanted = rule.get("includes") or {}, rule.get("excludes") or {}
    return (set(wanted.get("caps", [])) <= set(CAPABILITIES) and not set(unwanted.get("caps", [])) & set(CAPABILITIES) and
            ("amd64" in wanted.get("arches", ["amd64"])))


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


def bundle(root, args, like_podman=False):
    """A folder for `crun run --bundle`: what `crun spec` writes, or that with podman's capabilities and filter."""
    folder = tempfile.mkdtemp(dir=os.path.dirname(root))
    subprocess.run(["crun", "spec"], cwd=folder, check=True)
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        config = json.load(file)
    config["root"] = {"path": root, "readonly": True}
    config["process"].update(args=args, terminal=False, cwd="/")
    if like_podman:
        config["process"]["capabilities"] = {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")}
        config["linux"]["seccomp"] = podman_filter()
    with open(path, "w") as file:
        json.dump(config, file)
    return folder


def crun(folder, **options):
    return subprocess.run(["crun", "run", "--bundle", folder, "msb-bench-%d" % os.getpid()], check=True, **options)


def bubblewrap(root, args, **options):
    return subprocess.run(["bwrap", "--ro-bind", root, "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all",
                           *args], check=True, **options)
