"""Limits and metrics of the agent, tried on the real binary. Needs root for the namespaces."""
import json
import os
import re
import unittest

from agent_harness import ADOPT, EXEC, METRICS, Agent, default_binary

MIB = 1 << 20


def may_raise_limits():
    CAP_SYS_RESOURCE = 24
    with open("/proc/self/status") as status:
        effective = re.search(r"CapEff:\s*(\w+)", status.read())[1]
    return int(effective, 16) >> CAP_SYS_RESOURCE & 1


class LimitsTest(unittest.TestCase):
    def setUp(self):
        self.agent = Agent(default_binary())
        self.addCleanup(self.agent.stop)

    def adopt(self, **limits):
        end = self.agent.open(ADOPT, entropy=bytes(64), **limits).wait()
        self.assertNotIn("error_code", end)

    def sh(self, script, **fields):
        return self.agent.execute("sh", "-c", script, **fields)


class OutputLimit(LimitsTest):
    def test_output_is_cut_and_its_true_size_told(self):
        done = self.sh("head -c 1000000 /dev/zero", output_limit=1000)
        self.assertEqual(len(done.stdout), 1000)
        self.assertEqual(done.end["output_bytes"], 1000000)
        self.assertEqual((done.end["verdict"], done.end["exit_code"]), ("exited", 0))

    def test_both_channels_count_together(self):
        done = self.agent.open(EXEC, arg=["sh", "-c", "printf 12345; read line; printf abcdef >&2"],
                               output_limit=8)
        self.agent.pump_until(lambda: len(done.stdout) == 5)
        done.send(b"\n")
        done.wait()
        self.assertEqual((done.stdout, done.stderr), (b"12345", b"abc"))
        self.assertEqual(done.end["output_bytes"], 11)

    def test_output_that_just_fits_is_not_called_cut(self):
        done = self.sh("printf 12345", output_limit=5)
        self.assertEqual(done.stdout, b"12345")
        self.assertNotIn("output_bytes", done.end)

    def test_a_client_without_credit_does_not_hold_up_what_is_dropped(self):
        running = self.agent.open(EXEC, arg=["head", "-c", str(64 * MIB), "/dev/zero"],
                                  output_limit=1000)
        running.auto_credit = False
        end = running.wait()
        self.assertEqual((len(running.stdout), end["output_bytes"]), (1000, 64 * MIB))

    def test_sandbox_has_a_default_that_a_call_can_lift(self):
        self.adopt(output_limit=10)
        self.assertEqual(len(self.sh("printf %100s").stdout), 10)
        lifted = self.sh("printf %100s", output_limit=0)
        self.assertEqual(len(lifted.stdout), 100)
        self.assertNotIn("output_bytes", lifted.end)

    def test_terminals_are_not_cut_by_the_default(self):
        self.adopt(output_limit=10)
        done = self.agent.execute("printf", "%100s", pty=1)
        self.assertEqual(len(done.stdout), 100)
        done = self.agent.execute("printf", "%100s", pty=1, output_limit=20)
        self.assertEqual((len(done.stdout), done.end["output_bytes"]), (20, 100))

    def test_code_is_cut_too_and_keeps_its_results(self):
        done = self.agent.run("print('x' * 300000)\n6*7", output_limit=100)
        self.assertEqual(bytes(done.stdout), b"x" * 100)
        self.assertEqual(done.end["output_bytes"], 300001)
        self.assertEqual(done.records()[0]["text"], "42")
        self.assertEqual(done.end["exit_code"], 0)

    def test_what_processes_of_the_code_print_is_cut(self):
        done = self.agent.run("import os\nos.system('head -c 5000000 /dev/zero')",
                              output_limit=1000)
        self.assertEqual((len(done.stdout), done.end["output_bytes"]), (1000, 5000000))

    def test_the_next_call_starts_counting_anew(self):
        for _ in range(2):
            done = self.agent.run("print('abcdef', end='')", output_limit=4)
            self.assertEqual((bytes(done.stdout), done.end["output_bytes"]), (b"abcd", 6))

    def test_a_malformed_limit_is_refused_by_the_operation(self):
        done = self.agent.execute("true", output_limit=b"123")
        self.assertEqual((done.end["verdict"], done.end["error_code"]), ("error", "protocol"))


class ResultsLimit(LimitsTest):
    def test_results_beyond_the_share_of_a_call_are_left_out_whole(self):
        done = self.agent.run("for n in range(20):\n"
                              "    display({'text/plain': 'x', 'text/html': 'y' * (15 << 20)}, raw=True)\n"
                              "7")
        records = done.records()
        self.assertEqual([record["text"] for record in records], ["x"] * 17 + ["7"])
        self.assertTrue(all(len(record["data"]["text/html"]) == 15 * MIB for record in records[:17]))
        self.assertIn(b"results left out: 3", done.stderr)
        self.assertEqual(self.agent.run("6*7").records()[0]["text"], "42")


class OpenFiles(LimitsTest):
    LIMIT = "import resource\nprint(*resource.getrlimit(resource.RLIMIT_NOFILE))"

    def test_commands_get_the_limit(self):
        self.adopt(open_files=77)
        self.assertEqual(self.sh("ulimit -Sn; ulimit -Hn").stdout, b"77\n77\n")

    def test_too_many_are_refused_with_the_usual_error(self):
        self.adopt(open_files=256)
        done = self.agent.run("files = []\nfor _ in range(300): files.append(open('/dev/null'))")
        self.assertEqual(done.records()[0]["name"], "OSError")
        self.assertIn("Too many open files", done.records()[0]["value"])
        self.assertLess(int(self.agent.run("print(len(files))").stdout), 256)

    def test_interpreters_that_run_already_get_it_too(self):
        before = self.agent.run(self.LIMIT).stdout
        self.adopt(open_files=299)
        self.assertEqual(self.agent.run(self.LIMIT).stdout, b"299 299\n")
        if may_raise_limits():
            self.adopt()
            self.assertEqual(self.agent.run(self.LIMIT).stdout, before)


@unittest.skipUnless(may_raise_limits(), "needs CAP_SYS_RESOURCE")
class Priorities(LimitsTest):
    def test_memory_killer_spares_the_agent_but_not_its_commands(self):
        ours = open("/proc/self/oom_score_adj").read()
        self.assertEqual(self.sh("cat /proc/1/oom_score_adj").stdout, b"-1000\n")
        self.assertEqual(self.sh("cat /proc/self/oom_score_adj").stdout.decode(), ours)


class Metrics(LimitsTest):
    def metrics(self):
        return json.loads(self.agent.open(METRICS).wait()["status"])

    def test_figures_are_those_of_the_kernel(self):
        told = self.metrics()
        with open("/proc/meminfo") as meminfo:
            total = int(re.search(r"MemTotal: +(\d+)", meminfo.read())[1]) * 1024
        disk = os.statvfs("/")
        self.assertEqual(told["memory_total"], total)
        self.assertTrue(0 < told["memory_used"] < total)
        self.assertEqual(told["disk_total"], disk.f_blocks * disk.f_frsize)
        self.assertTrue(0 < told["disk_used"] <= told["disk_total"])
        self.assertEqual(told["memory_kills"], 0)

    def test_processor_time_and_processes_go_up_with_work(self):
        before = self.metrics()
        self.sh("timeout 0.3 sh -c 'while :; do :; done'")
        sleeper = self.agent.open(EXEC, arg=["sleep", "60"])
        self.agent.pump_until(lambda: sleeper.pid is not None)
        after = self.metrics()
        self.assertGreaterEqual(after["cpu_us"], before["cpu_us"] + 100000)
        self.assertGreater(after["processes"], 0)


if __name__ == "__main__":
    unittest.main()
