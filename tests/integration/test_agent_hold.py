"""An agent that is told to hold, and which of the two it is afterwards: the original or the copy.
What a copy of a machine would get, this one gets."""
import select
import tempfile
import time

from agent_harness import ADOPT, CLOCK, EXEC, FILE_WRITE, HOLD, RUN
from test_agent import AgentTest

CHATTER = "i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); sleep 0.01; done"
ALL = "".join(f"{i}\n" for i in range(300)).encode()


class Hold(AgentTest):
    def hold(self):
        held = self.agent.open(HOLD)
        self.agent.pump_until(lambda: held.events == 1)
        return held

    def is_silent(self, seconds=0.3):
        return not select.select([self.agent.socket], [], [], seconds)[0]

    def begin(self, *argv):
        """A command whose output is taken without a word, as credit would be one."""
        operation = self.agent.open(EXEC, arg=list(argv))
        operation.auto_credit = False
        self.agent.pump_until(lambda: operation.pid is not None)
        return operation

    def adopt(self):
        """As the keeper of a copy does, which counts its streams from 1."""
        self.agent.operations = {}
        self.agent.next_stream = 1
        end = self.agent.open(ADOPT, entropy=bytes(range(64)), name="copy").wait()
        self.assertNotIn("error_code", end)

    def test_nothing_is_said_until_a_frame_comes_and_nothing_is_lost(self):
        chatter = self.begin("sh", "-c", CHATTER)
        held = self.hold()
        self.assertTrue(self.is_silent())
        self.assertEqual(self.agent.buffer, b"")
        self.agent.open(CLOCK, realtime_us=0).wait()
        self.assertIsNotNone(held.wait())
        chatter.wait()
        self.assertEqual(chatter.stdout, ALL)

    def test_held_twice(self):
        first = self.hold()
        second = self.hold()
        self.assertIsNotNone(first.end)
        second.eof()
        self.assertIsNotNone(second.wait())

    def test_a_copy_forgets_and_commands_go_on(self):
        with tempfile.TemporaryDirectory() as folder:
            self.begin("sh", "-c", f"cat >{folder}/in; {CHATTER} | tee {folder}/out; echo over >>{folder}/in")
            self.hold()
            self.adopt()
            self.assertEqual(self.sh("echo fine").stdout, b"fine\n")
            self.wait_until(lambda: self.sh(f"cat {folder}/in").stdout == b"over\n", 15)
            self.assertEqual(self.sh(f"cat {folder}/out").stdout, ALL)
            self.assertTrue(self.is_silent())

    def test_a_copy_forgets_output_that_waited_for_room(self):
        with tempfile.TemporaryDirectory() as folder:
            self.begin("sh", "-c", f"head -c 3000000 /dev/zero; echo over >{folder}/out")
            time.sleep(0.2)
            self.hold()
            self.adopt()
            self.wait_until(lambda: self.sh(f"cat {folder}/out").stdout == b"over\n", 15)

    def test_a_copy_runs_code_to_its_end_and_not_half_of_it(self):
        self.agent.run("x = 1")
        self.agent.begin("import time; time.sleep(1); x = 2")
        half = self.agent.open(RUN, language="python")
        half.send(b"x = 3")
        self.hold()
        self.adopt()
        self.assertEqual(self.agent.run("print(x)").stdout, b"2\n")

    def test_a_copy_leaves_no_half_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            self.agent.open(FILE_WRITE, path=f"{folder}/file").send(b"half")
            self.hold()
            self.adopt()
            self.wait_until(lambda: self.sh(f"ls -A {folder}").stdout == b"")
