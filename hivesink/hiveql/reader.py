"""The words of a DDL file's statement, read from left to right, and the problems found on the way."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<name>`(?:[^`]|``)+`)
    | (?P<word>\w+)
    | (?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\([01][0-7]{2})|\\(.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class DdlProblem(NamedTuple):
    """One mistake in a DDL file; `line` counts from 1, and 0 means the file as a whole."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' * bool(self.line)}: {self.reason}"


class UnreadableError(Exception):
    """The problem is told, and what comes behind it can't be read."""


class Token(NamedTuple):
    """`kind`: text, name (in back-quotes), word, sign or end; `start`: its place in the file."""

    kind: str
    text: str
    start: int


@dataclass(slots=True)
class Reader:
    """A file's text, read up to the token `at`; `fail`, `expect` and all that take a token raise UnreadableError."""

    file: str
    text: str
    at: int = 0
    tokens: list[Token] = field(default_factory=list)
    problems: list[DdlProblem] = field(default_factory=list)

    def __post_init__(self) -> None:
        # As Python reads text files.
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")
        tokens = [Token(str(match.lastgroup), match[0], match.start()) for match in _TOKEN.finditer(self.text)]
        self.tokens = [token for token in tokens if token.kind != "blank"]
        self.tokens.append(Token("end", "", self.tokens[-1].start if self.tokens else 0))

    @property
    def token(self) -> Token:
        """The next one."""
        return self.tokens[self.at]

    def line(self, start: int) -> int:
        return self.text.count("\n", 0, start) + 1

    def problem(self, start: int, reason: str) -> None:
        self.problems.append(DdlProblem(self.file, self.line(start), " ".join(reason.split())))

    def fail(self, expected: str = "") -> NoReturn:
        """Tell that the next token can't be here."""
        kind, text, start = self.token
        reason = f"not understood, or not supported, at {text!r}" if text else "the text ends too early"
        if kind == "sign" and text in "'\"`":
            reason = f"unclosed {text}"
        self.problem(start, f"{reason}; expected {expected}" if expected else reason)
        raise UnreadableError

    def skip(self, words: str) -> bool:
        """Pass these words or signs if they come next."""
        wanted = words.split()
        ahead = self.tokens[self.at : self.at + len(wanted)]
        is_next = [token.text.upper() for token in ahead if token.kind in {"word", "sign"}] == wanted
        self.at += len(wanted) * is_next
        return is_next

    def expect(self, words: str) -> None:
        for word in words.split():
            if not self.skip(word):
                self.fail(word)

    def take(self, *kinds: str) -> str:
        kind, text, _ = self.token
        if kind not in kinds:
            self.fail()
        self.at += 1
        return text

    def name(self) -> str:
        """A name, with or without back-quotes."""
        text = self.take("name", "word")
        return text[1:-1].replace("``", "`") if text[0] == "`" else text

    def string(self, after: str = "") -> str:
        """The value of a text in quotes behind a word, by Hive's escapes (`BaseSemanticAnalyzer.unescapeSQLString`)."""

        def char(match: re.Match[str]) -> str:
            code, octal, letter = match.groups()
            return _ESCAPED.get(letter, letter) if letter else chr(int(code, 16) if code else int(octal, 8))

        self.expect(after)
        text = _ESCAPE.sub(char, self.take("text")[1:-1])
        # Java writes a character beyond 16 bits as two of its own.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
