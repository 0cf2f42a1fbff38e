"""A DDL file's text: the lines of its parsed parts, the spelling of its types, and the problems in it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from logging import getLogger
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import Token, TokenType, exp, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENING = {TokenType.L_PAREN: 1, TokenType.LT: 1, TokenType.R_PAREN: -1, TokenType.GT: -1}
# What may follow a type in a column definition.
_AFTER_TYPE = re.compile(
    r"(?:CHECK|COLLATE|COMMENT|CONSTRAINT|DEFAULT|DISABLE|ENABLE|ENCODE|GENERATED|NOT|NULL|PRIMARY|REFERENCES|UNIQUE)"
    r"(?: .*)?",  # Some tokens have two words, such as PRIMARY KEY.
    re.DOTALL,
)


class DdlProblem(NamedTuple):
    """One mistake in a DDL file; `line` counts from 1, and 0 means the file as a whole."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}{f':{self.line}' * bool(self.line)}: {self.reason}"


@contextmanager
def quiet() -> Iterator[None]:
    """Mute sqlglot: it logs unsupported syntax, which becomes a problem with a line here."""
    logger = getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def nesting(token: Token) -> int:
    """1 for what opens parentheses or angle brackets, -1 for what closes them, else 0."""
    return _OPENING.get(token.token_type, 0)


@dataclass(slots=True)
class DdlText:
    """One file's text. Lines count from 1."""

    file: str
    text: str
    problems: list[DdlProblem] = field(default_factory=list)
    _tokens: list[Token] = field(default_factory=list)

    @property
    def tokens(self) -> list[Token]:
        """Raises sqlglot's TokenError for an unclosed quote."""
        if not self._tokens:
            self._tokens = tokenize(self.text, read="hive")
        return self._tokens

    def __post_init__(self) -> None:
        # As Python reads text files; sqlglot also counts a lone \r as a line.
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")

    def sorted_problems(self) -> tuple[DdlProblem, ...]:
        """Those found so far, by line."""
        return tuple(sorted(self.problems, key=lambda problem: problem.line))

    def problem(self, at: exp.Expression | Token | int, reason: str) -> None:
        """`at`: a node, a token or a line."""
        line = at if isinstance(at, int) else self.line(at)
        self.problems.append(DdlProblem(self.file, line, " ".join(reason.split())))

    def line(self, at: exp.Expression | Token) -> int:
        """The line of a node's first token, or of the statement if the node has no tokens."""
        if isinstance(at, Token):
            return self._line(at.start)
        starts = [node.meta["start"] for node in at.walk() if "start" in node.meta]
        return self._line(min(starts)) if starts else self.first_line()

    def first_line(self) -> int:
        return self._line(self.tokens[0].start) if self.tokens else 1

    def line_of_word(self, word: str) -> int:
        """The line of a keyword (in upper case) outside parentheses, or of the statement if it isn't there."""
        depth = 0
        for token in self.tokens:
            depth += nesting(token)
            if depth == 0 and token.text.upper() == word and token.token_type != TokenType.STRING:
                return self._line(token.start)
        return self.first_line()

    def line_of_setting(self, problem: str) -> int | None:
        """The line of the property that `problem` begins with, whatever its case, as it is set last; None: nowhere."""
        name = re.split(r"[\s:=]", problem, maxsplit=1)[0].lower()
        starts = [
            token.start
            for token, following in pairwise(self.tokens)
            if (token.token_type, following.token_type, token.text.lower()) == (TokenType.STRING, TokenType.EQ, name)
        ]
        return self._line(starts[-1]) if starts else None

    def type_text(self, column: exp.Identifier) -> str:
        """The type after a column's name as written, without comments of struct fields (Hive drops those)."""
        texts, depth = [], 0
        tokens = [token for token in self.tokens if token.start > column.meta["end"]]
        for index, token in enumerate(tokens):
            if depth == 0 and (token.token_type == TokenType.COMMA or _ends_type(token)):
                break
            depth += nesting(token)
            if depth < 0:
                break
            if not (_is_comment(tokens, index) or (index and _is_comment(tokens, index - 1))):
                texts.append(self.text[token.start : token.end + 1])
        return " ".join(texts)

    def _line(self, start: int) -> int:
        return self.text.count("\n", 0, start) + 1


def _ends_type(token: Token) -> bool:
    return token.token_type != TokenType.IDENTIFIER and bool(_AFTER_TYPE.fullmatch(token.text.upper()))


def _is_comment(tokens: list[Token], index: int) -> bool:
    return [token.token_type for token in tokens[index : index + 2]] == [TokenType.COMMENT, TokenType.STRING]
