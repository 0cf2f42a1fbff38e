"""A DDL file's text beside its parsed form: lines of nodes, spelling of types, problems found so far."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import Filter, LogRecord, getLogger
from typing import TYPE_CHECKING

from sqlglot import Token, TokenType, exp, tokenize

from hivesink.errors import DdlProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPENING = {TokenType.L_PAREN: 1, TokenType.LT: 1, TokenType.R_PAREN: -1, TokenType.GT: -1}
# What may follow a type in a column definition.
_AFTER_TYPE = frozenset(
    {
        "CHECK",
        "COLLATE",
        "COMMENT",
        "CONSTRAINT",
        "DEFAULT",
        "DISABLE",
        "ENABLE",
        "ENCODE",
        "GENERATED",
        "NOT",
        "NULL",
        "PRIMARY",
        "REFERENCES",
        "UNIQUE",
    }
)


class _Mute(Filter):
    def filter(self, record: LogRecord) -> bool:  # noqa: ARG002  the base class's
        return False


@contextmanager
def quiet() -> Iterator[None]:
    """Mute sqlglot: it also logs what it falls back on, which here becomes a problem with a line."""
    logger, mute = getLogger("sqlglot"), _Mute()
    logger.addFilter(mute)
    try:
        yield
    finally:
        logger.removeFilter(mute)


@dataclass(slots=True)
class Source:
    """One file's text. Lines count from 1."""

    file: str
    text: str
    problems: list[DdlProblem] = field(default_factory=list)
    _tokens: list[Token] = field(default_factory=list)

    @property
    def tokens(self) -> list[Token]:
        """Raises sqlglot's TokenError for a quote that isn't closed."""
        if not self._tokens:
            self._tokens = tokenize(self.text, read="hive")
        return self._tokens

    def problem(self, at: exp.Expression | Token | int, reason: str) -> None:
        """Note what is wrong at a node, a token or on a line."""
        line = at if isinstance(at, int) else self.line(at)
        self.problems.append(DdlProblem(self.file, line, " ".join(reason.split())))

    def line(self, at: exp.Expression | Token) -> int:
        """Where a node's first token stands; a node without tokens of its own is on the statement's line."""
        if isinstance(at, Token):
            return self._line(at.start)
        starts = [node.meta["start"] for node in at.walk() if "start" in node.meta]
        return self._line(min(starts)) if starts else self.first_line()

    def first_line(self) -> int:
        """Where the statement begins."""
        return self._line(self.tokens[0].start) if self.tokens else 1

    def line_of(self, wanted: Callable[[Token], bool]) -> int:
        """The line of the first such token outside parentheses; the statement's where there is none."""
        depth = 0
        for token in self.tokens:
            depth += _OPENING.get(token.token_type, 0)
            if depth == 0 and wanted(token):
                return self._line(token.start)
        return self.first_line()

    def line_of_word(self, *words: str) -> int:
        """Where one of these keywords, in upper case, stands outside parentheses."""
        return self.line_of(lambda token: token.text.upper() in words and token.token_type != TokenType.STRING)

    def type_text(self, column: exp.Identifier) -> str:
        """The type behind a column's name as it is spelt, without comments of struct fields (Hive keeps none)."""
        texts, depth = [], 0
        tokens = [token for token in self.tokens if token.start > column.meta["end"]]
        for index, token in enumerate(tokens):
            if depth == 0 and (token.token_type == TokenType.COMMA or _ends_type(token)):
                break
            depth += _OPENING.get(token.token_type, 0)
            if depth < 0:
                break
            if not (_is_comment(tokens, index) or (index and _is_comment(tokens, index - 1))):
                texts.append(self.text[token.start : token.end + 1])
        return " ".join(texts)

    def _line(self, start: int) -> int:
        return self.text.count("\n", 0, start) + 1


def _ends_type(token: Token) -> bool:
    # Some tokens are of two words, such as PRIMARY KEY.
    return token.text.upper().partition(" ")[0] in _AFTER_TYPE and token.token_type != TokenType.IDENTIFIER


def _is_comment(tokens: list[Token], index: int) -> bool:
    following = tokens[index + 1 : index + 2]
    return (
        tokens[index].token_type == TokenType.COMMENT
        and bool(following)
        and following[0].token_type == TokenType.STRING
    )
