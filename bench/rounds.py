"""All contenders in turn, round by round, and what came of it as one document."""
import datetime
import os
import subprocess
import sys
import time

import cold_qemu
import contender
import machine
import ours
import peers
import report
from measures import PANDAS, Samples
from steps import Failed, private_mounts, step

STEP_S = 300
DENSITY_S = 1200
MORE_ROUNDS_S = 600  # after that, one round of each part has to do

# rounds: how often everything is measured in turn, so that what else the host does hits all alike.
WHOLE = {"rounds": {"first": 4, "burst": 3, "again": 3, "pandas": 2, "inside": 2}, "runs": 25, "seconds": 6,
         "burst": 20, "pandas": 3, "idle": 20, "density": [100, 300], "port_mb": 100, "file_mb": 100, "slow": True}
QUICK = {"rounds": {}, "runs": 6, "seconds": 2, "burst": 5, "pandas": 1, "idle": 4, "density": [5, 10], "port_mb": 20,
         "file_mb": 20, "slow": False}


def say(text):
    print(text, file=sys.stderr, flush=True)


class Run:
    def __init__(self, settings, contenders, parts):
        self.settings, self.contenders, self.parts = settings, contenders, parts
        self.results = {part: {} for part in parts}
        self.reasons = {}
        self.mounts = None
        self.machine = machine.describe()
        self.deadline = time.monotonic() + MORE_ROUNDS_S

    # ---- what is measured of one contender in one round, in a step of its own ----

    def runs_of(self, one, runs):
        """Slow ones are measured less often."""
        if one.most is None:
            return runs
        return max(1, min(runs, one.most // self.settings["rounds"].get("first", 1))) if self.settings["slow"] else 1

    def first(self, one):
        return one.firsts(self.runs_of(one, self.settings["runs"]), self.settings["seconds"])

    def burst(self, one):
        return one.burst(self.settings["burst"])

    def again(self, one):
        return one.agains(self.settings["runs"], self.settings["seconds"])

    def pandas(self, one):
        return one.firsts(self.runs_of(one, self.settings["pandas"]), self.settings["seconds"], PANDAS)

    def memory(self, one):
        return one.weigh(min(one.idle_count, self.settings["idle"]))

    def inside(self, one):
        return one.inside()

    def ports(self, one):
        return one.ports(self.settings["port_mb"] * 1000000)

    def keeper(self, one):
        return one.keeper(self.settings["file_mb"] * 1000000)

    def requests(self, one):
        return one.requests(self.settings["runs"], 2 * self.settings["seconds"])

    def density(self, one):
        return one.density(self.settings["density"])

    # ---- all of them ----

    def prepare(self):
        say("preparing: image, template, programs that run inside")
        subprocess.run([ours.MSB, "prepare", "python"], check=True, stdout=sys.stderr,
                       env={**os.environ, "MSB_HOME": contender.HOME})
        contender.fill_inside()
        for one in self.contenders:
            reason = one.missing() or self.reason_to_skip(one)
            if reason:
                self.reasons[one.name] = reason
                say("%s: %s" % (one.title, reason))

    def reason_to_skip(self, one):
        try:
            if one.needs_mounts and self.mounts is None:
                self.mounts = private_mounts(cold_qemu.image_path(), peers.ROOTFS)
            one.prepare()
        except (Failed, OSError) as error:
            return "failed: %s" % error
        return None

    def is_due(self, one, part, number):
        """Slow ones have one round where the others have several, and little else in a quick run."""
        if part not in one.parts or one.name in self.reasons:
            return False
        if one.most is None or part == "first":
            return one.most is None or number < one.most
        return number == 0 and (self.settings["slow"] or part == "memory")

    def measure(self, part):
        rounds = self.settings["rounds"].get(part, 1)
        for number in range(rounds):
            if number and time.monotonic() > self.deadline:
                say("%s: no more rounds, the host is too slow" % report.PARTS[part])
                return
            say("%s, round %d of %d" % (report.PARTS[part], number + 1, rounds))
            for one in self.contenders:
                if self.is_due(one, part, number):
                    self.measure_one(part, one)

    def measure_one(self, part, one):
        began = time.monotonic()
        try:
            found = step(lambda: getattr(self, part)(one), DENSITY_S if part == "density" else STEP_S,
                         self.mounts if one.needs_mounts else None)
        except Failed as error:
            say("  %s: %s" % (one.title, error))
            found = error
        self.results[part][one.name] = merged(self.results[part].get(one.name), found)
        say("  %-55s %5.1f s" % (one.title, time.monotonic() - began))

    def document(self):
        return {
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": self.machine, "settings": self.settings,
            "contenders": [{"name": one.name, "title": one.title, "wall": one.wall, "ours": one.ours,
                            "version": machine.version_of(one.version), "reason": self.reasons.get(one.name)}
                           for one in self.contenders],
            "results": {part: {name: told(found) for name, found in by_name.items()}
                        for part, by_name in self.results.items()},
        }


# ---- results of several rounds as one -----------------------------------------------------------------


def merged(before, now):
    """Samples are gathered; of speeds the best counts, since a busy host can only make them worse."""
    if isinstance(now, Failed):
        if isinstance(before, Samples):
            before.failures.append(str(now))
        return before or now
    if before is None or isinstance(before, Failed):
        return now
    if isinstance(now, Samples):
        before.add(now)
        return before
    return better(before, now, min)


def better(before, now, choose):
    if isinstance(now, dict):
        return {key: better(before[key], value, max if key == "files" else choose) for key, value in now.items()}
    return choose(before, now)


def told(found):
    if isinstance(found, Failed):
        return {"failed": str(found)}
    if isinstance(found, Samples):
        return found.summary()
    if isinstance(found, dict):
        return {key: told(value) for key, value in found.items()}
    return found
