"""Reading sources for the lint: which files there are, and their code without comments and texts."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".cpp", ".hpp", ".c"}
# Rooms in the order of their arrows; a file elsewhere (tests, bench, examples) may include what it likes.
ROOMS = ("model", "scheduler", "db", "providers", "checkpoints", "config", "agent", "cli", "simulator", "replay", "daemon")

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<raw>R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)")"""
    r"""|(?P<text>"(?:\\.|[^"\\\n])*")"""
    r"""|(?P<char>(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+')""",
    re.DOTALL,
)


def files(root=ROOT):
    """Every file that git tracks or would track, as paths relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True).stdout
    names = sorted({name.decode() for name in listed.split(b"\0") if name})
    return [pathlib.PurePosixPath(name) for name in names if (root / name).is_file()]


def bare(code, keep_texts=False):
    """The code with comments (and, unless told otherwise, texts) blanked; line numbers stay."""
    def blank(match):
        if keep_texts and match["comment"] is None:
            return match[0]
        lines = "\n" * match[0].count("\n")
        return lines if match["comment"] else '""' + lines
    return _TOKEN.sub(blank, code)


def line_of(code, position):
    return code.count("\n", 0, position) + 1


def room_of(path):
    """The room of a file; None outside the rooms. Scheduler tests are not in the room "scheduler"."""
    return path.parts[0] if path.parts[0] in ROOMS else None
