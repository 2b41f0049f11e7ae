"""A client that nobody wrote for kiln: Neovim's MessagePack-RPC, with its own idea of strings and empty maps."""
import json
import shutil
import subprocess
import unittest
from pathlib import Path

from daemon import SLOW, Daemon

SCRIPT = """
let channel = sockconnect('pipe', $KILN_SOCKET, {'rpc': v:true})
let graph = "graph g(%x: u8[2]) {\\n  %y = bitwise_not(%x)\\n  return %y\\n}\\n"
let compiled = rpcrequest(channel, 'compile', {'graph': graph})
let x = {'dtype': 'u8', 'shape': [2], 'data': 0z0102}
let result = rpcrequest(channel, 'execute', {'executable': compiled.executable, 'inputs': [x]})
let stats = rpcrequest(channel, 'stats')
let health = rpcrequest(channel, 'health', {})
try
  call rpcrequest(channel, 'nothing')
  let failure = ''
catch
  let failure = v:exception
endtry
call writefile([result.outputs[0].data], $KILN_OUT . '.data', 'b')
call writefile([json_encode({'compiled': compiled, 'stats': stats, 'live': health.live, 'failure': failure})], $KILN_OUT)
qall!
"""


@unittest.skipUnless(shutil.which("nvim"), "Neovim is not installed")
class NeovimTest(unittest.TestCase):
    # Its strings end at a NUL, so the data has none.
    def test_neovim_compiles_executes_and_reads_stats(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        script, out = daemon.folder / "talk.vim", daemon.folder / "out.json"
        script.write_text(SCRIPT)
        done = subprocess.run(["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-S", script], capture_output=True,
                              timeout=60 * SLOW, check=False,
                              env={"PATH": "/usr/bin:/bin", "KILN_SOCKET": str(daemon.socket), "KILN_OUT": str(out),
                                   "HOME": str(daemon.folder)})
        self.assertTrue(out.exists(), done.stderr.decode())
        told = json.loads(out.read_text())
        self.assertEqual((told["compiled"]["executable"], told["compiled"]["cache"]), (1, "compiled"))
        self.assertEqual(Path(f"{out}.data").read_bytes(), b"\xfe\xfd")
        self.assertGreaterEqual(told["stats"]["session"]["requests"], 3)
        self.assertTrue(told["live"])
        self.assertIn("nothing", told["failure"])


if __name__ == "__main__":
    unittest.main()
