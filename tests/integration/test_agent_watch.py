"""Properties of watches and of reports of changed files, tried on the real binary. Needs root."""
from itertools import groupby

from agent_harness import FILE_CHANGES, FILE_WATCH, FILE_WRITE, RESULTS, WINDOW
from test_agent_files import FileTest


def without_repeats(changes):
    """Two equal changes are told as one or as two, as it happens."""
    return [change for change, _ in groupby(changes)]


class Watches(FileTest):
    def watch(self, path="/run/w", **fields):
        """A watch that is in place."""
        watching = self.agent.open(FILE_WATCH, path=path, **fields)
        self.agent.pump_until(lambda: watching.records())
        self.assertEqual(watching.records(), [{"type": "ready"}])
        return watching

    def told(self, watching, script=":", end=True):
        """What is told of the script: (type, name) or (type, name, target)."""
        mark = "marker-%d" % len(watching.records())
        self.sh(f"cd /run/w; {script}; touch {mark}")
        self.agent.pump_until(lambda: any(r.get("name") == mark for r in watching.records()))
        found = [tuple(record.values()) for record in watching.records()[1:]]
        if end:
            watching.control(cancel=1)
            self.assertEqual(watching.wait()["verdict"], "cancelled")
        return [c for c in without_repeats(found) if not c[-1].startswith("marker")]

    def setUp(self):
        super().setUp()
        self.sh("mkdir -p /run/w")

    def test_each_kind_of_change_is_told(self):
        script = "echo x > file; chmod 600 file; mv file other; mkdir sub; rm other; rmdir sub"
        self.assertEqual(self.told(self.watch(), script), [
            ("create", "file"), ("write", "file"), ("chmod", "file"),
            ("rename", "file", "other"), ("create", "sub"), ("remove", "other"),
            ("remove", "sub")])

    def test_moves_across_the_border_are_creations_and_removals(self):
        self.sh("touch /run/in /run/w/out")
        found = self.told(self.watch(), "mv ../in .; mv out ..; echo new > out")
        self.assertEqual(found, [("create", "in"), ("remove", "out"), ("create", "out"),
                                 ("write", "out")])

    def test_only_the_folder_itself_unless_asked(self):
        self.sh("mkdir /run/w/sub")
        found = self.told(self.watch(), "touch sub/file; mkdir new; touch new/file")
        self.assertEqual(found, [("create", "new")])

    def test_folders_in_it_and_new_ones(self):
        self.sh("mkdir -p /run/w/a/b")
        found = self.told(self.watch(recursive=1),
                          "echo x > a/b/file; mkdir -p a/c/d; touch a/c/d/late; rm -r a/b")
        self.assertEqual([change for change in found if change[0] == "create"],
                         [("create", "a/b/file"), ("create", "a/c"), ("create", "a/c/d"),
                          ("create", "a/c/d/late")])
        self.assertEqual([change for change in found if change[0] == "remove"],
                         [("remove", "a/b/file"), ("remove", "a/b")])

    def test_nothing_in_new_folders_is_missed_or_told_twice(self):
        watching = self.watch(recursive=1)
        script = ("for i in $(seq 40); do mkdir -p d$i/e/f; touch d$i/1 d$i/e/2 d$i/e/f/3; "
                  "touch d$i/4 d$i/e/f/5; done")
        found = self.told(watching, script)
        created = sorted(change[1] for change in found if change[0] == "create")
        wanted = sorted(f"d{i}{rest}" for i in range(1, 41)
                        for rest in ("", "/1", "/4", "/e", "/e/2", "/e/f", "/e/f/3", "/e/f/5"))
        self.assertEqual(created, wanted)

    def test_moved_folders_keep_being_watched_under_their_new_names(self):
        self.sh("mkdir -p /run/w/a/b /run/out")
        watching = self.watch(recursive=1)
        found = self.told(watching, "mv a z; touch z/b/x; mv z/b /run/out; touch /run/out/b/y; "
                                    "mv /run/out/b back; touch back/w", end=False)
        self.assertEqual([change for change in found if change[0] != "chmod"][:4],
                         [("rename", "a", "z"), ("create", "z/b/x"), ("remove", "z/b"),
                          ("create", "back")])
        self.assertEqual(sorted(change for change in found if change[1].startswith("back/")
                                and change[0] == "create"),
                         [("create", "back/w"), ("create", "back/x"), ("create", "back/y")])
        before = len(found)
        self.assertEqual(self.told(watching, "rm back/x")[before:], [("remove", "back/x")])

    def test_written_files_show_no_temporary_names(self):
        watching = self.watch()
        self.write("/run/w/file", b"x" * 1000)
        self.assertEqual(self.told(watching, end=False), [("create", "file"), ("write", "file")])
        self.write("/run/w/file", b"y")
        self.assertEqual(self.told(watching)[2:], [("write", "file")])

    def test_much_writing_is_few_records(self):
        watching = self.watch()
        found = self.told(watching, "dd if=/dev/zero of=big bs=1k count=50000 2>/dev/null; "
                          "dd if=/dev/zero of=other bs=1k count=50000 2>/dev/null")
        self.assertIn(("write", "big"), found)
        self.assertLess(len(watching.records()), 500)

    def test_one_file(self):
        self.sh("echo x > /run/w/file")
        watching = self.watch("/run/w/file")
        self.sh("cd /run/w; touch other; echo y > file; mv file away; mv other file; rm file")
        self.write("/run/w/file", b"again")
        self.sh("echo z >> /run/w/file; chmod 600 /run/w/file")
        self.agent.pump_until(lambda: watching.records()[-1]["type"] == "chmod")
        self.assertEqual(without_repeats(record["type"] for record in watching.records()[1:]),
                         ["write", "remove", "create", "remove", "create", "write", "chmod"])
        self.assertEqual({record["name"] for record in watching.records()[1:]}, {"file"})

    def test_it_ends_with_the_folder(self):
        for script in "rm -r /run/w", "mv /run/w /run/away":
            self.sh("mkdir -p /run/w")
            watching = self.watch(recursive=1, cwd="/run/w", path=".")
            self.sh(script)
            self.assert_done(watching.wait())
            self.assertEqual(watching.records()[-1], {"type": "remove", "name": ""})

    def test_it_ends_when_the_folder_is_unmounted(self):
        self.sh("mount -t tmpfs tmpfs /run/w")
        watching = self.watch(recursive=1)
        self.sh("umount /run/w")
        self.assert_done(watching.wait())
        self.assertEqual(watching.records()[-1], {"type": "remove", "name": ""})

    def test_a_client_that_is_too_slow_is_told_and_goes_on(self):
        self.sh("mkdir /run/w/sub")
        watching = self.watch(recursive=1)
        watching.auto_credit = False
        self.sh("cd /run/w/sub; for i in $(seq 8); do seq -f %0100.0f 3000 | xargs touch; "
                "seq -f %0100.0f 3000 | xargs rm; done; mkdir unseen")
        watching.auto_credit = True
        watching.credit(WINDOW)
        self.agent.pump_until(lambda: {"type": "overflow"} in watching.records())
        before = len(watching.records()) - 1
        found = self.told(watching, "echo x > sub/unseen/file")[before:]
        self.assertIn(("create", "sub/unseen/file"), found)

    def test_links_are_not_followed(self):
        self.sh("mkdir /run/outside; ln -s /run/outside /run/w/link")
        found = self.told(self.watch(recursive=1), "ln -s /run/outside new; touch /run/outside/x")
        self.assertEqual(found, [("create", "new")])

    def test_more_folders_than_can_be_watched_is_an_error(self):
        self.sh("cd /run/w; seq 8191 | xargs mkdir")
        watching = self.watch(recursive=1)
        self.sh("mkdir /run/w/last")
        self.assert_fails(watching.wait(), "limit", "8192 folders")
        self.assert_fails(self.do(FILE_WATCH, "/run/w", recursive=1).end, "limit", "8192 folders")
        self.assertEqual(self.told(self.watch(), "mkdir more"), [("create", "more")])

    def test_it_has_the_rights_of_its_user(self):
        self.sh("mkdir -m 700 /run/w/private; mkdir -m 777 /run/w/public")
        self.assert_fails(self.do(FILE_WATCH, "/run/w/private", user="nobody").end, "denied")
        self.assert_fails(self.do(FILE_WATCH, "/run/w/none").end, "not_found")
        found = self.told(self.watch(recursive=1, user="nobody"),
                          "touch private/secret public/file")
        self.assertEqual(found, [("create", "public/file"), ("chmod", "public/file")])

    def test_names_are_arbitrary_bytes(self):
        found = self.told(self.watch(), "mkdir 'a b\"c'; mkdir $(printf 'x\\377')")
        self.assertEqual(found, [("create", 'a b"c'), ("create", "x�")])

    def test_nothing_stays_behind(self):
        watching = self.watch(recursive=1)
        watching.control(cancel=1)
        watching.wait()
        self.wait_until(lambda: self.processes() == [])


class Changes(FileTest):
    def between(self, script, path="/run/w", **fields):
        """The records of what the script does."""
        looking = self.agent.open(FILE_CHANGES, path=path, **fields)
        self.agent.pump_until(lambda: looking.end or looking.records())
        self.assertEqual(looking.records(), [{"change": "ready"}])
        self.sh("cd /run/w; " + script)
        looking.eof()
        self.assert_done(looking.wait())
        return looking.records()[1:]

    def changes(self, script, path="/run/w"):
        return [(r["change"], r["path"].removeprefix("/run/w/")) for r in self.between(script, path)]

    def setUp(self):
        super().setUp()
        self.sh("mkdir -p /run/w")

    def test_what_was_created_changed_and_removed(self):
        self.sh("cd /run/w; mkdir -p old/deep same; touch keep same/keep; echo 1 > old/deep/x; "
                "echo 1 > changed; echo 1 > gone; touch -d 2001-01-01 *")
        self.assertEqual(
            self.changes("rm -r old; rm gone; echo 2 > changed; mkdir -p new/deep; "
                         "echo x > new/deep/file; echo x > same/new; ln -s / link"),
            [("changed", "changed"), ("removed", "gone"), ("created", "link"), ("created", "new"),
             ("created", "new/deep"), ("created", "new/deep/file"), ("removed", "old"),
             ("removed", "old/deep"), ("removed", "old/deep/x"), ("created", "same/new")])

    def test_nothing_is_said_of_nothing(self):
        self.sh("cd /run/w; mkdir a; touch a/b")
        self.assertEqual(self.changes("cat a/b; ls"), [])

    def test_an_entry_is_told_as_in_a_list(self):
        made, = self.between("echo hello > file", path="/run/w/")
        self.assertEqual(made.pop("change"), "created")
        self.assertEqual(made, self.stat("/run/w/file"))
        gone, = self.between("rm file")
        self.assertEqual(gone, {"change": "removed", "name": "file", "path": "/run/w/file",
                                "type": "file"})

    def test_replaced_files_count_as_changed(self):
        self.sh("cd /run/w; echo 1 > file; touch -d 2001-01-01 file; mkdir kind")
        self.assertEqual(
            self.changes("echo 2 > new; touch -d 2001-01-01 new; mv new file; "
                         "rmdir kind; touch kind"),
            [("changed", "file"), ("changed", "kind")])

    def test_order_is_that_of_a_walk(self):
        self.sh("cd /run/w; mkdir a; touch a/x a.txt a-b ab")
        self.assertEqual(self.changes("rm a.txt; touch a/y a!; echo >> ab"),
                         [("created", "a/y"), ("created", "a!"), ("removed", "a.txt"),
                          ("changed", "ab")])
        self.assertEqual([name for _, name in self.changes("rm -r *; mkdir a; touch a/x a!")],
                         ["a", "a/x", "a/y", "a!", "a-b", "ab"])

    def test_our_temporary_files_are_left_out(self):
        writing = self.agent.open(FILE_WRITE, path="/run/w/file")
        writing.send(b"half")
        self.wait_until(lambda: self.sh("ls -A /run/w | grep msb-").stdout)
        self.assertEqual(self.changes("touch x"), [("created", "x")])
        writing.eof()
        self.assert_done(writing.wait())

    def test_a_folder_that_goes_away_took_everything_with_it(self):
        self.sh("touch /run/w/file")
        self.assertEqual(self.changes("rm -r /run/w"), [("removed", "file")])

    def test_it_is_bounded(self):
        self.sh("cd /run/w; seq 20 | xargs touch")
        refused = self.do(FILE_CHANGES, "/run/w", limit=19).end
        self.assert_fails(refused, "limit", "more than 19")
        self.assertIn("smaller", refused["hint"])
        looking = self.agent.open(FILE_CHANGES, path="/run/w", limit=20)
        self.agent.pump_until(lambda: looking.records())
        self.sh("touch /run/w/more")
        looking.eof()
        self.assert_fails(looking.wait(), "limit")
        self.sh("cd /run/w; for i in $(seq 65); do mkdir d; cd d; done")
        self.assert_fails(self.do(FILE_CHANGES, "/run/w").end, "limit", "64 deep")

    def test_input_begins_the_next_report(self):
        looking = self.agent.open(FILE_CHANGES, path="/run/w")
        for name in "one", "two":
            self.agent.pump_until(lambda: looking.records()[-1:] == [{"change": "ready"}])
            self.sh(f"touch /run/w/{name}")
            looking.output[RESULTS].clear()
            looking.send(b".")
            self.agent.pump_until(lambda: len(looking.records()) == 2)
            self.assertEqual([r.get("name") for r in looking.records()], [name, None])
        looking.output[RESULTS].clear()
        looking.eof()
        self.assert_done(looking.wait())
        self.assertEqual(looking.records(), [])

    def test_what_cannot_be_looked_at_is_told(self):
        self.assert_fails(self.do(FILE_CHANGES, "/run/none").end, "not_found")
        self.sh("mkdir -m 700 /run/private")
        self.assert_fails(self.do(FILE_CHANGES, "/run/private", user="nobody").end, "denied")

    def test_many_files(self):
        self.sh("cd /run/w; for i in $(seq 100); do mkdir $i; (cd $i; seq 300 | xargs touch); done")
        found = self.changes("rm -r 50; touch 60/x")
        self.assertEqual(len(found), 302)

    def test_cancel_and_timeout(self):
        looking = self.agent.open(FILE_CHANGES, path="/run/w", timeout_ms=100)
        self.assertEqual(looking.wait()["verdict"], "timeout")
        looking = self.agent.open(FILE_CHANGES, path="/run/w")
        looking.control(cancel=1)
        self.assertEqual(looking.wait()["verdict"], "cancelled")
        self.wait_until(lambda: self.processes() == [])
