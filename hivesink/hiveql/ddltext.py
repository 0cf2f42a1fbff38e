"""A DDL file's text: the lines of its parsed parts, the spelling of its types, and the problems in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sqlglot import Token, TokenType, exp

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


@dataclass(slots=True)
class DdlText:
    """One file's text. Lines count from 1."""

    file: str
    text: str
    problems: list[DdlProblem] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)

    def __post_init__(self) -> None:
        # As Python reads text files; sqlglot also counts a lone \r as a line.
        self.text = self.text.replace("\r\n", "\n").replace("\r", "\n")

    def problem(self, at: exp.Expression | Token | int, reason: str) -> None:
        """`at`: a node, a token or a line."""
        line = at if isinstance(at, int) else self.line(at)
        self.problems.append(DdlProblem(self.file, line, " ".join(reason.split())))

    def line(self, at: exp.Expression | Token) -> int:
        """The line of a node's first token, or of the statement if the node has no tokens."""
        starts = [at.start] if isinstance(at, Token) else [n.meta["start"] for n in at.walk() if "start" in n.meta]
        return self.text.count("\n", 0, min(starts, default=self.tokens[0].start)) + 1

    def line_of_word(self, word: str) -> int:
        """The line of a keyword (in upper case) outside parentheses, or of the statement if it isn't there."""
        outside = (token for token in self.outside() if token.token_type != TokenType.STRING)
        return self.line(next((token for token in outside if token.text.upper() == word), self.tokens[0]))

    def outside(self) -> list[Token]:
        """The tokens outside parentheses and angle brackets."""
        tokens, depth = [], 0
        for token in self.tokens:
            change = _OPENING.get(token.token_type, 0)
            depth += change
            if depth == 0 and not change:
                tokens.append(token)
        return tokens

    def line_of_setting(self, problem: str) -> int | None:
        """The line of the property that `problem` begins with, whatever its case, as it is set last; None: nowhere."""
        name = re.split(r"[\s:=]", problem, maxsplit=1)[0].lower()
        lines = [
            self.line(token)
            for token, following in pairwise(self.tokens)
            if (token.token_type, following.token_type) == (TokenType.STRING, TokenType.EQ)
            and token.text.lower() == name
        ]
        return lines[-1] if lines else None

    def type_text(self, column: exp.Identifier) -> str:
        """The type after a column's name as written, without comments of struct fields (Hive drops those)."""
        texts, depth = [], 0
        tokens = [token for token in self.tokens if token.start > column.meta["end"]]
        for token, following in pairwise([*tokens, tokens[-1]]):
            is_end = token.token_type != TokenType.IDENTIFIER and _AFTER_TYPE.fullmatch(token.text.upper())
            if depth == 0 and (token.token_type == TokenType.COMMA or is_end):
                break
            depth += _OPENING.get(token.token_type, 0)
            if depth < 0:
                break
            is_comment = (token.token_type, following.token_type) == (TokenType.COMMENT, TokenType.STRING)
            if not is_comment and token.token_type != TokenType.STRING:
                texts.append(self.text[token.start : token.end + 1])
        return " ".join(texts)
