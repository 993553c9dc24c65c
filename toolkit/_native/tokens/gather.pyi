from typing import Self

from toolkit._native.shards.body import Body

class TokenShard:
    tokens: int
    def __new__(cls, bodies: list[Body], ids: int, ends: int, width: int) -> Self: ...
