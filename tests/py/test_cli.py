"""The command `kiln` without a daemon: options, files, exit codes, opt, reference, compile, explain, run --local."""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
from kiln_command import BUILD, EMULATED, evaluate, kiln, run_local, statistics

ADD = "graph add(%x: f32[3], %y: f32[3]) {\n  %z = add(%x, %y)\n  return %z\n}\n"
SYMBOLIC = ("graph table[T=8](%f: f32[T,4]) {\n  %e = cat(%f, %f) {dim=1}\n  %c = cos(%e)\n  return %c\n}\n")
COMMANDS = ("run", "opt", "compile", "explain", "reference", "stats", "health")


class Files(unittest.TestCase):
    """A folder for the graphs of a test."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def graph(self, text, name="g.kiln"):
        path = self.folder / name
        path.write_text(text)
        return path

    def misuse(self, *arguments, text=None):
        """The one line on stderr of a command that is used wrongly."""
        done = kiln(*arguments, code=2, text=text)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("kiln: "))
        return done.stderr


class Options(Files):
    def test_help_lists_the_commands_and_each_explains_its_options(self):
        listed = kiln("--help").stdout
        for command in COMMANDS:
            self.assertIn(f"  {command} ", listed)
            self.assertIn("--help", kiln(command, "--help").stdout)
        self.assertIn("--symbol NAME=VALUE", kiln("run", "--help").stdout)

    def test_version_tells_build_fingerprint_and_compiler(self):
        for arguments in (["--version"], ["opt", "--version"]):
            lines = kiln(*arguments).stdout.splitlines()
            self.assertRegex(lines[0], r"^kiln +\d+\.\d+\.\d+$")
            self.assertRegex(lines[1], r"^fingerprint +[0-9a-f]{64}$")
            self.assertRegex(lines[2], r"^compiler +(NVRTC \d+\.\d+|none)")

    def test_version_without_a_compiler_says_why(self):
        self.assertRegex(kiln("--version", KILN_NVRTC="/nowhere.so").stdout, r"compiler +none: .*/nowhere\.so")

    def test_no_command_and_an_unknown_one_are_misuse(self):
        self.assertIn("usage:", kiln(code=2).stderr)
        self.assertIn("'kiln --help'", self.misuse("bake"))

    def test_wrong_options_are_named(self):
        path = self.graph(ADD)
        self.assertIn("'--bogus'", self.misuse("run", path, "--bogus"))
        self.assertIn("needs FILE", self.misuse("run"))
        self.assertIn("'extra'", self.misuse("opt", path, "extra"))
        self.assertIn("'--seed' needs a value", self.misuse("run", path, "--seed"))
        self.assertIn("'--check' takes no value", self.misuse("run", path, "--check=1"))
        self.assertIn("--seed x", self.misuse("run", path, "--seed=x"))
        self.assertIn("--repeat 0", self.misuse("run", path, "--repeat", "0"))
        self.assertIn("--symbol T", self.misuse("run", path, "--symbol", "T"))
        self.assertIn("--print jpeg", self.misuse("opt", path, "--print", "jpeg"))
        self.assertIn("--stats xml", self.misuse("opt", path, "--stats", "xml"))
        self.assertIn("no pass 'magic'", self.misuse("opt", path, "--passes", "magic"))

    def test_two_dashes_end_the_options(self):
        self.assertIn("cannot open '--odd.kiln'", self.misuse("opt", "--", "--odd.kiln"))

    def test_no_daemon_exits_3(self):
        path = self.graph(ADD)
        for arguments in (["stats"], ["health", "--json"], ["run", path], ["explain", path],
                          ["compile", path, "-o", self.folder / "out"]):
            done = kiln(*arguments, code=3, KILN_SOCKET=f"unix:{self.folder}/none.sock")
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(f"no daemon answers at unix:{self.folder}/none.sock: start one with `kilnd`", done.stderr)


class Graphs(Files):
    def test_malformed_text_names_file_line_and_column(self):
        path = self.graph("graph a(%x: f32[4]) {\n  %y = foo(%x)\n  return %y\n}\n")
        for command in (["opt"], ["run", "--local"], ["reference"], ["run"], ["explain"], ["compile", "-o", "x"]):
            self.assertIn(f"{path}:2:8: ", self.misuse(*command, path))

    def test_a_missing_file_and_an_empty_one(self):
        self.assertIn("No such file", self.misuse("opt", self.folder / "none.kiln"))
        self.assertIn(":2:1: expected 'graph'", self.misuse("opt", self.graph("# nothing\n")))
        self.assertIn("cannot read", self.misuse("opt", self.folder))

    def test_a_graph_comes_from_standard_input(self):
        self.assertIn("graph add", kiln("opt", "-", text=ADD).stdout)
        self.assertIn("-:2:", self.misuse("opt", "-", text="graph a() {\n  nonsense\n}\n"))

    def test_several_graphs_need_a_name(self):
        path = self.graph(ADD + SYMBOLIC)
        self.assertIn("--graph: 'add', 'table'", self.misuse("opt", path))
        self.assertIn("no graph 'c'; it has 'add', 'table'", self.misuse("opt", path, "--graph", "c"))
        self.assertIn("graph table", kiln("opt", path, "--graph", "table").stdout)

    def test_a_reserved_op_is_unsupported_by_name(self):
        path = self.graph("graph s(%x: f32[4,8]) {\n  %y = sort(%x)\n  return %y\n}\n")
        done = kiln("run", *EMULATED, path, code=1)
        self.assertIn("UNSUPPORTED", done.stderr)
        self.assertIn("'sort'", done.stderr)


class Opt(Files):
    def test_statistics_are_the_only_output(self):
        said = statistics(self.graph(SYMBOLIC))
        self.assertEqual(list(said), ["hash", "repetitions", "passes", "groups", "launches"])
        self.assertRegex(said["hash"], "^[0-9a-f]{64}$")
        self.assertEqual(said["repetitions"], 1)
        self.assertIn("repetition", [entry["name"] for entry in said["passes"] if entry["applied"]])
        self.assertEqual(said["launches"], len(said["groups"]))
        self.assertEqual(sorted(said["groups"][0]), ["kind", "members", "nodes"])

    def test_the_hash_ignores_names_and_order(self):
        renamed = "graph b(%p: f32[3], %q: f32[3]) {\n  %r = add(%p, %q)\n  return %r\n}\n"
        swapped = "graph b(%p: f32[3], %q: f32[3]) {\n  %r = add(%q, %p)\n  return %r\n}\n"
        hashes = [statistics(self.graph(text))["hash"] for text in (ADD, renamed, swapped)]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])

    def test_what_is_printed_is_accepted_again(self):
        once = kiln("opt", self.graph(SYMBOLIC)).stdout
        again = kiln("opt", "-", text=once).stdout
        body = [line for line in once.splitlines() if not line.startswith("#")]
        self.assertEqual(body, [line for line in again.splitlines() if not line.startswith("#")])

    def test_no_passes_leave_the_graph_as_it_is(self):
        self.assertIn("cat(%f, %f)", kiln("opt", self.graph(SYMBOLIC), "--passes", "").stdout)
        self.assertNotIn("cat(%f, %f)", kiln("opt", self.graph(SYMBOLIC)).stdout)

    def test_dumps_are_numbered_graphs(self):
        kiln("opt", self.graph(SYMBOLIC), "--dump", self.folder / "dump", "--print", "none")
        dumps = sorted((self.folder / "dump").iterdir())
        self.assertEqual([int(dump.name[:2]) for dump in dumps], list(range(len(dumps))))
        self.assertEqual(dumps[0].name, "00-input.kiln")
        for dump in dumps:
            kiln("opt", dump, "--print", "none")

    def test_verify_compares_before_and_after(self):
        done = kiln("opt", self.graph(SYMBOLIC), "--verify", "--print", "none")
        self.assertRegex(done.stderr, r"verified 128 elements.*: 0 wrong")

    def test_dot_is_printed_and_svg_needs_graphviz(self):
        path = self.graph(ADD)
        self.assertIn("digraph", kiln("opt", path, "--print", "dot").stdout)
        done = kiln("opt", path, "--print", "svg", code=1, PATH="/bin/nowhere:/usr/sbin")
        self.assertIn("graphviz", done.stderr)


class Inputs(Files):
    def test_values_are_added_and_written_by_name(self):
        x, y = np.float32([1, 2, 3]), np.float32([10, -0.0, np.inf])
        for results in (evaluate(["reference"], self.graph(ADD), {"x": x, "y": y}),
                        run_local(self.graph(ADD), {"x": x, "y": y})):
            self.assertEqual(list(results), ["z"])
            np.testing.assert_array_equal(results["z"], x + y)

    def test_kinds_of_made_up_inputs(self):
        path = self.graph("graph e(%a: i32[2,3], %b: bf16[4], %c: bool[2], %d: u8[300]) {\n  return %a, %b, %c, %d\n}\n")
        made = evaluate(["reference"], path, {}, *(word for name, kind in
                        (("a", "arange"), ("b", "arange"), ("c", "zeros"), ("d", "arange"))
                        for word in ("--input", f"{name}={kind}")))
        np.testing.assert_array_equal(made["a"], np.arange(6, dtype=np.int32).reshape(2, 3))
        np.testing.assert_array_equal(made["b"], np.uint16([0, 0x3f80, 0x4000, 0x4040]))
        np.testing.assert_array_equal(made["c"], [False, False])
        np.testing.assert_array_equal(made["d"], np.arange(300).astype(np.uint8))

    def test_random_inputs_follow_the_seed(self):
        path = self.graph("graph r(%x: f32[1000], %i: i32[1000], %u: u8[100], %b: bool[100]) {\n"
                          "  return %x, %i, %u, %b\n}\n")
        first, same = (evaluate(["reference"], path, {}, "--seed", "7") for _ in range(2))
        other = evaluate(["reference"], path, {}, "--seed", "8")
        for name, values in first.items():
            np.testing.assert_array_equal(values, same[name])
            self.assertFalse(np.array_equal(values, other[name]))
        self.assertLess(abs(first["x"].mean()), 0.1)
        self.assertLess(abs(first["x"].std() - 1), 0.1)
        self.assertTrue(np.all(np.abs(first["i"]) < 10))
        self.assertTrue(np.all(first["u"] < 10))

    def test_indices_stay_small_and_not_negative(self):
        path = self.graph("graph e(%t: f32[100,2], %ids: i64[4,64]) {\n  %r = reshape(%ids) {shape=[256]}\n"
                          "  %e = embedding(%t, %r)\n  return %ids, %e\n}\n")
        ids = evaluate(["reference"], path, {})["ids"]
        self.assertTrue(np.all((0 <= ids) & (ids < 8)))

    def test_an_expanded_input_has_one_value_per_storage_element(self):
        path = self.graph("graph e(%x: f32[2,3] strides [0,1]) {\n  %y = neg(%x)\n  return %y\n}\n")
        for command in (["reference"], ["run", *EMULATED]):
            y = evaluate(command, path, {}, "--seed", "3")["y"]
            np.testing.assert_array_equal(y[0], y[1])
        self.assertIn("share memory", self.misuse_of_file(path, np.float32([[1, 2, 3], [4, 5, 6]])))
        same = run_local(path, {"x": np.float32([[1, 2, 3], [1, 2, 3]])}, "--check")["y"]
        np.testing.assert_array_equal(same, np.float32([[-1, -2, -3]] * 2))

    def misuse_of_file(self, path, array, name="x", command=("reference",)):
        np.save(self.folder / "in.npy", array)
        return self.misuse(*command, path, "--input", f"{name}={self.folder}/in.npy")

    def test_strided_boundaries_are_logical_in_files(self):
        path = self.graph("graph t(%x: f32[2,3] strides [1,2]) {\n  %y = neg(%x)\n  return %y strides [1,4]\n}\n")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(run_local(path, {"x": x}, "--check")["y"], -x)

    def test_files_that_do_not_fit_are_misuse(self):
        path = self.graph(ADD)
        self.assertIn("f32[3]", self.misuse_of_file(path, np.float32([1, 2])))
        self.misuse_of_file(path, np.float64([1, 2, 3]))
        self.misuse_of_file(path, np.float32([[1, 2, 3]]))
        self.assertIn("no input 'w'", self.misuse_of_file(path, np.float32([1, 2, 3]), name="w"))
        self.misuse("reference", path, "--input", f"x={self.folder}/none.npy")
        (self.folder / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00")
        self.misuse("reference", path, "--input", f"x={self.folder}/bad.npy")
        self.assertIn("random, zeros or arange", self.misuse("reference", path, "--input", "x=ones"))

    def test_symbols_come_from_options_files_and_declarations(self):
        path = self.graph(SYMBOLIC)
        self.assertEqual(evaluate(["reference"], path, {})["c"].shape, (8, 8))
        self.assertEqual(evaluate(["reference"], path, {}, "--symbol", "T=3")["c"].shape, (3, 8))
        self.assertEqual(evaluate(["reference"], path, {"f": np.zeros((5, 4), np.float32)})["c"].shape, (5, 8))
        self.assertEqual(evaluate(["reference"], path, {}, "--symbol", "T=0")["c"].shape, (0, 8))
        self.assertIn("no symbol 'U'", self.misuse("reference", path, "--symbol", "U=1"))
        self.assertIn("from 0 up", self.misuse("reference", path, "--symbol", "T=-1"))
        unnamed = self.graph(SYMBOLIC.replace("[T=8]", "[T]"), "u.kiln")
        self.assertIn("--symbol T=N", self.misuse("reference", unnamed))

    def test_a_size_that_memory_cannot_hold_is_an_error(self):
        done = kiln("reference", self.graph(SYMBOLIC), "--symbol", "T=1000000000000", code=1)
        self.assertIn("TOO_LARGE", done.stderr)


class Reference(Files):
    def test_values_and_bounds_are_printed(self):
        path = self.graph("graph n(%x: i8[3]) {\n  %y = add(%x, %x)\n  return %y\n}\n")
        said = kiln("reference", path, "--input", "x=arange", "--bounds").stdout
        self.assertEqual(said, "y: i8[3]\n  0 2 4\n  within 0 0 0\n")

    def test_of_a_large_result_both_ends_are_printed(self):
        path = self.graph("graph i() {\n  %y = iota() {shape=[100000], dim=0, dtype=i32}\n  return %y\n}\n")
        ends = [" ".join(map(str, part)) for part in (range(32), range(100000 - 32, 100000))]
        self.assertEqual(kiln("reference", path).stdout,
                         f"y: i32[100000]\n  {ends[0]} ... {ends[1]} (100000 elements)\n")

    def test_bounds_are_written_beside_the_values(self):
        path = self.graph("graph c(%x: f32[16]) {\n  %y = exp(%x)\n  return %y\n}\n")
        x = np.linspace(-3, 3, 16, dtype=np.float32)
        results = evaluate(["reference"], path, {"x": x}, "--bounds")
        error = np.abs(results["y"] - np.exp(x.astype(np.float64)))
        self.assertTrue(np.all(error <= results["y.bound"]))
        self.assertTrue(np.all(results["y.bound"] < 1e-5))


class Run(Files):
    def test_json_tells_what_happened(self):
        done = kiln("run", *EMULATED, self.graph(SYMBOLIC), "--symbol", "T=5", "--check", "--json",
                    "--counters", "--repeat", "2")
        said = json.loads(done.stdout)
        self.assertRegex(said["key"], "^[0-9a-f]{64}$")
        self.assertEqual(said["symbols"], {"T": 5})
        self.assertEqual(said["outputs"], [{"name": "c", "dtype": "f32", "shape": [5, 8]}])
        self.assertEqual(said["launches"], 1)
        self.assertEqual(said["kernels"], {"found": 0, "compiled": 1})
        self.assertEqual(said["repeat"], 2)
        self.assertTrue(said["check"]["passed"])
        self.assertEqual(said["check"]["elements"], 40)
        self.assertLessEqual(said["check"]["worst_ratio"], 1)
        self.assertEqual(len(said["counters"]["launches"]), 1)
        self.assertGreater(said["timings"]["compile_ns"], 0)

    def test_auto_says_that_it_runs_on_the_emulated_device(self):
        done = kiln("run", "--local", self.graph(ADD), "--check")
        self.assertIn("check     passed: 3 elements", done.stdout)
        self.assertLessEqual(len(done.stderr.splitlines()), 1)  # none where there is a GPU

    def test_checkers_are_switched_by_name(self):
        for checkers in ("all", "none", "init,race"):
            kiln("run", *EMULATED, self.graph(ADD), "--checkers", checkers)
        self.assertIn("'everything'", self.misuse("run", *EMULATED, self.graph(ADD), "--checkers", "everything"))

    def test_options_of_local_runs_are_not_ignored_without_local(self):
        for option in (("--device", "emulated"), ("--checkers", "all")):
            self.assertIn("--local", self.misuse("run", self.graph(ADD), *option))

    def test_a_device_that_is_not_there_is_an_error(self):
        self.misuse("run", self.graph(ADD), "--local", "--device", "abacus")
        kiln("run", self.graph(ADD), "--local", "--device", "cuda:99", code=1)

    def test_without_a_compiler_the_error_names_what_was_tried(self):
        done = kiln("run", *EMULATED, self.graph(ADD), code=1, KILN_NVRTC="/nowhere.so")
        self.assertIn("UNAVAILABLE", done.stderr)
        self.assertIn("/nowhere.so", done.stderr)

    def test_a_folder_that_cannot_be_made_is_told_before_anything_runs(self):
        path = self.graph(ADD)
        done = kiln("run", *EMULATED, path, "--output-dir", path / "out", code=2, KILN_NVRTC="/nowhere.so")
        self.assertIn("g.kiln/out", done.stderr)  # not that there is no compiler

    def test_a_closed_standard_output_is_an_error(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([BUILD / "bin/kiln", "opt", self.graph(ADD)], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class Compile(Files):
    def test_plans_kernels_and_a_manifest_are_written(self):
        out = self.folder / "out"
        paths = [self.graph(ADD, "a.kiln"), self.graph(SYMBOLIC + ADD.replace("add", "sub"), "b.kiln")]
        kiln("compile", *paths, "--target", "sm_80,sm_90", "-o", out, "--local")
        entries = json.loads((out / "manifest.json").read_text())["graphs"]
        self.assertEqual([(entry["graph"], entry["target"]) for entry in entries],
                         [(graph, target) for graph in ("add", "table", "sub") for target in ("sm_80", "sm_90")])
        for entry in entries:
            self.assertTrue((out / f"{entry['plan']}.plan").stat().st_size)
            for kernel in entry["kernels"]:
                self.assertEqual(kernel["arch"], entry["target"])
                self.assertGreater(kernel["registers"], 0)
                self.assertEqual(kernel["spill_store_bytes"], 0)
                self.assertTrue((out / f"{kernel['key']}.cubin").read_bytes().startswith(b"\x7fELF"))
                self.assertIn(f".entry {kernel['entry']}", (out / f"{kernel['key']}.ptx").read_text())

    def test_the_same_graphs_give_the_same_bytes(self):
        path = self.graph(SYMBOLIC)
        for out in ("one", "two"):
            kiln("compile", path, "-o", self.folder / out, "--local")
        one, two = ({file.name: file.read_bytes() for file in (self.folder / out).iterdir()}
                    for out in ("one", "two"))
        self.assertEqual(one, two)

    def test_misuse(self):
        path = self.graph(ADD)
        self.assertIn("-o DIR", self.misuse("compile", path, "--local"))
        done = kiln("compile", path, "--local", "-o", self.folder, "--target", "sm_1", code=1)
        self.assertIn("sm_90", done.stderr)
        self.misuse("compile", path, "--local", "-o", path)


class Explain(Files):
    def test_json_has_what_the_wire_documents(self):
        said = json.loads(kiln("explain", self.graph(SYMBOLIC), "--local", "--json").stdout)
        for key in ("key", "cache", "kernels", "timings", "miss", "key_parts", "passes", "repetitions", "graph",
                    "typical", "groups", "boundaries", "launches", "sources"):
            self.assertIn(key, said)
        self.assertEqual(said["repetitions"], 1)
        self.assertIn("__global__", said["sources"][0]["source"])
        self.assertGreater(said["sources"][0]["registers"], 0)
        self.assertEqual(said["launches"][0]["kernel"], said["sources"][0]["key"])

    def test_groups_and_boundaries_have_the_bytes_that_shapes_give(self):
        path = self.graph("graph g(%x: f32[64,256], %w: f32[64,256]) {\n  %s = softmax(%x) {dim=1}\n"
                          "  %t = sum(%s) {dims=[0]}\n  %c = slice(%w) {starts=[0,0], limits=[1,256]}\n"
                          "  %y = add(%t, %c)\n  return %y\n}\n")
        said = json.loads(kiln("explain", path, "--local", "--json").stdout)
        rows, columns = said["groups"]
        matrix, row = 64 * 256 * 4, 256 * 4
        self.assertEqual([rows[k] for k in ("bytes_read", "bytes_written", "bytes_fewest")], [matrix, matrix, matrix])
        self.assertEqual([columns[k] for k in ("bytes_read", "bytes_written", "bytes_fewest")],
                         [matrix + row, row, 2 * row])
        (boundary,) = said["boundaries"]
        self.assertEqual((boundary["value"], boundary["bytes"]), (rows["stores"][0], matrix))
        self.assertIn(boundary["value"], columns["reads"])
        self.assertIn("threads have other elements", boundary["reason"])

    def test_a_launch_has_the_occupancy_of_its_registers_and_threads(self):
        said = json.loads(kiln("explain", self.graph(SYMBOLIC), "--local", "--json", "--target", "sm_80").stdout)
        launch = said["launches"][0]
        warps = (launch["block"][0] * launch["block"][1] * launch["block"][2] + 31) // 32
        per_warp = -(-launch["registers"] * 32 // 256) * 256
        occupancy = launch["occupancy"]
        self.assertEqual(occupancy["by_registers"], 16384 // per_warp * 4 // warps)
        self.assertEqual(occupancy["by_threads"], 64 // warps)
        self.assertEqual(occupancy["blocks_per_sm"], min(occupancy[k] for k in occupancy if k.startswith("by_")))
        self.assertEqual(occupancy["threads_per_sm"], occupancy["blocks_per_sm"] * warps * 32)

    def test_people_see_passes_groups_kernels_and_key_parts(self):
        said = kiln("explain", self.graph(SYMBOLIC), "--local").stdout
        for part in ("key parts:", "fingerprint: ", "passes (1 repetitions rewritten):", "groups (bytes at T", "boundaries:",
                     "launches:", "blocks per SM", "optimized graph:", "registers", "__global__"):
            self.assertIn(part, said)


if __name__ == "__main__":
    unittest.main()
