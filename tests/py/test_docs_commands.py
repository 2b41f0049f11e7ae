"""The documentation of the command line names the options that the commands have, and its graphs are graphs."""
import re
import unittest

from kiln_command import ROOT, kiln

COMMANDS = ("run", "opt", "compile", "explain", "reference")
OPTION = r"--[a-z][a-z0-9-]*"


def section(page, heading):
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL).group(1)


class Commands(unittest.TestCase):
    def setUp(self):
        self.page = (ROOT / "docs/command-line.md").read_text()

    def test_each_synopsis_has_the_options_of_its_command(self):
        for command in COMMANDS:
            synopsis = section(self.page, command).split("```")[1]
            known = set(re.findall(rf"^ *({OPTION})", kiln(command, "--help").stdout, re.MULTILINE))
            shown = set(re.findall(OPTION, synopsis.replace("-o DIR", "--output-dir DIR")))
            self.assertEqual(shown, known - {"--help", "--version"}, command)

    def test_graphs_in_the_documentation_are_accepted(self):
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        graphs = [(page.name, block) for page in pages
                  for block in re.findall(r"^```\n((?:#[^\n]*\n)*graph [^`]*)^```", page.read_text(), re.MULTILINE)]
        self.assertTrue(graphs)
        for name, block in graphs:
            with self.subTest(page=name):
                graph = re.search(r"^graph ([\w.]+)", block, re.MULTILINE).group(1)
                kiln("opt", "-", "--print", "none", "--graph", graph, text=block)


if __name__ == "__main__":
    unittest.main()
