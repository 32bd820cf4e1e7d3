#!/usr/bin/env python3
"""What the documents say has to be true: the programs that they show compile and work, and whatever is pointed to
exists.

DATA_PARALLEL, TUTORIAL_ONE, TUTORIAL_SEVERAL, TUTORIAL_MORE, REAL_LOOP, TUTORIAL_MEMORY, TUTORIAL_THREADS,
TUTORIAL_AGENTS, CORRIDOR, HOVER, CARTS, CRAWLER, WATCH and TANDEM name the built examples, plugins and program; the
last three are empty where there is none.
"""

import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SHOWN = re.compile(r"<!-- (tests/\S+) -->\n```(?:cpp|cmake|xml)\n(.*?)```", re.DOTALL)
SHOWN_COMMAND = re.compile(r"^tandem (.+)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE_PATH = re.compile(r"`((?:tandem|bench|tests|examples|configs|tools|docs|cmake)/[\w./-]+)`")


class ReadmeTest(unittest.TestCase):
    def test_programs_are_shown_word_for_word(self):
        shown = {}
        for document in DOCUMENTS:
            for path, text in SHOWN.findall(document.read_text()):
                shown[path] = text
                self.assertEqual(text, (ROOT / path).read_text(), f"{document.name} differs from {path}")
        programs = [f"tests/readme/{file.name}" for file in [*HERE.glob("*.cc"), *HERE.glob("*.xml")]]
        projects = [f"tests/package/{name}/CMakeLists.txt" for name in ("first_programs", "tutorial")]
        self.assertEqual(sorted(shown), sorted([*programs, *projects]))

    def losses_of(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        return [float(line.split()[-1]) for line in done.stdout.splitlines() if " loss " in line]

    def test_the_tutorial_learns_the_same_alone_and_on_several_ranks(self):
        alone = self.losses_of(os.environ["TUTORIAL_ONE"])
        self.assertEqual(len(alone), 10)
        self.assertLess(alone[-1], alone[0] / 10)
        runs = [[os.environ["TUTORIAL_SEVERAL"]]]
        if os.environ["TANDEM"]:
            runs.append([os.environ["TANDEM"], "launch", "--ranks", "4", "--", os.environ["TUTORIAL_SEVERAL"]])
        for run in runs:
            for mine, theirs in zip(self.losses_of(*run), alone, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=0.01 * theirs)

    def epochs_of(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        return [line for line in done.stdout.splitlines() if "accuracy" in line]

    def test_the_real_loop_learns_the_same_on_three_ranks_and_goes_on_where_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = self.epochs_of(os.environ["REAL_LOOP"], f"{folder}/alone.pt", "12")
            self.assertEqual(len(alone), 12)
            self.assertGreater(float(alone[-1].split()[-1]), 0.95, alone)
            launched = [os.environ["TANDEM"], "launch", "--ranks", "3", "--"] if os.environ["TANDEM"] else []
            whole = self.epochs_of(*launched, os.environ["REAL_LOOP"], f"{folder}/whole.pt", "12")
            for mine, theirs in zip(whole[:4], alone[:4], strict=True):
                self.assertAlmostEqual(float(mine.split()[-3]), float(theirs.split()[-3]), delta=0.02)
            begun = self.epochs_of(*launched, os.environ["REAL_LOOP"], f"{folder}/parts.pt", "5")
            ended = self.epochs_of(*launched, os.environ["REAL_LOOP"], f"{folder}/parts.pt", "12")
            self.assertEqual(begun + ended, whole)

    def test_the_robot_runs_what_is_exported(self):
        if not os.environ["TANDEM"]:
            self.skipTest("there is no program")
        with tempfile.TemporaryDirectory() as folder:
            run = f"{folder}/run"
            tandem = lambda *words: subprocess.run([os.environ["TANDEM"], *words], capture_output=True, check=True)
            tandem("train", "--env", "CartPole-v1", "--run-dir", run, "--total-steps", "2048")
            tandem("export", run, "-o", f"{folder}/pole.h")
            subprocess.run(
                ["c++", "-std=c++11", "-O3", f"-I{folder}", HERE / "robot.cc", "-o", f"{folder}/robot"], check=True
            )
            done = subprocess.run([f"{folder}/robot"], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout, r"^the pole (stands at -?0\.\d+ rad|fell after \d+ steps)$")

    def test_an_error_ends_the_tutorial_with_its_own_exit_code(self):
        wrong = {**os.environ, "RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        for program in ("TUTORIAL_SEVERAL", "TUTORIAL_MORE"):
            done = subprocess.run([os.environ[program]], env=wrong, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, "RANK")

    def test_the_tutorial_with_compressed_gradients_learns(self):
        runs = [[os.environ["TUTORIAL_MORE"]]]
        if os.environ["TANDEM"]:
            runs.append([os.environ["TANDEM"], "launch", "--ranks", "2", "--", os.environ["TUTORIAL_MORE"]])
        for run in runs:
            losses = self.losses_of(*run)
            self.assertEqual(len(losses), 10)
            self.assertLess(losses[-1], losses[0] / 5, losses)

    def test_the_recurrent_policy_learns_what_needs_memory(self):
        done = subprocess.run([os.environ["TUTORIAL_MEMORY"]], capture_output=True, text=True, check=True, timeout=240)
        returns = [float(line.split()[1]) for line in done.stdout.splitlines()]
        self.assertLess(returns[0], 0.8, "guessing")
        self.assertGreater(returns[-1], 0.95, returns)

    def test_sampling_and_learning_at_the_same_time_learns_from_every_sample(self):
        done = subprocess.run([os.environ["TUTORIAL_THREADS"]], capture_output=True, text=True, check=True, timeout=240)
        *updates, counts, advice = done.stdout.splitlines()
        returns = [float(line.split()[1]) for line in updates]
        self.assertLess(returns[0], 0.5)
        self.assertGreater(returns[-1], 0.8, returns)
        self.assertEqual(counts, "100096 sampled, 100096 learned")
        for line in updates:
            self.assertLessEqual(float(line.split()[4]), 8)
        self.assertRegex(advice, "idle")

    def test_two_agents_learn_to_understand_each_other(self):
        done = subprocess.run([os.environ["TUTORIAL_AGENTS"]], capture_output=True, text=True, check=True, timeout=240)
        returns = [float(line.split()[1]) for line in done.stdout.splitlines()]
        self.assertLess(returns[0], 1.2, "guessing: a third of the time, for both")
        self.assertGreater(returns[-1], 1.9, returns)

    def test_the_data_parallel_program_learns(self):
        with tempfile.TemporaryDirectory() as folder:
            program = [os.environ["DATA_PARALLEL"]]
            done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120, cwd=folder)
            self.assertEqual([file.name for file in Path(folder).iterdir()], ["net.pt"])
        losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
        self.assertEqual(len(losses), 10)
        self.assertLess(losses[-1], losses[0] / 3, losses)

    def test_two_processes_of_the_first_program_do_not_train_two_models(self):
        world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        with tempfile.TemporaryDirectory() as folder:
            ranks = [
                subprocess.Popen([os.environ["DATA_PARALLEL"]], cwd=folder, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env={**os.environ, **world, "RANK": str(rank)})
                for rank in range(2)
            ]
            for rank, process in enumerate(ranks):
                out, err = process.communicate(timeout=120)
                self.assertNotEqual(process.returncode, 0)
                self.assertEqual(out, "")
                self.assertIn(f"rank {rank} of 2 (WORLD_SIZE = 2", err)
                self.assertIn("learner::Ranks(world.group)", err)
            self.assertEqual(list(Path(folder).iterdir()), [])

    @unittest.skipUnless(os.environ.get("TANDEM"), "this build has no program")
    def test_the_commands_train_and_evaluate_the_corridor(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "build").mkdir()
            Path(folder, "build", "libcorridor.so").symlink_to(os.environ["CORRIDOR"])
            commands = SHOWN_COMMAND.findall((ROOT / "README.md").read_text())
            self.assertEqual([command.split()[0] for command in commands], ["train", "eval"])
            for command in commands:
                program = [os.environ["TANDEM"], *command.split()]
                done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240)
                self.assertEqual(done.returncode, 0, done.stderr)
            run = Path(folder) / "runs/corridor"
            summary = json.loads((run / "summary.json").read_text())
            self.assertTrue((run / "curve.png").exists())
        self.assertGreater(summary["episode_return_mean"], 0.8)
        self.assertRegex(done.stdout, "100 episodes")

    @unittest.skipUnless(os.environ.get("TANDEM"), "this build has no program")
    def test_the_commands_of_the_simulator_page_work_and_the_rocket_stays_up(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "build").mkdir()
            Path(folder, "build", "libhover.so").symlink_to(os.environ["HOVER"])
            Path(folder, "build", "libcarts.so").symlink_to(os.environ["CARTS"])
            printed = {}
            for command in SHOWN_COMMAND.findall((ROOT / "docs" / "simulator.md").read_text()):
                program = [os.environ["TANDEM"], *shlex.split(command)]
                done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
                printed[command.split()[0]] = printed.get(command.split()[0], "") + done.stdout
            summary = json.loads(Path(folder, "runs/windy/summary.json").read_text())
            log = Path(folder, "runs/windy/log.txt").read_text()
            first = json.loads(Path(folder, "runs/hover/summary.json").read_text())
            carts = json.loads(Path(folder, "runs/carts/summary.json").read_text())
            self.assertTrue(Path(folder, "hover.pt").exists())
            self.assertEqual(Path(folder, "hover.gif").read_bytes()[:6], b"GIF89a")
        self.assertGreater(first["eval_return_mean"], 150)
        self.assertGreater(first["env/near"], 0.5)
        self.assertLess(first["eval_env/lost"], 0.1)
        self.assertRegex(printed["eval"], r"\n  near    0\.")
        self.assertRegex(printed["envs"], "near +Share of the steps within half a metre")
        self.assertGreater(summary["episode_return_mean"], 120)
        self.assertRegex(log, "ppo.learning_rate is 0.0001 from here on; it was 0.001")
        self.assertRegex(printed["train"], "95 % confidence interval")
        self.assertGreater(carts["episode_return_mean"], -9)
        self.assertRegex(log, "tensors are taken")
        self.assertRegex(printed["envs"], "gravity +9.8")

    @unittest.skipUnless(os.environ.get("TANDEM") and os.environ.get("CRAWLER"), "this build has no MuJoCo")
    def test_the_crawler_of_the_page_about_environments_can_be_trained(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "build").mkdir()
            Path(folder, "build", "libcrawler.so").symlink_to(os.environ["CRAWLER"])
            Path(folder, "crawler.xml").write_text((HERE / "crawler.xml").read_text())
            page = (ROOT / "docs" / "environments.md").read_text()
            commands = [command for command in SHOWN_COMMAND.findall(page) if "crawler" in command]
            self.assertEqual([command.split()[0] for command in commands], ["train", "check", "train"])
            shorter = {"train": "--total-steps 2048", "check": "--steps 100"}
            for command in commands:
                program = [os.environ["TANDEM"], *shlex.split(f"{command} {shorter[command.split()[0]]}")]
                done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
            self.assertEqual(len(list(Path(folder, "runs").glob("*/summary.json"))), 2)

    @unittest.skipUnless(os.environ.get("TANDEM"), "this build has no program")
    def test_the_commands_of_the_page_about_several_agents_work(self):
        with tempfile.TemporaryDirectory() as folder:
            commands = SHOWN_COMMAND.findall((ROOT / "docs" / "multi_agent.md").read_text())
            self.assertGreater(len(commands), 7)
            for command in commands:
                words = shlex.split(command, comments=True)
                if words[0] == "train":
                    words += ["--total-steps", "8192"]  # fewer than the shipped settings have
                done = subprocess.run(
                    [os.environ["TANDEM"], *words], cwd=folder, capture_output=True, text=True, timeout=240
                )
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
            self.assertTrue(Path(folder, "first.pt").exists())
            configs = [path.read_text() for path in Path(folder, "runs").glob("*/config.yaml")]
        self.assertEqual(sum("player_1.recurrent: lstm" in config for config in configs), 1)


    @unittest.skipUnless(os.environ.get("WATCH"), "this build has no program")
    def test_the_program_that_watches_its_run_stops_it(self):
        for ranks in ("1", "2"):
            with tempfile.TemporaryDirectory() as folder:
                program = [os.environ["WATCH"], "train", "--env", "CartPole-v1", "--seed", "3", "--shards", "2"]
                program += ["--total-steps", "200000", "--run-dir", "runs/watched", "--ranks", ranks]
                done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240)
                self.assertEqual(done.returncode, 130, done.stdout + done.stderr)
                summary = json.loads(Path(folder, "runs/watched/summary.json").read_text())
            self.assertGreater(summary["episode_return_mean"], 100)
            self.assertLess(summary["env_steps"], 200000)
            told = re.findall(r"saved /\S+/runs/watched/checkpoints/u\d+, longest episode (\d+)", done.stdout)
            self.assertEqual(len(told), 1, done.stdout)
            self.assertGreater(int(told[0]), 100)


class PagesTest(unittest.TestCase):
    # Each page in a folder of its own. Runs are shorter than the pages', and tune and simulate-scale measure less.
    @unittest.skipUnless(os.environ.get("TANDEM"), "this build has no program")
    def test_the_commands_of_the_other_pages_work(self):
        shorter = {"train": " --total-steps 2048", "launch": " --total-steps 2048", "tune": " --rounds 1 --seconds 0.1",
                   "simulate-scale": " --steps 2"}
        runs = {"export": ["runs/pole"], "metrics": ["runs/a", "runs/b"]}
        for page in ("images", "recurrent", "dd_ppo", "export", "metrics", "performance", "scaling", "sync_replicas",
                     "local_steps"):
            commands = [f"train --env CartPole-v1 --run-dir {run}" for run in runs.get(page, [])]
            for command in SHOWN_COMMAND.findall((ROOT / "docs" / f"{page}.md").read_text()):
                of_the_page = "standby" in command or "bin/" in command  # a program of its own
                if "..." not in command and not of_the_page:  # else it is not whole
                    commands.append(re.sub(r" --steps \d+| +#.*", "", command))
            self.assertGreater(len(commands), 0, page)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "tandem").symlink_to(os.environ["TANDEM"])
                path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
                for command in commands:
                    line = f"tandem {command}{shorter.get(command.split()[0], '')}"
                    done = subprocess.run(["bash", "-c", line], cwd=folder, env=path, capture_output=True, text=True,
                                          timeout=240)
                    self.assertEqual(done.returncode, 0, f"{page}: {line}\n{done.stdout}{done.stderr}")


class DocumentsTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            for target in LINK.findall(FENCE.sub("", document.read_text())):
                if not re.match(r"[a-z]+:", target):
                    self.assertTrue(
                        (document.parent / target).exists(), f"{document.relative_to(ROOT)} links to {target}"
                    )

    def test_files_that_are_named_exist(self):
        for document in DOCUMENTS:
            for path in CODE_PATH.findall(document.read_text()):
                self.assertTrue((ROOT / path).exists(), f"{document.relative_to(ROOT)} names {path}")


if __name__ == "__main__":
    unittest.main()
